// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/compiler.hpp>
#include <weft/detail/sched/promise.hpp>

#include <concepts>
#include <coroutine>
#include <exception>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace weft {

template <class T>
class task;

namespace detail {

/// Called where a task that is empty (moved from) is awaited or spawned.
[[noreturn]] void throw_empty_task();

/// Destroys the frame of a task that was never started; reported in debug builds. A frame that
/// holds such a task as an argument, and so on a million deep, needs no stack: from a certain depth
/// on frames are kept and destroyed by the outermost call, before it returns.
void destroy_unstarted(std::coroutine_handle<> frame) noexcept;

/// The promise of a task that gives a T; promise_base holds an exception instead of it.
template <class T>
class task_promise final : public promise_base {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__,
                  "weft: the result of a task must not be over-aligned; return a pointer to it");

public:
    explicit task_promise(std::source_location created = std::source_location::current()) noexcept
        : promise_base(created) {}

    task<T> get_return_object() noexcept;

    template <class Value = T>
        requires std::constructible_from<T, Value&&>
    void return_value(Value&& value) noexcept(std::is_nothrow_constructible_v<T, Value&&>) {
        value_.emplace(std::forward<Value>(value));
    }

    /// Once, after the coroutine has ended: the value moved out, or the exception thrown.
    T take() {
        if (exception_ != nullptr) [[unlikely]] {
            std::rethrow_exception(std::move(exception_));
        }
        return *std::move(value_);
    }

private:
    std::optional<T> value_;
};

template <class T>
class task_promise<T&> final : public promise_base {
public:
    explicit task_promise(std::source_location created = std::source_location::current()) noexcept
        : promise_base(created) {}

    task<T&> get_return_object() noexcept;
    void return_value(T& value) noexcept { value_ = &value; }
    T& take() {
        if (exception_ != nullptr) [[unlikely]] {
            std::rethrow_exception(std::move(exception_));
        }
        return *value_;
    }

private:
    T* value_ = nullptr;
};

template <>
class task_promise<void> final : public promise_base {
public:
    explicit task_promise(std::source_location created = std::source_location::current()) noexcept
        : promise_base(created) {}

    task<void> get_return_object() noexcept;
    void return_void() noexcept {}
    void take() {
        if (exception_ != nullptr) [[unlikely]] {
            std::rethrow_exception(std::move(exception_));
        }
    }
};

/// Awaits a task: starts it by symmetric transfer, and owns its frame.
template <class T>
class [[nodiscard]] task_awaiter {
public:
    explicit task_awaiter(std::coroutine_handle<task_promise<T>> child) noexcept {
        link_.child = child;
    }
    task_awaiter(const task_awaiter&) = delete;
    task_awaiter& operator=(const task_awaiter&) = delete;
    ~task_awaiter() {
        if (link_.child) {
            link_.child.destroy();
        }
    }

    bool await_ready() const noexcept { return false; }

    // transfer() may put the branch into the run queue, where a thief may take and end it.
    template <weft_promise Promise>
    WEFT_PUBLISHES_FRAME std::coroutine_handle<> await_suspend(
        std::coroutine_handle<Promise> parent) noexcept {
        if (link_.parent != nullptr) [[unlikely]] {
            awaited_twice();
        }
        branch& running = *parent.promise().branch_;
        link_.parent = parent;
        promise_base& child = as_base(link_.child).promise();
        child.branch_ = &running;
        child.link_ = &link_;
        return transfer(running, link_.child);
    }

    T await_resume() {
        return std::coroutine_handle<task_promise<T>>::from_address(link_.child.address())
            .promise()
            .take();
    }

private:
    await_link link_;
};

}  // namespace detail

/// A lazy computation that gives a T (a value, a reference, or nothing): the return type of a
/// coroutine that uses weft. Nothing runs before it is awaited or given to co_spawn.
///
/// `co_await std::move(t)` (or of a call's result) runs it as part of the awaiting task: it starts
/// on the same worker by symmetric transfer, inherits the cancel scope, and returns its result or
/// throws its exception. When it waited in between, the awaiting coroutine resumes on the worker on
/// which the task ended. A task is awaited at most once; awaiting one that is empty (moved from,
/// or default constructed) throws std::logic_error.
///
/// A task that is destroyed before it started frees its frame, with the arguments in it; in debug
/// builds that is reported. It must not be destroyed while it runs.
///
/// Arguments of a coroutine that are references refer to the caller's objects: pass by value
/// whatever might end first. Don't call a capturing lambda that is a coroutine: its captures live
/// in the closure, not in the frame. Give it to co_spawn(), which keeps the closure for as long as
/// the task lives, or give it arguments instead of captures.
template <class T = void>
class [[nodiscard]] task {
    static_assert(!std::is_rvalue_reference_v<T>,
                  "weft: a task<T&&> would give a reference to what may be gone; return a value");

public:
    using value_type = T;
    using promise_type = detail::task_promise<T>;

    task() noexcept = default;
    task(task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
    task& operator=(task&& other) noexcept {
        if (this != &other) {
            destroy();
            frame_ = std::exchange(other.frame_, nullptr);
        }
        return *this;
    }
    ~task() { destroy(); }

    /// False for a task that was moved from or default constructed.
    explicit operator bool() const noexcept { return frame_ != nullptr; }

    /// See the class. Only of an rvalue: the task is used up.
    detail::task_awaiter<T> operator co_await() && {
        if (frame_ == nullptr) {
            detail::throw_empty_task();
        }
        return detail::task_awaiter<T>(std::exchange(frame_, nullptr));
    }
    void operator co_await() & = delete;  // Write co_await std::move(t).

    /// For weft itself: gives the frame away.
    std::coroutine_handle<promise_type> release_frame() noexcept {
        return std::exchange(frame_, nullptr);
    }

private:
    friend promise_type;
    explicit task(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}

    void destroy() noexcept {
        if (frame_ != nullptr) {
            detail::destroy_unstarted(std::exchange(frame_, nullptr));
        }
    }

    std::coroutine_handle<promise_type> frame_;
};

namespace detail {

template <class Type>
inline constexpr bool is_task = false;
template <class T>
inline constexpr bool is_task<task<T>> = true;

template <class T>
task<T> task_promise<T>::get_return_object() noexcept {
    return task<T>(std::coroutine_handle<task_promise>::from_promise(*this));
}
template <class T>
task<T&> task_promise<T&>::get_return_object() noexcept {
    return task<T&>(std::coroutine_handle<task_promise>::from_promise(*this));
}
inline task<void> task_promise<void>::get_return_object() noexcept {
    return task<void>(std::coroutine_handle<task_promise>::from_promise(*this));
}

}  // namespace detail

}  // namespace weft
