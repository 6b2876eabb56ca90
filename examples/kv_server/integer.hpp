// SPDX-License-Identifier: MIT
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kv {

/// Reads a number in the one form that Redis accepts in frames, values and options: an optional
/// minus sign and decimal digits, without leading zeros, plus signs, spaces or "-0". Empty if
/// `text` has another form or does not fit 64 bits.
inline std::optional<std::int64_t> parse_integer(std::string_view text) noexcept {
    const bool negative = text.starts_with('-');
    const std::string_view digits = negative ? text.substr(1) : text;
    if (digits.empty() || (digits.front() == '0' && (negative || digits.size() > 1))) return {};
    std::int64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || rest != end) return {};
    return number;
}

}  // namespace kv
