// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace weft::detail {

/// The two waits that a descriptor has.
enum class direction : unsigned char { read = 0, write = 1 };

constexpr std::size_t index_of(direction which) noexcept {
    return static_cast<std::size_t>(which);
}

}  // namespace weft::detail
