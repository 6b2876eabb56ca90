// SPDX-License-Identifier: MIT
//
// What the watchdog thinks of one worker: pure rules, without a clock and without threads.
//
// Two times are kept for a branch that goes on and on. `held` is how long it has been seen running,
// on the clock; for a request to yield that is enough, since such a request costs next to nothing.
// `used` is how much of it the thread has spent computing, or blocked in a call: only that is held
// against the task. A thread that has no processor, and a process that was stopped, use nothing.
//
// Whether a thread is blocked *now* decides whether its processor is used by nobody, so what it did
// before must not count for long: neither a second of computing before a call, nor a long call
// before it computes. What is kept is therefore a level between 0 and one slice, which rises while
// the thread is blocked and falls while it computes. It counts as blocked from when the level is
// full until it has fallen to a half. So a call is noticed after one slice, whatever came before,
// and its end after half of one; and a task that makes one call after the other, with little in
// between, is blocked throughout. (A streak that each look that computed ends would miss that one.)
#pragma once

#include "lib/base/thread_usage.hpp"

#include <weft/detail/base/clock.hpp>
#include <weft/detail/branch/branch.hpp>
#include <weft/detail/sched/run_mark.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace weft::detail {

/// What waits for a worker.
struct waiting_work {
    bool in_queues = false;  ///< Its own queue, or the global one.
    bool timer = false;      ///< A timer of its heap that is due.
    bool poller = false;     ///< What only its own thread can take from its poller.
    bool any_idle = false;   ///< Somebody else has nothing to do.
};

/// What the watchdog is to do about a worker.
struct watch_verdict {
    bool slice_over = false;  ///< What the branch leaves in runnext inherits no slice.
    bool yield = false;       ///< Ask the branch to go behind the global queue.
    bool timer_due = false;   ///< Ask the worker for its timers.
    bool ring = false;        ///< Ask it for its poller.
    bool relieve = false;     ///< Let others have what waits for this worker.
    bool overrun = false;     ///< Count it.
    bool report = false;
};

class run_watch {
public:
    using nanoseconds = std::chrono::nanoseconds;
    using sight = run_sight<branch>;

    /// After half of it a branch hands no slice on; after all of it, it has overrun.
    static constexpr nanoseconds slice = std::chrono::milliseconds(10);
    static constexpr nanoseconds inherited_slice = slice / 2;

    /// Branches that take longer than this on the average are no quick ones.
    static constexpr nanoseconds quick = std::chrono::microseconds(500);

    /// A look at the worker, `elapsed` after the last one. True: it still runs the branch of that
    /// look; ask judge().
    bool see(const sight& seen, nanoseconds elapsed) noexcept {
        if (seen.same_run(last_)) { return true; }
        moved_ = seen.count != last_.count;
        is_slow_ = seen.branch != nullptr &&
                   static_cast<std::int64_t>(seen.count - last_.count) * quick < elapsed;
        // Each by itself: GCC 14 at -O3 may lose a part of the copy of the whole, where all of this
        // is inlined into a loop (run_watch_test.cpp then fails).
        last_.count = seen.count;
        last_.branch = seen.branch;
        last_.life = seen.life;
        last_.site = seen.site;
        held_ = used_ = blocked_ = level_ = nanoseconds::zero();
        is_blocked_ = false;
        told_ = {};
        overrun_ = false;
        next_report_ = nanoseconds::zero();
        return false;
    }

    /// The same branch has run for `elapsed` more, of which the thread has used `used`.
    watch_verdict judge(nanoseconds elapsed, const thread_usage::used& used,
                        const waiting_work& waiting, nanoseconds report_after) noexcept {
        moved_ = false;
        held_ += elapsed;
        used_ += used.time;
        count_blocked(used);
        watch_verdict verdict;
        verdict.timer_due = waiting.timer && !std::exchange(told_.timer_due, waiting.timer);
        verdict.ring = waiting.poller && !std::exchange(told_.ring, waiting.poller);
        if (waiting.in_queues && held_ >= inherited_slice) {
            verdict.slice_over = !std::exchange(told_.slice_over, true);
        }
        if (waiting.in_queues && held_ >= slice) {
            verdict.yield = !std::exchange(told_.yield, true);
        }
        // With a processor idle others find its queue and its timers by themselves; what is in its
        // poller nobody finds.
        verdict.relieve = waiting.any_idle ? waiting.poller : held_ >= slice;
        if (used_ >= slice) { verdict.overrun = !std::exchange(overrun_, true); }
        if (used_ >= std::max(report_after, next_report_)) {
            verdict.report = true;
            next_report_ = 2 * used_;
        }
        return verdict;
    }

    const sight& last() const noexcept { return last_; }
    nanoseconds used() const noexcept { return used_; }
    /// Is it in a call that blocks, or in one after the other, for the last slice or so?
    bool is_blocked() const noexcept { return is_blocked_; }
    /// Has it spent most of used() in calls that block? For a report.
    bool mostly_blocked() const noexcept { return blocked_ > used_ / 2; }
    /// Has it overrun, and not only because others had its core?
    bool keeps_worker() const noexcept { return held_ >= slice && used_ >= slice / 2; }
    /// Has anything run, or does anything run, since the look before the last one?
    bool active() const noexcept { return moved_ || last_.branch != nullptr; }
    /// Does one branch go on and on, so that a close look is wanted?
    bool lasts() const noexcept { return held_ != nanoseconds::zero(); }
    /// Did it run few branches since the look before? One of them still runs.
    bool is_slow() const noexcept { return is_slow_; }

private:
    void count_blocked(const thread_usage::used& used) noexcept {
        if (used.how == thread_usage::kind::blocked) {
            blocked_ += used.time;
            level_ = std::min(level_ + used.time, slice);
            if (level_ == slice) { is_blocked_ = true; }
        } else {
            level_ = std::max(level_ - used.time, nanoseconds::zero());
            if (level_ <= slice / 2) { is_blocked_ = false; }
        }
    }

    sight last_;
    nanoseconds held_{0};
    nanoseconds used_{0};
    nanoseconds blocked_{0};
    nanoseconds level_{0};  ///< Of having been blocked lately.
    bool is_blocked_ = false;
    nanoseconds next_report_{0};
    watch_verdict told_;
    bool overrun_ = false;
    bool moved_ = false;
    bool is_slow_ = false;
};

/// At most one report a second; the next one tells how many were left out.
class report_limit {
public:
    /// False: not now. Else `left_out` is how many were refused since the last one.
    bool allow(monotonic_time now, std::uint64_t& left_out) noexcept {
        if (reported_ && now - last_ < period) {
            ++left_out_;
            return false;
        }
        reported_ = true;
        last_ = now;
        left_out = std::exchange(left_out_, 0);
        return true;
    }

    /// Nothing was said after an allow() that has given this `left_out`: as if it had not been
    /// asked.
    void take_back(std::uint64_t left_out) noexcept {
        left_out_ += left_out;
        reported_ = false;
    }

private:
    static constexpr monotonic_time period = 1'000'000'000;
    monotonic_time last_ = 0;
    std::uint64_t left_out_ = 0;
    bool reported_ = false;
};

}  // namespace weft::detail
