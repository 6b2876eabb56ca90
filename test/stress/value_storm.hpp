// SPDX-License-Identifier: MIT
#pragma once

// What storms of values have in common that are sent through channels: each value is received once
// or stays with its sender, however sends and receives are stopped, and when the channels close.

#include "stress/random_stop.hpp"
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/runtime.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace weft::test {

/// A value that cannot be copied.
using message = std::unique_ptr<std::uint64_t>;

/// How many send, and how many receive.
inline constexpr unsigned value_parties = 4;

struct value_account {
    explicit value_account(watchdog& all_of) : dog(all_of) {}

    watchdog& dog;
    std::atomic<std::uint64_t> made{0}, sent{0}, kept{0}, received{0}, wrong{0};
    std::atomic<std::uint64_t> sum_sent{0}, sum_received{0};
    std::atomic<std::uint64_t> late{0}, stopped{0};
};

/// What stays where a task is stopped that sends: it is the next one that goes on.
struct value_sender {
    const unsigned who;
    const std::size_t count;
    std::uint64_t next = 1;
    bool closed = false;

    bool done() const { return closed || next > count; }
    /// Tells its sender and place.
    std::uint64_t number() const { return (std::uint64_t{who} << 48) | next; }
};

struct value_plan {
    std::size_t capacity;
    std::size_t count;  ///< Of each sender.
    bool close_early;   ///< At some moment before all were sent.
    unsigned seed;
};

/// Runs both sides, and closes what is between them.
template <class Close>
task<> send_and_receive(value_plan plan, const value_account& all, std::vector<task<>> senders,
                        std::vector<task<>> receivers, Close close) {
    auto sending = co_spawn(side_by_side(std::move(senders)));
    auto receiving = co_spawn(side_by_side(std::move(receivers)));
    if (plan.close_early) {
        std::minstd_rand random(plan.seed + 200);
        const std::uint64_t until = 1 + random() % (value_parties * plan.count);
        while (all.received < until) co_await yield();
        close();
    }
    co_await std::move(sending);
    close();
    co_await std::move(receiving);
}

/// Runs `storm_task(plan, account)`, once with all values, or often with few where it closes early.
template <class StormTask>
void value_storm(unsigned processors, std::size_t capacity, bool close_early,
                 StormTask storm_task) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed << ", capacity " << capacity);
    const std::size_t rounds = close_early ? 20 : 1;
    const std::size_t total = scaled_count(100'000, 1'000'000);
    value_plan plan{.capacity = capacity,
                    .count = total / (value_parties * rounds),
                    .close_early = close_early,
                    .seed = seed};
    runtime tasks({.processors = processors});
    watchdog dog(std::chrono::seconds(60), [&] { return describe(tasks.statistics()); });
    for (std::size_t i = 0; i < rounds; ++i, ++plan.seed) {
        value_account all(dog);
        tasks.co_spawn(storm_task, value_plan(plan), std::ref(all)).get();
        CHECK(all.wrong == 0);
        CHECK(all.made == all.sent + all.kept);
        CHECK(all.sent == all.received);
        CHECK(all.sum_sent == all.sum_received);
        if (close_early) continue;
        CHECK(all.received == value_parties * plan.count);
        CHECK(all.late != 0);
        CHECK(all.stopped != 0);
    }
}

}  // namespace weft::test
