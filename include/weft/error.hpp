// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/compiler.hpp>

#include <system_error>
#include <type_traits>

namespace weft {

/// What can go wrong in weft that errno has no name for. Everything else is reported in
/// std::system_category or with std::errc.
///
/// A value converts to std::error_code by itself: `if (error.code() == weft::errc::closed)`.
enum class errc {
    /// The stream ended before everything that was asked for had come. Reported by read_exact and
    /// its like; read_some returns 0 at the end instead.
    unexpected_eof = 1,
    /// The runtime is ending and starts nothing new. Compares equal to
    /// std::errc::operation_canceled, so whoever handles a cancelled operation handles this too.
    stopped,
    /// The object was closed on this side, before the operation or while it waited. Compares equal
    /// to std::errc::bad_file_descriptor.
    closed,
};

/// The category of weft::errc; its name is "weft". A message says what happened and what to do.
const std::error_category& weft_category() noexcept;

/// Found by argument-dependent lookup when an errc becomes a std::error_code.
inline std::error_code make_error_code(errc value) noexcept {
    return {static_cast<int>(value), weft_category()};
}

}  // namespace weft

template <>
struct std::is_error_code_enum<weft::errc> : std::true_type {};
