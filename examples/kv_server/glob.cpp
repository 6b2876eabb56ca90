// SPDX-License-Identifier: MIT
#include "glob.hpp"

#include <cstddef>
#include <optional>

namespace kv {

namespace {

char lower(char byte) noexcept {
    return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte - 'A' + 'a') : byte;
}

bool in_range(char byte, char first, char last) noexcept {
    if (first > last) return lower(byte) >= lower(last) && lower(byte) <= lower(first);
    return lower(byte) >= lower(first) && lower(byte) <= lower(last);
}

struct match {
    bool matched;
    std::size_t pattern_size;  ///< how much of the pattern stands for the byte
};

/// Matches one byte against a set; `pattern` begins behind the '['. A set that is not closed ends
/// with the pattern, as in Redis.
match match_set(std::string_view pattern, char byte) noexcept {
    std::size_t at = 0;
    const bool negated = pattern.starts_with('^');
    if (negated) ++at;
    bool matched = false;
    while (at < pattern.size() && pattern[at] != ']') {
        if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
        if (at + 2 < pattern.size() && pattern[at + 1] == '-') {
            matched |= in_range(byte, pattern[at], pattern[at + 2]);
            at += 3;
        } else {
            matched |= lower(byte) == lower(pattern[at]);
            ++at;
        }
    }
    if (at < pattern.size()) ++at;
    return {matched != negated, at + 1};
}

/// Matches one byte against what a pattern begins with, which is not a '*'.
match match_one(std::string_view pattern, char byte) noexcept {
    switch (pattern.front()) {
    case '?': return {true, 1};
    case '[': return match_set(pattern.substr(1), byte);
    case '\\':
        if (pattern.size() > 1) return {lower(pattern[1]) == lower(byte), 2};
        break;
    default: break;
    }
    return {lower(pattern.front()) == lower(byte), 1};
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) noexcept {
    // Behind the last '*' seen, and the text that it has not swallowed yet.
    struct retry {
        std::string_view pattern;
        std::string_view text;
    };
    std::optional<retry> star;
    while (!text.empty()) {
        if (pattern.starts_with('*')) {
            pattern.remove_prefix(1);
            star = retry{pattern, text};
            continue;
        }
        if (!pattern.empty()) {
            const match one = match_one(pattern, text.front());
            if (one.matched) {
                pattern.remove_prefix(one.pattern_size);
                text.remove_prefix(1);
                continue;
            }
        }
        if (!star) return false;
        star->text.remove_prefix(1);
        pattern = star->pattern;
        text = star->text;
    }
    while (pattern.starts_with('*')) pattern.remove_prefix(1);
    return pattern.empty();
}

}  // namespace kv
