// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/branch/branch.hpp>
#include <weft/detail/sched/frame_cache.hpp>
#include <weft/detail/sched/local_queue.hpp>
#include <weft/detail/sched/run_mark.hpp>
#include <weft/detail/time/timer_heap.hpp>
#include <weft/statistics.hpp>

#include <cstdint>

namespace weft::detail {

/// A counter with one writer and any readers.
class owned_counter {
public:
    /// Owner. Relaxed: a statistic orders nothing.
    void add(std::uint64_t count = 1) noexcept {
        value_.store(value_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
    }
    std::uint64_t read() const noexcept { return value_.load(std::memory_order_relaxed); }
    /// Pairs with add_release(): who finds a task counted as ended sees what it did. The sum over
    /// all processors that decides that no task is left needs it too, see runtime_core.
    std::uint64_t read_acquire() const noexcept { return value_.load(std::memory_order_acquire); }
    void add_release(std::uint64_t count = 1) noexcept {
        value_.store(value_.load(std::memory_order_relaxed) + count, std::memory_order_release);
    }

private:
    layer::atomic<std::uint64_t> value_{0};
};

/// Go's P: the right to run tasks, with everything that comes with it. Thieves read the queue and
/// collect due timers; the rest belongs to the worker that owns the processor.
struct alignas(64) processor {
    local_queue<layer, branch> queue;
    timer_heap timers;
    frame_cache frames;

    run_mark<layer, branch> mark;

    owned_counter spawned;
    owned_counter ended;
    owned_counter steals;
    owned_counter parks;
    owned_counter wakes;
    owned_counter overflows;
    owned_counter timers_fired;
    owned_counter overruns;  ///< Written by the watchdog.

    processor_statistics statistics() const noexcept {
        return {.tasks_run = mark.count(),
                .spawned = spawned.read(),
                .ended = ended.read_acquire(),
                .steals = steals.read(),
                .parks = parks.read(),
                .wakes = wakes.read(),
                .overflows = overflows.read(),
                .timers = timers_fired.read(),
                .overruns = overruns.read()};
    }
};

}  // namespace weft::detail
