// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/awaitable.hpp>
#include <weft/detail/task/deadline_scope.hpp>
#include <weft/task.hpp>

#include <chrono>
#include <utility>

namespace weft {

namespace detail {

/// Awaits `inner` in a scope that is stopped at `deadline`.
template <class Awaitable>
task<awaited_value<Awaitable>> within_deadline(monotonic_time deadline, Awaitable inner) {
    deadline_scope scope(deadline);  // Closed when this frame is left, however that happens.
    co_return co_await std::forward<Awaitable>(inner);
}

}  // namespace detail

/// `co_await with_timeout(5s, op)` awaits `op`, a task or any awaitable of weft, and stops it when
/// the time is over. The stopped operation throws errc::timed_out, which usually comes out here.
///
/// It returns only when `op` has ended: what ignores a stop (a loop without a suspension, a running
/// blocking call) delays it. A value that arrives after the stop is returned, not lost. A duration
/// of zero or less stops `op` from the start. Nested deadlines work as one expects: whichever comes
/// first stops what is inside it. The task resumes where `op` ended.
///
/// `op` is moved or copied. A join_handle in a variable is used where it is: `co_await
/// with_timeout(5s, handle)` stops the wait and not the task, and the handle keeps it. A handle
/// that is moved in goes with the wait, and its task is detached.
template <class Rep, class Period, class Given,
          detail::awaitable Awaitable = detail::kept_awaitable<Given>>
auto with_timeout(std::chrono::duration<Rep, Period> duration, Given&& op)
    -> task<detail::awaited_value<Awaitable>> {
    return detail::within_deadline<Awaitable>(
        detail::after(detail::monotonic_now(), detail::to_nanoseconds(duration)),
        std::forward<Given>(op));
}

/// The same at a point on the steady clock.
template <class Duration, class Given, detail::awaitable Awaitable = detail::kept_awaitable<Given>>
auto with_deadline(std::chrono::time_point<std::chrono::steady_clock, Duration> deadline,
                   Given&& op) -> task<detail::awaited_value<Awaitable>> {
    return detail::within_deadline<Awaitable>(detail::to_monotonic(deadline),
                                              std::forward<Given>(op));
}

}  // namespace weft
