// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace weft::detail {

/// A point on CLOCK_MONOTONIC, in nanoseconds.
using monotonic_time = std::int64_t;

/// Later than every point: a wait without end.
inline constexpr monotonic_time no_deadline = INT64_MAX;

/// The time now.
monotonic_time monotonic_now() noexcept;

/// The clock that measures time slices. It is monotonic_now(), unless a test holds it still, so
/// that exact orders can be tested on a slow machine.
monotonic_time slice_now() noexcept;

/// The same clock as it stood at the kernel's last timer interrupt, 1 to 10 ms ago: it stands still
/// in between. A fifth of the cost, for whoever only wants to know whether time has passed at all.
monotonic_time slice_tick() noexcept;

/// For tests: the slice clock, and its ticks, stand at this time until no_deadline releases them.
void hold_slice_clock(monotonic_time at) noexcept;

/// `now + duration`, saturated: a huge duration never wraps around. Negative durations count as 0.
constexpr monotonic_time after(monotonic_time now, std::chrono::nanoseconds duration) noexcept {
    if (duration.count() <= 0) {
        return now;
    }
    if (duration.count() >= no_deadline - now) {
        return no_deadline;
    }
    return now + duration.count();
}

/// Converts a duration of any period to nanoseconds, saturated instead of wrapped.
template <class Rep, class Period>
constexpr std::chrono::nanoseconds to_nanoseconds(std::chrono::duration<Rep, Period> d) noexcept {
    using wide = std::chrono::duration<long double, std::nano>;
    const long double count = std::chrono::duration_cast<wide>(d).count();
    if (!(count < 9.2e18L)) {
        return std::chrono::nanoseconds::max();
    }
    if (count <= -9.2e18L) {
        return std::chrono::nanoseconds::min();
    }
    return std::chrono::duration_cast<std::chrono::nanoseconds>(d);
}

/// The steady clock of the standard library is CLOCK_MONOTONIC on Linux.
template <class Duration>
constexpr monotonic_time to_monotonic(
    std::chrono::time_point<std::chrono::steady_clock, Duration> t) noexcept {
    return to_nanoseconds(t.time_since_epoch()).count();
}

}  // namespace weft::detail
