// SPDX-License-Identifier: MIT
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

namespace {

constexpr unsigned parties = 4;

struct account {
    std::atomic<std::uint64_t> waited{0}, late{0}, stopped{0}, wrong{0};

    std::uint64_t ended() const { return waited + late + stopped; }
};

bool note(account& all, const weft::result<void>& waited) {
    if (waited) {
        ++all.waited;
        return true;
    }
    if (waited.error() == std::errc::timed_out) {
        ++all.late;
    } else if (waited.error() == std::errc::operation_canceled) {
        ++all.stopped;
    } else {
        ++all.wrong;
    }
    return false;
}

weft::task<> yield_some(unsigned count) {
    for (; count != 0; --count) co_await weft::yield();
}

weft::task<> write_and_finish(int& into, weft::wait_group& group, unsigned yields) {
    co_await yield_some(yields);
    into = 1;
    group.done();
}

// Plain variables, so that ThreadSanitizer sees whether done() and wait() order them.
bool all_written(const int (&written)[parties]) {
    return std::all_of(std::begin(written), std::end(written), [](int each) { return each == 1; });
}

weft::task<> watch_group(weft::wait_group& group, account& all, const int (&written)[parties],
                         unsigned patience) {
    const auto waited = co_await weft::as_result(
        weft::with_timeout(std::chrono::nanoseconds(patience), group.wait()));
    if (note(all, waited) && !all_written(written)) ++all.wrong;
}

weft::task<> group_rounds(std::size_t count, unsigned seed, account& all,
                          weft::test::watchdog& dog) {
    std::minstd_rand random(seed);
    while (all.ended() < count) {
        auto group = std::make_unique<weft::wait_group>();
        int written[parties] = {};
        std::vector<weft::join_handle<void>> tasks;
        std::vector<weft::join_handle<void>> watchers;
        for (int& each : written) {
            group->add();
            tasks.push_back(weft::co_spawn(write_and_finish, std::ref(each), std::ref(*group),
                                           static_cast<unsigned>(random() % 4)));
        }
        for (unsigned others = random() % 3; others != 0; --others) {
            watchers.push_back(weft::co_spawn(watch_group, std::ref(*group), std::ref(all),
                                              std::cref(written),
                                              static_cast<unsigned>(random() % 8'000)));
        }
        for (auto& each : watchers) {
            if (random() % 4 == 0) {
                co_await weft::yield();
                each.request_stop();
            }
            static_cast<void>(co_await weft::as_result(std::move(each)));
        }
        co_await group->wait();
        group = nullptr;
        ++all.waited;
        if (!all_written(written)) ++all.wrong;
        for (auto& each : tasks) co_await std::move(each);
        dog.progress();
    }
}

weft::task<> arrive(weft::latch& at, account& all, std::atomic<unsigned>& arrived,
                    unsigned patience) {
    ++arrived;
    if (patience != 0) {
        const auto waited = co_await weft::as_result(
            weft::with_timeout(std::chrono::nanoseconds(patience), at.arrive_and_wait()));
        if (note(all, waited) && arrived != parties) ++all.wrong;
    } else {
        const auto waited = co_await weft::as_result(at.arrive_and_wait());
        if (note(all, waited) && arrived != parties) ++all.wrong;
    }
}

weft::task<> latch_rounds(std::size_t count, unsigned seed, account& all,
                          weft::test::watchdog& dog) {
    std::minstd_rand random(seed);
    while (all.ended() < count) {
        auto latch = std::make_unique<weft::latch>(parties);
        std::atomic<unsigned> arrived{0};
        std::vector<weft::join_handle<void>> tasks;
        for (unsigned who = 1; who < parties; ++who) {
            const bool hurried = random() % 2 == 0;
            tasks.push_back(
                weft::co_spawn(arrive, std::ref(*latch), std::ref(all), std::ref(arrived),
                               hurried ? 1 + static_cast<unsigned>(random() % 8'000) : 0U));
        }
        // One that is stopped before it starts does not arrive.
        while (arrived != parties - 1) co_await weft::yield();
        if (random() % 4 == 0) tasks[random() % tasks.size()].request_stop();
        if (random() % 4 == 0) co_await weft::yield();
        ++arrived;
        co_await latch->arrive_and_wait();
        for (auto& each : tasks) co_await std::move(each);
        latch = nullptr;
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
    account all;
    std::vector<weft::join_handle<void>> tasks;
    for (unsigned i = 0; i < 4; ++i) {
        tasks.push_back(
            runtime.co_spawn(rounds, std::size_t(total), seed + i, std::ref(all), std::ref(dog)));
    }
    for (auto& each : tasks) each.get();
    CHECK(all.wrong == 0);
    CHECK(all.waited != 0);
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
