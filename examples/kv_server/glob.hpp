// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

namespace kv {

/// Tells whether `text` matches `pattern` without regard to the case of ASCII letters. In a pattern
/// `*` stands for any number of bytes, `?` for one, `[abc]`, `[a-z]` and `[^a]` for one of a set;
/// a backslash makes the next byte literal.
///
/// Takes time proportional to the product of the two lengths at most: only the last `*` is ever
/// tried again, since an earlier one could not match what a later one cannot. So no pattern of a
/// client can hold up the server.
bool glob_match(std::string_view pattern, std::string_view text) noexcept;

}  // namespace kv
