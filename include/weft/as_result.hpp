// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/awaitable.hpp>
#include <weft/detail/sched/promise.hpp>
#include <weft/result.hpp>

#include <coroutine>
#include <system_error>
#include <type_traits>
#include <utility>

namespace weft {

namespace detail {

template <class Awaitable>
class [[nodiscard]] result_awaiter {
    using inner_type =
        std::remove_reference_t<decltype(detail::get_awaiter(std::declval<Awaitable>()))>;
    // as_result() refuses a reference; here it would only give more errors.
    using value = std::remove_reference_t<awaited_value<Awaitable>>;
    static_assert(resumes_through_weft<Awaitable>, WEFT_FOREIGN_AWAITER);

public:
    explicit result_awaiter(Awaitable&& op)
        : inner_(detail::get_awaiter(std::forward<Awaitable>(op))) {}

    bool await_ready() { return inner_.await_ready(); }

    template <weft_promise Promise>
    auto await_suspend(std::coroutine_handle<Promise> suspended) noexcept {
        return inner_.await_suspend(suspended);
    }

    result<value> await_resume() {
        try {
            if constexpr (std::is_void_v<value>) {
                inner_.await_resume();
                return {};
            } else {
                return inner_.await_resume();
            }
        } catch (const std::system_error& error) {
            return failure(error.code());
        }
    }

private:
    inner_type inner_;
};

template <class Awaitable>
class [[nodiscard]] result_request {
public:
    explicit result_request(Awaitable&& op) : op_(std::forward<Awaitable>(op)) {}
    result_awaiter<Awaitable> operator co_await() && {
        return result_awaiter<Awaitable>(std::forward<Awaitable>(op_));
    }

private:
    Awaitable op_;
};

}  // namespace detail

/// `co_await as_result(op)` gives the value of `op` or its error code instead of throwing: a
/// result<T> for an `op` that gives a T. Errors are the std::system_errors that `op` throws, a
/// cancelled or late operation included; other exceptions pass through. Suspends and resumes as
/// `op` does. Of an io_error only the code is kept: who has to know how much was transferred before
/// it catches the exception. An `op` that gives a reference does not compile. `op` is moved or
/// copied; a join_handle in a variable is used where it is, and keeps its task when the wait for it
/// fails.
template <class Given, detail::awaitable Awaitable = detail::kept_awaitable<Given>>
detail::result_request<Awaitable> as_result(Given&& op) {
    static_assert(!std::is_reference_v<detail::awaited_value<Awaitable>>,
                  "weft: as_result of an operation that gives a reference: result<T> holds values "
                  "only; let the task give a pointer");
    return detail::result_request<Awaitable>(std::forward<Given>(op));
}

}  // namespace weft
