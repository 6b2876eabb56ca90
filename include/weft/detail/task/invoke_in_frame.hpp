// SPDX-License-Identifier: MIT
#pragma once

#include <weft/task.hpp>

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>

namespace weft::detail {

/// Keeps a callable and its arguments in a frame for as long as the coroutine that they make runs.
template <class Function, class... Arguments>
auto invoke_in_frame(Function function, Arguments... arguments)
    -> std::invoke_result_t<Function, Arguments...> {
    co_return co_await std::invoke(std::move(function), std::move(arguments)...);
}

template <class Function, class... Arguments>
concept task_function = std::invocable<Function, Arguments...> &&
                        is_task<std::remove_cvref_t<std::invoke_result_t<Function, Arguments...>>>;

}  // namespace weft::detail
