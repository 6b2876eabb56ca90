// SPDX-License-Identifier: MIT
#pragma once

#include <source_location>
#include <string_view>

namespace weft::detail {

/// Ends the process for a misuse of weft that was detected: writes "weft: fatal: MESSAGE" and a
/// line feed to the standard error stream with one system call, then calls std::abort. Works in
/// any context: takes no lock and allocates nothing. A message says what was found and then what
/// to do: `fatal("run() was called inside a task; use co_spawn")`.
[[noreturn]] void fatal(std::string_view message) noexcept;

/// Ends the process for a WEFT_ASSERT that does not hold, naming the condition and its place.
[[noreturn]] void assertion_failed(const char* condition, std::source_location where) noexcept;

}  // namespace weft::detail

/// Checks an invariant of weft itself in builds without NDEBUG; evaluates nothing otherwise.
#ifdef NDEBUG
#define WEFT_ASSERT(...) static_cast<void>(sizeof((__VA_ARGS__) ? true : false))
#else
#define WEFT_ASSERT(...)                                                                           \
    ((__VA_ARGS__) ? static_cast<void>(0)                                                          \
                   : ::weft::detail::assertion_failed(#__VA_ARGS__,                                \
                                                      ::std::source_location::current()))
#endif

/// Checks in builds without NDEBUG what the user of a function has to see to, and ends the process
/// with the message, as fatal(), where it does not hold. In others nothing is evaluated, and the
/// function does what it says of that.
#ifdef NDEBUG
#define WEFT_EXPECT(condition, message) static_cast<void>(sizeof((condition) ? true : false))
#else
#define WEFT_EXPECT(condition, message)                                                            \
    ((condition) ? static_cast<void>(0) : ::weft::detail::fatal(message))
#endif
