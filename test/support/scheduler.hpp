// SPDX-License-Identifier: MIT
#pragma once

// What tests of the scheduler need: a look into the worker that runs them, conditions under a
// watchdog, and a slice clock that stands still.

#include "lib/sched/runtime_core.hpp"
#include "lib/sched/worker_thread.hpp"
#include "support/scale.hpp"

#include <chrono>
#include <cstdint>
#include <thread>

#include <time.h>

namespace weft::test {

/// The worker that the calling task runs on.
inline detail::worker_thread& this_worker() {
    return static_cast<detail::worker_thread&>(*detail::current_worker());
}

/// The runtime that the calling task belongs to.
inline detail::runtime_core& this_core() {
    return this_worker().runtime();
}

/// The id of the task that a branch in a queue belongs to; 0 for none.
inline std::uint64_t id_of(const detail::branch* queued) {
    return queued == nullptr ? 0 : queued->owner->id;
}

/// How long a condition may take before a test says that it never comes. Failures only are that
/// slow; an instrumented build on a busy machine must not reach it.
inline constexpr std::chrono::seconds watchdog_limit{sanitized ? 60 : 20};

/// The CPU time of the calling thread. For a task that has moved to another one meanwhile a
/// difference says nothing.
inline std::chrono::nanoseconds thread_time() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// The time that a thread which asks again and again gives a condition. It is over after the limit,
/// but only if the thread has had a processor for half of it: on a machine that starves this
/// process, the threads that bring the condition about had none either. Then it is ten times the
/// limit. For a task that moves to another thread the end is somewhere between the two.
class patience {
public:
    explicit patience(std::chrono::nanoseconds limit = watchdog_limit) noexcept
        : limit_(limit), began_(std::chrono::steady_clock::now()), used_before_(thread_time()) {}

    bool over() const noexcept {
        const auto passed = std::chrono::steady_clock::now() - began_;
        if (passed <= limit_) return false;
        return thread_time() - used_before_ >= limit_ / 2 || passed > 10 * limit_;
    }

private:
    const std::chrono::nanoseconds limit_;
    const std::chrono::steady_clock::time_point began_;
    const std::chrono::nanoseconds used_before_;
};

/// Keeps the calling thread busy until the condition holds: as a task, one that hogs its worker.
/// False: the watchdog's time is over. Other threads get the processor, not other tasks.
template <class Condition>
bool spin_until(Condition&& holds, std::chrono::nanoseconds limit = watchdog_limit) {
    const patience wait(limit);
    while (!holds()) {
        if (wait.over()) return false;
        std::this_thread::yield();
    }
    return true;
}

/// While it lives, the clock of the time slice stands, so that no slice ends by time.
class held_slice_clock {
public:
    held_slice_clock() noexcept { set(detail::monotonic_now()); }
    ~held_slice_clock() { detail::hold_slice_clock(detail::no_deadline); }
    held_slice_clock(const held_slice_clock&) = delete;
    held_slice_clock& operator=(const held_slice_clock&) = delete;

    /// Puts it forward.
    void advance(std::chrono::nanoseconds by) noexcept { set(at_ + by.count()); }

private:
    void set(detail::monotonic_time at) noexcept {
        at_ = at;
        detail::hold_slice_clock(at);
    }

    detail::monotonic_time at_ = 0;
};

}  // namespace weft::test
