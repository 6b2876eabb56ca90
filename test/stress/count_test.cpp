// SPDX-License-Identifier: MIT
#include "stress/hurried.hpp"
#include "stress/random_stop.hpp"
#include "stress/wait_account.hpp"
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

// Storms at wait groups and latches, a new one for each round: nobody may go on before everything
// has happened, or be forgotten after that, and whoever has waited frees the object at once, while
// the last one may still be in done() or count_down().

using namespace std::chrono_literals;
using weft::test::hurried;
using weft::test::side_by_side;
using weft::test::wait_account;
using weft::test::with_random_stop;
using weft::test::yield_some;

namespace {

constexpr unsigned parties = 4;

weft::task<> write_and_finish(int& into, weft::wait_group& group, unsigned yields) {
    co_await yield_some(yields);
    into = 1;
    group.done();
}

// Plain variables, so that ThreadSanitizer sees whether done() and wait() order them.
bool all_written(const int (&written)[parties]) {
    return std::all_of(std::begin(written), std::end(written), [](int each) { return each == 1; });
}

weft::task<> watch_group(weft::wait_group& group, wait_account& all, const int (&written)[parties],
                         unsigned seed) {
    std::minstd_rand random(seed);
    const auto waited = random() % 2 == 0 ? co_await hurried(group.wait(), random)
                                          : co_await weft::as_result(group.wait());
    if (all.note(waited) && !all_written(written)) ++all.wrong;
}

weft::task<> watch_and_be_stopped(weft::wait_group& group, wait_account& all,
                                  const int (&written)[parties], unsigned seed) {
    std::minstd_rand random(seed);
    co_await with_random_stop(watch_group(group, all, written, static_cast<unsigned>(random())),
                              random, {.longest = 4});
}

/// Frees the group as soon as it may, while the last of those who write may still be in done().
weft::task<> wait_and_free(std::unique_ptr<weft::wait_group> group, wait_account& all,
                           const int (&written)[parties], unsigned seed) {
    std::minstd_rand random(seed);
    std::vector<weft::task<>> watchers;
    for (unsigned others = random() % 4; others != 0; --others) {
        watchers.push_back(
            watch_and_be_stopped(*group, all, written, static_cast<unsigned>(random())));
    }
    co_await side_by_side(std::move(watchers));
    co_await group->wait();
    group = nullptr;
    ++all.done;
    if (!all_written(written)) ++all.wrong;
}

weft::task<> group_rounds(std::size_t count, unsigned seed, wait_account& all,
                          weft::test::watchdog& dog) {
    std::minstd_rand random(seed);
    while (all.ended() < count) {
        auto group = std::make_unique<weft::wait_group>();
        int written[parties] = {};
        std::vector<weft::task<>> tasks;
        for (int& each : written) {
            group->add();
            tasks.push_back(write_and_finish(each, *group, static_cast<unsigned>(random() % 4)));
        }
        tasks.push_back(
            wait_and_free(std::move(group), all, written, static_cast<unsigned>(random())));
        co_await side_by_side(std::move(tasks));
        dog.progress();
    }
}

struct meeting {
    weft::latch latch{parties};
    std::atomic<unsigned> arrived{0};
};

/// Waits at the latch, where it has arrived before or does so in one step.
weft::task<> wait_at(meeting& at, wait_account& all, bool arrives, unsigned seed) {
    std::minstd_rand random(seed);
    weft::result<void> waited;
    if (arrives) {
        waited = random() % 2 == 0 ? co_await hurried(at.latch.arrive_and_wait(), random)
                                   : co_await weft::as_result(at.latch.arrive_and_wait());
    } else {
        waited = random() % 2 == 0 ? co_await hurried(at.latch.wait(), random)
                                   : co_await weft::as_result(at.latch.wait());
    }
    if (all.note(waited) && at.arrived != parties) ++all.wrong;
}

weft::task<> arrive(meeting& at, wait_account& all, unsigned seed) {
    std::minstd_rand random(seed);
    ++at.arrived;
    if (random() % 2 == 0) {
        co_await wait_at(at, all, true, static_cast<unsigned>(random()));
    } else {
        // One that is stopped before it starts would not arrive.
        at.latch.count_down();
        co_await with_random_stop(wait_at(at, all, false, static_cast<unsigned>(random())), random,
                                  {.longest = 4});
    }
}

weft::task<> latch_rounds(std::size_t count, unsigned seed, wait_account& all,
                          weft::test::watchdog& dog) {
    std::minstd_rand random(seed);
    while (all.ended() < count) {
        const auto at = std::make_unique<meeting>();
        std::vector<weft::task<>> tasks;
        for (unsigned who = 0; who < parties; ++who) {
            tasks.push_back(arrive(*at, all, static_cast<unsigned>(random())));
        }
        co_await side_by_side(std::move(tasks));
        dog.progress();
    }
}

template <class Rounds>
void storm(unsigned processors, Rounds rounds) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    const std::size_t total = weft::test::scaled_count(100'000, 1'000'000);
    weft::runtime runtime({.processors = processors});
    weft::test::watchdog dog(60s, [&] { return weft::test::describe(runtime.statistics()); });
    wait_account all;
    std::vector<weft::join_handle<void>> tasks;
    for (unsigned i = 0; i < 4; ++i) {
        tasks.push_back(
            runtime.co_spawn(rounds, std::size_t(total), seed + i, std::ref(all), std::ref(dog)));
    }
    for (auto& each : tasks) each.get();
    CHECK(all.wrong == 0);
    CHECK(all.done != 0);
    CHECK(all.late != 0);
    CHECK(all.stopped != 0);
    CHECK(all.ended() >= total);
}

}  // namespace

TEST_CASE("stress: a wait group waits for all, and whoever has waited frees it", "[stress]") {
    for (const unsigned processors : {2U, 8U}) storm(processors, group_rounds);
}

TEST_CASE("stress: those who arrive at a latch go on when all have arrived", "[stress]") {
    for (const unsigned processors : {2U, 8U}) storm(processors, latch_rounds);
}
