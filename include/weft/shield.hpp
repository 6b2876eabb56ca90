// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/awaitable.hpp>
#include <weft/detail/task/cancel_scope.hpp>
#include <weft/task.hpp>

#include <utility>

namespace weft {

namespace detail {

template <class Awaitable>
task<awaited_value<Awaitable>> behind_shield(Awaitable inner) {
    const cancel_scope scope(scope_kind::shielded);
    co_return co_await std::forward<Awaitable>(inner);
}

}  // namespace detail

/// `co_await shield(op)` awaits `op`, a task or any awaitable of weft, and keeps stops of the
/// scopes around it away from it: of the task, of deadlines, of groups, and one that was there
/// before. For what has to be done to its end, such as a goodbye to a peer in a task that is
/// stopped.
///
/// The stop is not lost: the next suspension after the shield sees it. What opens a scope inside,
/// as with_timeout() does, works there as ever, and is how a shield is bounded:
/// `shield(with_timeout(1s, goodbye()))`. The end of a runtime does not stop it either, but gives
/// it shutdown_grace; what waits on after that is destroyed. Gives what `op` gives; the task
/// resumes where `op` ended.
///
/// `op` is moved or copied; a join_handle in a variable is used where it is.
template <class Given, detail::awaitable Awaitable = detail::kept_awaitable<Given>>
auto shield(Given&& op) -> task<detail::awaited_value<Awaitable>> {
    return detail::behind_shield<Awaitable>(std::forward<Given>(op));
}

}  // namespace weft
