// SPDX-License-Identifier: MIT
#pragma once

#include "resp_parser.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// What the unit tests of the parser and its fuzzer share.

namespace kv::test {

using request = std::vector<std::string>;

/// What a stream of bytes means to the parser.
struct parse_outcome {
    std::vector<request> requests;
    std::string error;     ///< empty unless the stream is malformed
    std::size_t left = 0;  ///< bytes of a request that is not complete

    bool operator==(const parse_outcome&) const = default;
};

/// Feeds a stream to a parser in pieces; `next_size(left)` is the size of the next piece, from 1 to
/// `left`. The bytes of the unfinished request are moved to another buffer with each piece, and the
/// old one is overwritten, as a connection that grows its buffer may do.
template <class NextSize>
parse_outcome parse_in_pieces(std::string_view stream, const parser_limits& limits,
                              NextSize next_size) {
    resp_parser parser(limits);
    parse_outcome outcome;
    std::vector<char> buffer;
    while (!stream.empty()) {
        const std::size_t size = next_size(stream.size());
        std::vector<char> moved(buffer.begin(), buffer.end());
        moved.insert(moved.end(), stream.begin(),
                     stream.begin() + static_cast<std::ptrdiff_t>(size));
        std::ranges::fill(buffer, '?');
        buffer = std::move(moved);
        stream.remove_prefix(size);
        std::size_t begin = 0;
        for (;;) {
            const auto status = parser.parse(std::span(buffer).subspan(begin));
            if (status == parse_status::malformed) {
                outcome.error = parser.error();
                return outcome;
            }
            if (status == parse_status::incomplete) break;
            request& one = outcome.requests.emplace_back();
            for (const std::string_view argument : parser.arguments()) one.emplace_back(argument);
            begin += parser.consumed();
        }
        buffer.erase(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(begin));
    }
    outcome.left = buffer.size();
    return outcome;
}

inline parse_outcome parse_at_once(std::string_view stream, const parser_limits& limits = {}) {
    return parse_in_pieces(stream, limits, [](std::size_t left) { return left; });
}

inline parse_outcome parse_byte_by_byte(std::string_view stream, const parser_limits& limits = {}) {
    return parse_in_pieces(stream, limits, [](std::size_t) { return std::size_t{1}; });
}

/// A request as clients send it: an array of bulk strings.
inline std::string encode(const request& arguments) {
    std::string frame = "*" + std::to_string(arguments.size()) + "\r\n";
    for (const std::string& argument : arguments) {
        frame += "$" + std::to_string(argument.size()) + "\r\n" + argument + "\r\n";
    }
    return frame;
}

}  // namespace kv::test
