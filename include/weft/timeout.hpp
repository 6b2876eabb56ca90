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
    co_return co_await std::move(inner);
}

}  // namespace detail

/// `co_await with_timeout(5s, op)` awaits `op`, a task or any awaitable of weft, and stops it when
/// the time is over. The stopped operation throws errc::timed_out, which usually comes out here.
///
/// It returns only when `op` has ended: what ignores a stop (a loop without a suspension, a running
/// blocking call) delays it. A value that arrives after the stop is returned, not lost. A duration
/// of zero or less stops `op` from the start. Nested deadlines work as one expects: whichever comes
/// first stops what is inside it. The task resumes where `op` ended.
template <class Rep, class Period, detail::awaitable Awaitable>
auto with_timeout(std::chrono::duration<Rep, Period> duration, Awaitable op)
    -> task<detail::awaited_value<Awaitable>> {
    return detail::within_deadline(
        detail::after(detail::monotonic_now(), detail::to_nanoseconds(duration)), std::move(op));
}

/// The same at a point on the steady clock.
template <class Duration, detail::awaitable Awaitable>
auto with_deadline(std::chrono::time_point<std::chrono::steady_clock, Duration> deadline,
                   Awaitable op) -> task<detail::awaited_value<Awaitable>> {
    return detail::within_deadline(detail::to_monotonic(deadline), std::move(op));
}

}  // namespace weft
