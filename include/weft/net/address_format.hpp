// SPDX-License-Identifier: MIT
//
// fmt formatters of ip_address and endpoint, apart from address.hpp, so that a program without fmt
// need not have its headers. The text is that of to_string(); the format specifiers are those of a
// string: fmt::format("{:>21}", endpoint).
#pragma once

#include <weft/net/address.hpp>

#include <string_view>

#include <fmt/format.h>

namespace weft::detail {

/// Formats whatever has max_text_size and write_to, without allocating.
template <class Text>
struct text_formatter : fmt::formatter<std::string_view> {
    template <class FormatContext>
    auto format(const Text& value, FormatContext& context) const {
        char text[Text::max_text_size];
        const char* end = value.write_to(text);
        return fmt::formatter<std::string_view>::format(std::string_view(text, end), context);
    }
};

}  // namespace weft::detail

template <>
struct fmt::formatter<weft::net::ip_address> : weft::detail::text_formatter<weft::net::ip_address> {
};

template <>
struct fmt::formatter<weft::net::endpoint> : weft::detail::text_formatter<weft::net::endpoint> {};
