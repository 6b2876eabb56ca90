// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdlib>

// How much work a stress test does. Normal runs stay short; `scripts/test --long` sets
// WEFT_TEST_LONG=1; an instrumented build does a tenth of either, since it is that much slower.

namespace weft::test {

#if defined(__SANITIZE_THREAD__)
#define WEFT_TEST_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_TEST_THREAD_SANITIZER 1
#endif
#endif
#ifndef WEFT_TEST_THREAD_SANITIZER
#define WEFT_TEST_THREAD_SANITIZER 0
#endif

#if defined(__SANITIZE_ADDRESS__)
#define WEFT_TEST_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT_TEST_ADDRESS_SANITIZER 1
#endif
#endif
#ifndef WEFT_TEST_ADDRESS_SANITIZER
#define WEFT_TEST_ADDRESS_SANITIZER 0
#endif

inline constexpr bool thread_sanitizer = WEFT_TEST_THREAD_SANITIZER;
inline constexpr bool address_sanitizer = WEFT_TEST_ADDRESS_SANITIZER;
inline constexpr bool sanitized = thread_sanitizer || address_sanitizer;

/// Whether this is the long form of the tests.
inline bool long_run() noexcept {
    const char* value = std::getenv("WEFT_TEST_LONG");
    return value != nullptr && value[0] == '1';
}

/// The count for a stress loop: `normal`, or `in_long_run` where the long form is asked for.
inline std::size_t scaled_count(std::size_t normal, std::size_t in_long_run) noexcept {
    const std::size_t count = long_run() ? in_long_run : normal;
    if (sanitized && count >= 10) return count / 10;
    return count;
}

}  // namespace weft::test
