// SPDX-License-Identifier: MIT
#include "stress/hurried.hpp"
#include "stress/random_stop.hpp"
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <system_error>
#include <vector>

// Storms at a bounded queue that a mutex guards, with a condition for either side: waits are
// stopped at any point, and each notification goes to one task. A notification that were lost
// would leave a task asleep beside what it waits for; each value is received once.

using namespace std::chrono_literals;
using weft::test::hurried;
using weft::test::side_by_side;
using weft::test::with_random_stop;

namespace {

constexpr std::size_t room = 2;

struct account {
    weft::mutex m;
    weft::condition_variable not_empty, not_full;
    std::deque<std::uint64_t> values;
    std::uint64_t left = 0;  // Values that are still to be received.
    std::atomic<bool> inside{false};
    std::atomic<std::uint64_t> sent{0}, received{0}, sum{0}, late{0}, stopped{0}, wrong{0};
};

using guard = weft::unique_lock<weft::mutex>;

/// Waits until the condition holds, now and then only for a time. True: it holds.
template <class Condition>
weft::task<bool> wait_for(account& all, weft::condition_variable& changed, guard& held,
                          std::minstd_rand& random, Condition condition) {
    while (!condition()) {
        if (random() % 4 != 0) {
            co_await changed.wait(held);
        } else {
            const auto waited = co_await hurried(changed.wait(held), random);
            if (!waited) {
                ++all.late;
                if (waited.error() != std::errc::timed_out) ++all.wrong;
            }
        }
        // Whatever ended the wait, the mutex is this task's.
        if (!held || all.m.holder() != weft::this_task::id()) ++all.wrong;
        if (all.inside.exchange(true)) ++all.wrong;
        all.inside = false;
    }
    co_return true;
}

weft::task<> send_all(account& all, std::size_t count, std::uint64_t first, unsigned seed) {
    std::minstd_rand random(seed);
    for (std::size_t i = 0; i < count; ++i) {
        guard held = co_await all.m.scoped_lock();
        co_await wait_for(all, all.not_full, held, random,
                          [&] { return all.values.size() < room; });
        all.values.push_back(first + i);
        ++all.sent;
        if (random() % 2 == 0) held.unlock();
        all.not_empty.notify_one();
    }
}

weft::task<> receive_all(account& all, unsigned seed, weft::test::watchdog& dog) {
    std::minstd_rand random(seed);
    for (;;) {
        guard held = co_await all.m.scoped_lock();
        co_await wait_for(all, all.not_empty, held, random,
                          [&] { return !all.values.empty() || all.left == 0; });
        if (all.left == 0) co_return;
        all.sum += all.values.front();
        all.values.pop_front();
        ++all.received;
        if (--all.left == 0) all.not_empty.notify_all();
        if (random() % 2 == 0) held.unlock();
        all.not_full.notify_one();
        dog.progress();
    }
}

/// Waits in the way of the others, and is stopped there; it must use up no notification.
weft::task<> stand_in_line(account& all, weft::condition_variable& changed) {
    guard held = co_await all.m.scoped_lock();
    const auto waited = co_await weft::as_result(changed.wait(held));
    if (!held) ++all.wrong;
    if (waited) {
        changed.notify_one();  // It was another one's.
    } else {
        ++all.stopped;
    }
}

/// Has somebody stand in line until all was received.
weft::task<> keep_in_line(account& all, weft::condition_variable& changed, std::uint64_t total,
                          unsigned seed) {
    std::minstd_rand random(seed);
    while (all.received < total) {
        co_await with_random_stop(stand_in_line(all, changed), random,
                                  {.longest = 8, .always = true});
    }
}

weft::task<> storm_task(account& all, std::size_t count, unsigned seed, weft::test::watchdog& dog) {
    constexpr unsigned parties = 4;
    const std::uint64_t total = parties * count;
    all.left = total;
    std::vector<weft::task<>> tasks;
    for (unsigned who = 0; who < parties; ++who) {
        tasks.push_back(send_all(all, count, who * count, seed + who));
        tasks.push_back(receive_all(all, seed + 100 + who, dog));
    }
    tasks.push_back(keep_in_line(all, all.not_empty, total, seed + 200));
    tasks.push_back(keep_in_line(all, all.not_full, total, seed + 201));
    co_await side_by_side(std::move(tasks));
}

void storm(unsigned processors) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    const std::size_t count = weft::test::scaled_count(100'000, 1'000'000) / 4;
    weft::runtime runtime({.processors = processors});
    account all;
    {
        weft::test::watchdog dog(20s, [&] {
            return std::to_string(all.received) + " received, mutex held by task " +
                   std::to_string(all.m.holder()) + "\n" +
                   weft::test::describe(runtime.statistics());
        });
        runtime.co_spawn(storm_task, std::ref(all), count, seed, std::ref(dog)).get();
    }
    const std::uint64_t total = 4 * count;
    CHECK(all.wrong == 0);
    CHECK(all.late != 0);
    CHECK(all.stopped != 0);
    CHECK(all.sent == total);
    CHECK(all.received == total);
    CHECK(all.sum == total * (total - 1) / 2);
    CHECK(all.m.try_lock());
    all.m.unlock();
}

}  // namespace

TEST_CASE("stress: no notification of a condition is lost, 2 processors", "[stress]") {
    storm(2);
}

TEST_CASE("stress: no notification of a condition is lost, 8 processors", "[stress]") {
    storm(8);
}
