// SPDX-License-Identifier: MIT
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

namespace {

constexpr unsigned parties = 8;

/// Of an event that one task sets and resets in turn.
struct account {
    std::atomic<std::uint64_t> sets_begun{0}, resets_done{0};
    std::atomic<std::uint64_t> waited{0}, late{0}, stopped{0}, wrong{0};
    std::atomic<unsigned> waiting{parties};

    std::uint64_t ended() const { return waited + late + stopped; }
};

/// Counts how a wait that began after `resets` resets has ended. False: the task is stopped.
bool note(account& all, std::uint64_t resets, const weft::result<void>& waited) {
    if (waited) {
        ++all.waited;
        // It has been set at some time since the wait began.
        if (all.sets_begun <= resets) ++all.wrong;
        return true;
    }
    if (waited.error() == std::errc::timed_out) {
        ++all.late;
        return true;
    }
    if (waited.error() != std::errc::operation_canceled) ++all.wrong;
    ++all.stopped;
    return false;
}

weft::task<> wait_often(weft::event& awaited, account& all, unsigned seed) {
    std::minstd_rand random(seed);
    for (std::size_t left = 1 + random() % 50; left != 0; --left) {
        const std::uint64_t resets = all.resets_done;
        if (random() % 2 == 0) {
            const auto waited = co_await weft::as_result(
                weft::with_timeout(std::chrono::nanoseconds(random() % 4'000), awaited.wait()));
            note(all, resets, waited);
        } else {
            const auto waited = co_await weft::as_result(awaited.wait());
            if (!note(all, resets, waited)) break;
        }
    }
}

/// Has tasks wait until `count` waits have ended. Some of these tasks are stopped at some point.
weft::task<> wait_until_enough(weft::event& awaited, account& all, std::size_t count,
                               unsigned seed) {
    std::minstd_rand random(seed);
    while (all.ended() < count) {
        auto inner = weft::co_spawn(wait_often, std::ref(awaited), std::ref(all),
                                    static_cast<unsigned>(random()));
        for (unsigned yields = random() % 32; yields != 0; --yields) co_await weft::yield();
        if (random() % 2 == 0) inner.request_stop();
        // One that was stopped before it started is destroyed, and throws.
        static_cast<void>(co_await weft::as_result(std::move(inner)));
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
    std::vector<weft::join_handle<void>> tasks;
    for (unsigned who = 0; who < parties; ++who) {
        tasks.push_back(weft::co_spawn(wait_until_enough, std::ref(happened), std::ref(all),
                                       std::size_t(count), seed + who));
    }
    tasks.push_back(
        weft::co_spawn(set_and_reset, std::ref(happened), std::ref(all), seed + parties));
    for (auto& each : tasks) {
        co_await std::move(each);
        dog.progress();
    }
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
    CHECK(all.waited != 0);
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
