// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/compiler.hpp>
#include <weft/detail/task/awaiter.hpp>

#include <coroutine>

namespace weft {

namespace detail {

/// What yield and checkpoint have in common: a stop that was there when the await began is thrown
/// when the task goes on.
class turn_awaiter {
public:
    bool await_ready() const noexcept { return false; }

    void await_resume() const {
        check_running(*running_);
        if (stop_ != operation_outcome::completed) [[unlikely]] { throw_stopped(stop_); }
    }

protected:
    void begin(const branch& running) noexcept {
        running_ = &running;
        stop_ = stop_outcome(running);
    }

private:
    const branch* running_ = nullptr;
    operation_outcome stop_ = operation_outcome::completed;
};

class [[nodiscard]] yield_awaiter final : public turn_awaiter {
public:
    yield_awaiter() noexcept = default;

    template <weft_promise Promise>
    WEFT_PUBLISHES_FRAME void await_suspend(std::coroutine_handle<Promise> suspended) noexcept {
        branch& running = *suspended.promise().branch_;
        begin(running);
        running.current->requeue(running, suspended);
    }
};

class [[nodiscard]] checkpoint_awaiter final : public turn_awaiter {
public:
    checkpoint_awaiter() noexcept = default;

    template <weft_promise Promise>
    WEFT_PUBLISHES_FRAME bool await_suspend(std::coroutine_handle<Promise> suspended) noexcept {
        branch& running = *suspended.promise().branch_;
        begin(running);
        if (running.current->take_budget()) { return false; }
        running.current->requeue(running, suspended);
        return true;
    }
};

}  // namespace detail

/// `co_await yield()` lets the others run: the task goes behind the local queue of its worker, and
/// resumes on that worker, or on one that has taken it over. Throws operation_canceled (or
/// timed_out) if the scope has been stopped.
inline detail::yield_awaiter yield() noexcept {
    return {};
}

/// `co_await checkpoint()` costs next to nothing and belongs into long computations. It goes on at
/// once unless somebody has a reason to be let in: the task has run for too long, or the worker is
/// wanted for timers, sockets or the end of the runtime. Then it does what yield() does. Throws
/// operation_canceled (or timed_out) if the scope has been stopped.
inline detail::checkpoint_awaiter checkpoint() noexcept {
    return {};
}

}  // namespace weft
