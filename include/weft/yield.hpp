// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/task/awaiter.hpp>

#include <coroutine>

namespace weft {

namespace detail {

class [[nodiscard]] yield_awaiter {
public:
    bool await_ready() const noexcept { return false; }

    template <weft_promise Promise>
    void await_suspend(std::coroutine_handle<Promise> suspended) noexcept {
        branch& running = *suspended.promise().branch_;
        running_ = &running;
        stopped_ = running.word.stop_requested();
        late_ = stopped_ && running.word.late();
        running.current->requeue(running, suspended);
    }

    void await_resume() const {
        check_running(*running_);
        if (stopped_) [[unlikely]] {
            throw_stopped(late_ ? operation_outcome::late : operation_outcome::cancelled);
        }
    }

private:
    const branch* running_ = nullptr;
    bool stopped_ = false;
    bool late_ = false;
};

class [[nodiscard]] checkpoint_awaiter {
public:
    bool await_ready() const noexcept { return false; }

    template <weft_promise Promise>
    bool await_suspend(std::coroutine_handle<Promise> suspended) noexcept {
        branch& running = *suspended.promise().branch_;
        running_ = &running;
        stopped_ = running.word.stop_requested();
        late_ = stopped_ && running.word.late();
        if (running.current->take_budget()) { return false; }
        running.current->requeue(running, suspended);
        return true;
    }

    void await_resume() const {
        check_running(*running_);
        if (stopped_) [[unlikely]] {
            throw_stopped(late_ ? operation_outcome::late : operation_outcome::cancelled);
        }
    }

private:
    const branch* running_ = nullptr;
    bool stopped_ = false;
    bool late_ = false;
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
