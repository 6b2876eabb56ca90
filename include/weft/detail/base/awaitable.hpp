// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <coroutine>
#include <type_traits>
#include <utility>

namespace weft::detail {

template <class Type>
concept has_awaiter_members = requires(std::remove_reference_t<Type>& a) {
    { a.await_ready() } -> std::convertible_to<bool>;
    a.await_resume();
};

template <class Type>
concept has_member_co_await = requires(Type&& a) { std::forward<Type>(a).operator co_await(); };

template <class Type>
concept has_free_co_await = requires(Type&& a) { operator co_await(std::forward<Type>(a)); };

/// What weft's functions that take something to await accept: an awaiter, or something that makes
/// one.
template <class Type>
concept awaitable = has_awaiter_members<Type> || has_member_co_await<Type>;

/// The awaiter of an awaitable: itself, or what its operator co_await makes.
template <awaitable Type>
decltype(auto) get_awaiter(Type&& a) {
    if constexpr (has_member_co_await<Type>) {
        return std::forward<Type>(a).operator co_await();
    } else {
        return std::forward<Type>(a);
    }
}

/// What a function that takes an awaitable keeps of it: the object itself, moved or copied; of an
/// lvalue that cannot be copied, such as a handle in a variable, a reference.
template <class Given>
using kept_awaitable =
    std::conditional_t<std::is_lvalue_reference_v<Given> &&
                           !std::copy_constructible<std::remove_cvref_t<Given>>,
                       Given, std::remove_cvref_t<Given>>;

/// The type of `co_await std::move(a)` for an `a` of the type.
template <awaitable Type>
using awaited_value =
    decltype(std::declval<
                 std::remove_reference_t<decltype(detail::get_awaiter(std::declval<Type>()))>&>()
                 .await_resume());

}  // namespace weft::detail
