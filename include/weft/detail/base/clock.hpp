// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ratio>
#include <type_traits>

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

/// Converts a duration of any period to nanoseconds, saturated instead of wrapped, and cut off
/// towards zero as duration_cast does. NaN is the longest duration.
///
/// duration_cast multiplies before it divides, so that a period like 1/44100 s overflows in between
/// although the result fits. Hence whole multiples of the period's denominator apart from the rest.
template <class Rep, class Period>
constexpr std::chrono::nanoseconds to_nanoseconds(std::chrono::duration<Rep, Period> d) noexcept {
    using std::chrono::nanoseconds;
    using ratio = std::ratio_divide<Period, std::nano>;
    constexpr long double per_count =
        static_cast<long double>(ratio::num) / static_cast<long double>(ratio::den);
    const long double wide = static_cast<long double>(d.count()) * per_count;
    if (!(wide < 9.2e18L)) {
        return nanoseconds::max();
    }
    if (wide <= -9.2e18L) {
        return nanoseconds::min();
    }
    if constexpr (std::is_integral_v<Rep>) {
        // The quotient times num fits, since the whole does. So does the rest, which is below den,
        // unless the period is a most unusual one; for that the wide result is near enough.
        if constexpr (ratio::den <= INT64_MAX / ratio::num) {
            using wide_count = std::common_type_t<Rep, std::int64_t>;
            constexpr auto num = static_cast<wide_count>(ratio::num);
            constexpr auto den = static_cast<wide_count>(ratio::den);
            const auto count = static_cast<wide_count>(d.count());
            return nanoseconds(
                static_cast<std::int64_t>(count / den * num + count % den * num / den));
        }
    }
    return nanoseconds(static_cast<std::int64_t>(wide));
}

/// The steady clock of the standard library is CLOCK_MONOTONIC on Linux.
template <class Duration>
constexpr monotonic_time to_monotonic(
    std::chrono::time_point<std::chrono::steady_clock, Duration> t) noexcept {
    return to_nanoseconds(t.time_since_epoch()).count();
}

}  // namespace weft::detail
