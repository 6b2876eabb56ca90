// SPDX-License-Identifier: MIT
//
// Awaiters of other libraries. A task is resumed by its worker and by nobody else. An awaiter that
// takes a plain std::coroutine_handle<> knows nothing of that: it keeps the handle and resumes it
// by hand at best, and drops it at worst (std::suspend_always), so that the task would be lost
// without a word. Such an await does not compile inside a task.
//
// weft's own awaiters take the handle of a weft promise, by which they find the branch. So does an
// awaiter template that wraps one of them. Rejected: to take every handle and to ready the branch
// from a hook in resume(), which a std::coroutine_handle<> does not have.
#pragma once

#include <weft/detail/base/awaitable.hpp>

#include <coroutine>
#include <type_traits>
#include <utility>

/// Why it does not compile.
#define WEFT_FOREIGN_AWAITER                                                                      \
    "weft: this awaiter takes a plain std::coroutine_handle<>, so that nobody would resume the "  \
    "task: await what weft offers, and wake a task through it; where await_suspend() always "     \
    "returns false, specialise weft::accept_foreign_awaiter for the awaiter"

namespace weft {

/// Specialise as true for an awaiter of yours that takes a plain std::coroutine_handle<> and never
/// leaves a task suspended: its await_suspend() only looks at the handle and returns false.
template <class Awaiter>
inline constexpr bool accept_foreign_awaiter = false;

template <>
inline constexpr bool accept_foreign_awaiter<std::suspend_never> = true;

namespace detail {

/// Becomes a plain handle where one is asked for by that very type, and nothing else.
struct plain_handle {
    operator std::coroutine_handle<>() const noexcept { return {}; }
};
struct no_handle {};

template <class Awaiter>
concept takes_plain_handle =
    requires(Awaiter& awaiter, plain_handle handle) { awaiter.await_suspend(handle); } &&
    // Not one that takes anything.
    !requires(Awaiter& awaiter, no_handle nothing) { awaiter.await_suspend(nothing); };

/// The type of the awaiter that `co_await` makes of an awaitable.
template <class Awaitable>
struct awaiter_type {
    using type = std::remove_cvref_t<Awaitable>;
};
template <has_member_co_await Awaitable>
struct awaiter_type<Awaitable> {
    using type = std::remove_cvref_t<decltype(std::declval<Awaitable>().operator co_await())>;
};
template <has_free_co_await Awaitable>
    requires(!has_member_co_await<Awaitable>)
struct awaiter_type<Awaitable> {
    using type = std::remove_cvref_t<decltype(operator co_await(std::declval<Awaitable>()))>;
};

/// Can a task await it without being lost?
template <class Awaitable, class Awaiter = typename awaiter_type<Awaitable>::type>
inline constexpr bool resumes_through_weft =
    !takes_plain_handle<Awaiter> || accept_foreign_awaiter<Awaiter>;

}  // namespace detail

}  // namespace weft
