// SPDX-License-Identifier: MIT
//
// The least that a coroutine needs, so that a probe tests the compiler and not weft.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace weft::probe {

/// Set by the coroutine under test from what its co_await gave.
inline int observed = 0;

/// The same handle, of unknown origin as far as the compiler can tell. Otherwise clang may put a
/// frame into that of its caller and never ask for its memory, which a probe of memory must avoid.
template <class Promise>
std::coroutine_handle<Promise> of_unknown_origin(std::coroutine_handle<Promise> handle) noexcept {
    void* address = handle.address();
    asm volatile("" : "+r"(address) : : "memory");
    return std::coroutine_handle<Promise>::from_address(address);
}

/// The coroutine that has suspended in give: the innermost one, whichever owns it.
inline std::coroutine_handle<> parked;

/// A coroutine that its owner resumes by hand. Lazy; rethrow() throws what left its body.
class routine {
public:
    struct promise_type {
        routine get_return_object() noexcept {
            return routine(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        std::suspend_always final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        void unhandled_exception() noexcept { failure = std::current_exception(); }

        std::exception_ptr failure;
    };

    explicit routine(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
    routine(routine&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    routine& operator=(routine&&) = delete;
    ~routine() {
        if (handle_) handle_.destroy();
    }

    bool done() const noexcept { return handle_.done(); }
    std::coroutine_handle<> handle() const noexcept { return handle_; }

    void resume() { handle_.resume(); }
    void rethrow() {
        if (auto failure = std::exchange(handle_.promise().failure, nullptr)) {
            std::rethrow_exception(failure);
        }
    }

private:
    std::coroutine_handle<promise_type> handle_;
};

/// Final suspension: symmetric transfer to `awaiter` of the promise. The probes of the transfer
/// itself and of thread-locals write their own.
struct to_awaiter {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
        return ended.promise().awaiter;
    }
    void await_resume() const noexcept {}
};

/// A lazy coroutine with a result, awaited once; it starts and returns by symmetric transfer.
template <class T>
class lazy {
public:
    struct promise_type {
        lazy get_return_object() noexcept {
            return lazy(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        to_awaiter final_suspend() const noexcept { return {}; }
        template <class Value>
        void return_value(Value&& value) {
            result.emplace(std::forward<Value>(value));
        }
        void unhandled_exception() noexcept { failure = std::current_exception(); }

        std::coroutine_handle<> awaiter;
        std::optional<T> result;
        std::exception_ptr failure;
    };

    explicit lazy(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
    lazy(lazy&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    lazy& operator=(lazy&&) = delete;
    ~lazy() {
        if (handle_) handle_.destroy();
    }

    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) noexcept {
        handle_.promise().awaiter = awaiter;
        return handle_;
    }
    T await_resume() {
        if (handle_.promise().failure) std::rethrow_exception(handle_.promise().failure);
        return std::move(*handle_.promise().result);
    }

private:
    std::coroutine_handle<promise_type> handle_;
};

/// What a coroutine type needs beside its special functions: a handle that is owned once.
template <class Promise>
class owner {
public:
    using promise_type = Promise;

    owner() noexcept = default;
    explicit owner(Promise& promise) noexcept
        : handle_(of_unknown_origin(std::coroutine_handle<Promise>::from_promise(promise))) {}
    owner(owner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    owner& operator=(owner&&) = delete;
    ~owner() {
        if (handle_) handle_.destroy();
    }

    std::coroutine_handle<Promise> handle() const noexcept { return handle_; }

private:
    std::coroutine_handle<Promise> handle_;
};

/// The special functions of a promise whose coroutine is an owner<Promise>: lazy, no result. What
/// leaves the body is dropped.
template <class Promise>
struct basic_promise {
    owner<Promise> get_return_object() noexcept {
        return owner<Promise>(static_cast<Promise&>(*this));
    }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    std::suspend_always final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept {}
};

/// Suspends if told to, as `parked`, and gives a value.
template <class T>
class give {
public:
    explicit give(T value, bool suspends) : value_(std::move(value)), suspends_(suspends) {}

    bool await_ready() const noexcept { return !suspends_; }
    void await_suspend(std::coroutine_handle<> handle) const noexcept { parked = handle; }
    T await_resume() { return std::move(value_); }

private:
    T value_;
    bool suspends_;
};

}  // namespace weft::probe
