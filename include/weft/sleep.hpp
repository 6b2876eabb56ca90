// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/clock.hpp>
#include <weft/detail/task/awaiter.hpp>
#include <weft/detail/time/timer_heap.hpp>

#include <chrono>
#include <new>

namespace weft {

namespace detail {

/// The wait for a point in time: in the timer heap of the worker on which it began.
class sleep_operation : public operation, public timer {
public:
    explicit sleep_operation(monotonic_time until) noexcept
        : operation(false, wait_reason::sleep), until_(until) {}

    bool start(branch& waiter) noexcept final;
    bool unlink() noexcept final;
    void fire(branch_list& readied) noexcept final;

    monotonic_time until() const noexcept { return until_; }

protected:
    ~sleep_operation() = default;

    bool no_memory_ = false;  ///< The heap could not grow.

private:
    monotonic_time until_;
};

class [[nodiscard]] sleep_awaiter final : public awaiter<sleep_operation> {
public:
    using awaiter<sleep_operation>::awaiter;
    void await_resume() {
        throw_unless_completed();
        if (no_memory_) [[unlikely]] { throw std::bad_alloc(); }
    }
};

}  // namespace detail

/// `co_await sleep_for(duration)` suspends the task for at least that long; a duration of zero or
/// less yields once. The task resumes on the worker that fired the timer: its own, or an idle one
/// if its own is busy. Precision is that of the kernel's timers, not a millisecond. Throws
/// operation_canceled (or timed_out) when the scope is stopped meanwhile, std::bad_alloc when there
/// is no memory for the timer. A duration that is too long to be represented never ends by itself.
template <class Rep, class Period>
detail::sleep_awaiter sleep_for(std::chrono::duration<Rep, Period> duration) noexcept {
    return detail::sleep_awaiter(
        detail::after(detail::monotonic_now(), detail::to_nanoseconds(duration)));
}

/// The same until a point on the steady clock.
template <class Duration>
detail::sleep_awaiter sleep_until(
    std::chrono::time_point<std::chrono::steady_clock, Duration> until) noexcept {
    return detail::sleep_awaiter(detail::to_monotonic(until));
}

}  // namespace weft
