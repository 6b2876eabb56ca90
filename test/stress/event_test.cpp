// SPDX-License-Identifier: MIT
#include "stress/hurried.hpp"
#include "stress/random_stop.hpp"
#include "stress/wait_account.hpp"
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

// Storms at events: some set and reset them, many wait, and are stopped or late at any point.
// Nobody may go on before the event is set, and in the end nobody may be left waiting.

using namespace std::chrono_literals;
using weft::test::hurried;
using weft::test::side_by_side;
using weft::test::with_random_stop;

namespace {

constexpr unsigned parties = 8;

/// Of an event that one task sets and resets in turn.
struct account : weft::test::wait_account {
    std::atomic<std::uint64_t> sets_begun{0}, resets_done{0};
    std::atomic<unsigned> waiting{parties};
};

/// Counts how a wait that began after `resets` resets has ended.
void note(account& all, std::uint64_t resets, const weft::result<void>& waited) {
    // It has been set at some time since the wait began.
    if (all.note(waited) && all.sets_begun <= resets) ++all.wrong;
}

weft::task<> wait_often(weft::event& awaited, account& all, unsigned seed) {
    std::minstd_rand random(seed);
    for (std::size_t left = 1 + random() % 50; left != 0; --left) {
        const std::uint64_t resets = all.resets_done;
        if (random() % 2 == 0) {
            note(all, resets, co_await hurried(awaited.wait(), random));
        } else {
            const auto waited = co_await weft::as_result(awaited.wait());
            note(all, resets, waited);
            if (!waited) break;
        }
    }
}

/// Has tasks wait until `count` waits have ended. Some of these tasks are stopped at some point.
weft::task<> wait_until_enough(weft::event& awaited, account& all, std::size_t count, unsigned seed,
                               weft::test::watchdog& dog) {
    std::minstd_rand random(seed);
    while (all.ended() < count) {
        co_await with_random_stop(wait_often(awaited, all, static_cast<unsigned>(random())),
                                  random);
        dog.progress();
    }
    --all.waiting;
}

weft::task<> set_and_reset(weft::event& to_set, account& all, unsigned seed) {
    std::minstd_rand random(seed);
    while (all.waiting != 0) {
        ++all.sets_begun;
        to_set.set();
        if (random() % 8 == 0) co_await weft::yield();
        to_set.reset();
        ++all.resets_done;
        for (unsigned yields = random() % 16; yields != 0; --yields) co_await weft::yield();
    }
}

weft::task<> storm_task(std::size_t count, unsigned seed, account& all, weft::test::watchdog& dog) {
    weft::event happened;
    std::vector<weft::task<>> tasks;
    for (unsigned who = 0; who < parties; ++who) {
        tasks.push_back(wait_until_enough(happened, all, count, seed + who, dog));
    }
    tasks.push_back(set_and_reset(happened, all, seed + parties));
    co_await side_by_side(std::move(tasks));
}

void storm(unsigned processors) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    const std::size_t total = weft::test::scaled_count(100'000, 1'000'000);
    weft::runtime runtime({.processors = processors});
    weft::test::watchdog dog(60s, [&] { return weft::test::describe(runtime.statistics()); });
    account all;
    runtime.co_spawn(storm_task, total, seed, std::ref(all), std::ref(dog)).get();
    CHECK(all.wrong == 0);
    CHECK(all.done != 0);
    CHECK(all.late != 0);
    CHECK(all.stopped != 0);
    CHECK(all.ended() >= total);
}

/// The waiter frees the event while set() may not have returned.
weft::task<> set_and_free(std::size_t rounds, weft::test::watchdog& dog) {
    for (std::size_t i = 0; i < rounds; ++i) {
        auto happened = std::make_unique<weft::event>();
        auto setter = weft::co_spawn(
            [](weft::event& to_set) -> weft::task<> {
                to_set.set();
                co_return;
            },
            std::ref(*happened));
        if (i % 2 == 0) co_await weft::yield();
        co_await happened->wait();
        happened = nullptr;
        co_await std::move(setter);
        dog.progress();
    }
}

}  // namespace

TEST_CASE("stress: an event forgets no waiter, 2 processors", "[stress]") {
    storm(2);
}

TEST_CASE("stress: an event forgets no waiter, 8 processors", "[stress]") {
    storm(8);
}

TEST_CASE("stress: whoever has waited for an event may free it", "[stress]") {
    const std::size_t rounds = weft::test::scaled_count(20'000, 200'000);
    weft::runtime runtime({.processors = 2});
    weft::test::watchdog dog(20s, [&] { return weft::test::describe(runtime.statistics()); });
    runtime.co_spawn(set_and_free, rounds, std::ref(dog)).get();
}
