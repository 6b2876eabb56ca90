// SPDX-License-Identifier: MIT
//
// What the cases have in common that measure one wake-up in each round, on a processor that is kept
// by another task.
#pragma once

#include "cases.hpp"

#include "../echo/support.hpp"

#include <weft/runtime.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/statistics.hpp>
#include <weft/yield.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

namespace latency {

/// Where the other task ran elsewhere before it parked, the round says nothing and is made again.
inline constexpr unsigned attempts_per_round = 20;

/// Lets the other task come to its await. True: it did so on the calling thread.
inline weft::task<bool> parked_here(const std::atomic<pid_t>& parked_on) {
    while (parked_on == 0) co_await weft::yield();
    co_return parked_on == ::gettid();
}

/// Are there only as many workers as processors? One more may run, or be on its way out, that ran
/// in the place of a worker that was kept: with it a round would find an idle worker where the case
/// wants none.
inline bool only_processors_run() {
    const auto all = weft::this_runtime::statistics().processors;
    const auto in_use = std::count_if(all.begin(), all.end(), [](const auto& each) {
        return each.state != weft::processor_state::retired;
    });
    return static_cast<std::size_t>(in_use) <= weft::this_runtime::processors();
}

/// Waits until nothing is left of the round before. So long in any case, as in Go, which does not
/// tell.
inline weft::task<> settle_between_rounds() {
    using namespace std::chrono_literals;
    co_await weft::sleep_for(20ms);
    for (int left = 5000; !only_processors_run(); --left) {
        if (left == 0) echo::die_because("a worker that is not needed any more does not go");
        co_await weft::sleep_for(1ms);
    }
}

/// A task that works beside the caller on the other processor, in steps of 1 ms.
class steady_neighbour {
public:
    steady_neighbour() = default;
    steady_neighbour(const steady_neighbour&) = delete;
    steady_neighbour& operator=(const steady_neighbour&) = delete;

    /// Returns when it works, on another thread than the caller then. The spawn wakes the worker
    /// that is idle; which of the two tasks that one takes does not matter.
    weft::task<> start() {
        working_ = weft::co_spawn(work());
        for (int left = 10'000; works_on_ == 0 || works_on_ == ::gettid(); --left) {
            if (left == 0) echo::die_because("no second processor takes a task");
            co_await weft::yield();
        }
    }
    /// After start(), before the destructor.
    weft::task<> end() {
        over_ = true;
        co_await std::move(*working_);
    }

private:
    weft::task<> work() {
        while (!over_.load(std::memory_order_relaxed)) {
            works_on_ = ::gettid();
            spin(std::chrono::milliseconds(1));
            co_await weft::yield();
        }
    }

    std::atomic<bool> over_ = false;
    std::atomic<pid_t> works_on_ = 0;
    std::optional<weft::join_handle<void>> working_;
};

}  // namespace latency
