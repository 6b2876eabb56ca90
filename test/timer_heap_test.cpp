// SPDX-License-Identifier: MIT
#include <weft/detail/time/timer_heap.hpp>

#include "support/catch.hpp"
#include "support/scale.hpp"

#include <weft/detail/branch/branch.hpp>

#include <algorithm>
#include <atomic>
#include <deque>
#include <random>
#include <thread>
#include <vector>

using weft::detail::monotonic_time;
using weft::detail::no_deadline;
using weft::detail::timer_heap;

namespace {

struct numbered_timer final : weft::detail::timer {
    explicit numbered_timer(monotonic_time at, int n = 0) : when(at), number(n) {}
    void fire(weft::detail::branch_list&) noexcept override {}

    monotonic_time when;
    int number;
};

/// A timer cannot move; a deque does not move what it holds.
using timers = std::deque<numbered_timer>;

std::vector<numbered_timer*> collect(timer_heap& heap, monotonic_time now, std::size_t limit) {
    std::vector<weft::detail::timer*> due(limit);
    due.resize(heap.collect_due(now, due.data(), limit));
    std::vector<numbered_timer*> result;
    for (auto* each : due) result.push_back(static_cast<numbered_timer*>(each));
    return result;
}

}  // namespace

TEST_CASE("an empty timer heap has no earliest time and nothing due", "[timer]") {
    timer_heap heap;
    CHECK(heap.size() == 0);
    CHECK(heap.earliest() == no_deadline);
    CHECK(collect(heap, no_deadline - 1, 4).empty());
    numbered_timer never_added(1);
    CHECK_FALSE(timer_heap::remove(never_added));
}

TEST_CASE("timers come out in the order of their times, not before, at most so many", "[timer]") {
    std::mt19937 random(1);
    timer_heap heap;
    timers all;
    monotonic_time earliest = no_deadline;
    for (int i = 0; i < 5000; ++i) {
        all.emplace_back(static_cast<monotonic_time>(random() % 1000), i);
        heap.add(all.back(), all.back().when);
        earliest = std::min(earliest, all.back().when);
        if (heap.earliest() != earliest) FAIL("the earliest time is not published");
    }
    CHECK(heap.size() == all.size());
    std::vector<monotonic_time> order;
    for (monotonic_time now = 0; now < 1000; now += 7) {
        for (;;) {
            const auto due = collect(heap, now, 10);
            if (due.size() > 10) FAIL("more than asked for");
            for (const auto* each : due) {
                if (each->when > now) FAIL("collected before its time");
                order.push_back(each->when);
            }
            if (due.size() < 10) break;
        }
        if (heap.size() != 0 && heap.earliest() <= now) FAIL("one that is due was left");
    }
    for (const auto* each : collect(heap, 1000, 5000)) order.push_back(each->when);
    CHECK(order.size() == all.size());
    CHECK(std::is_sorted(order.begin(), order.end()));
    CHECK(heap.earliest() == no_deadline);
}

TEST_CASE("a timer that was taken out is not collected, wherever it stood", "[timer]") {
    std::mt19937 random(2);
    timer_heap heap;
    timers all;
    for (int i = 0; i < 3000; ++i) {
        all.emplace_back(static_cast<monotonic_time>(random() % 500), i);
        heap.add(all.back(), all.back().when);
    }
    std::vector<bool> removed(all.size());
    for (int i = 0; i < 2000; ++i) {
        const std::size_t chosen = random() % all.size();
        const bool taken = timer_heap::remove(all[chosen]);
        // A second time it is not there any more.
        if (taken == removed[chosen]) FAIL("taken out twice, or not at all");
        removed[chosen] = true;
    }
    std::vector<monotonic_time> order;
    for (const auto* each : collect(heap, 500, all.size())) {
        if (removed[static_cast<std::size_t>(each->number)]) FAIL("collected after its removal");
        order.push_back(each->when);
    }
    const auto left = std::count(removed.begin(), removed.end(), false);
    CHECK(order.size() == static_cast<std::size_t>(left));
    CHECK(std::is_sorted(order.begin(), order.end()));
    CHECK_FALSE(timer_heap::remove(all[0]));
}

TEST_CASE("taking the earliest timer out publishes the next one", "[timer]") {
    timer_heap heap;
    numbered_timer first(10), second(20), third(30);
    heap.add(second, second.when);
    heap.add(third, third.when);
    heap.add(first, first.when);
    CHECK(heap.earliest() == 10);
    CHECK(heap.earliest_hint() == 10);
    CHECK(timer_heap::remove(third));
    CHECK(heap.earliest() == 10);
    CHECK(timer_heap::remove(first));
    CHECK(heap.earliest() == 20);
    CHECK(timer_heap::remove(second));
    CHECK(heap.earliest() == no_deadline);
}

TEST_CASE("10^6 timers go in, out of the middle, and out in order", "[timer]") {
    const std::size_t count = weft::test::sanitized ? 100'000 : 1'000'000;
    std::mt19937_64 random(3);
    timer_heap heap;
    timers all;
    for (std::size_t i = 0; i < count; ++i) {
        all.emplace_back(static_cast<monotonic_time>(random() >> 2));
        heap.add(all.back(), all.back().when);
    }
    std::size_t removed = 0;
    for (std::size_t i = 0; i < count; i += 2) removed += timer_heap::remove(all[i]);
    CHECK(removed == (count + 1) / 2);
    CHECK(heap.size() == count - removed);
    monotonic_time last = 0;
    std::size_t collected = 0;
    bool sorted = true;
    while (heap.size() != 0) {
        for (const auto* each : collect(heap, no_deadline - 1, 64)) {
            sorted &= last <= each->when;
            last = each->when;
            ++collected;
        }
    }
    CHECK(sorted);
    CHECK(collected == count - removed);
}

TEST_CASE("of a collector and a canceller exactly one gets each timer", "[timer]") {
    const std::size_t count = weft::test::scaled_count(20'000, 1'000'000);
    timer_heap heap;
    timers all;
    for (std::size_t i = 0; i < count; ++i) {
        all.emplace_back(static_cast<monotonic_time>(i));
        heap.add(all.back(), all.back().when);
    }
    std::atomic<std::size_t> cancelled{0};
    std::thread canceller([&] {
        for (std::size_t i = count; i-- > 0;) {
            if (timer_heap::remove(all[i])) cancelled.fetch_add(1, std::memory_order_relaxed);
        }
    });
    std::size_t collected = 0;
    while (heap.size() != 0) collected += collect(heap, no_deadline - 1, 16).size();
    canceller.join();
    CHECK(collected + cancelled == count);
}
