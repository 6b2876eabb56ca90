// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/compiler.hpp>

#include <string_view>

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

namespace weft {

/// The version of the headers that a program was compiled with, as "major.minor.patch".
inline constexpr std::string_view version = "0.1.0";

}  // namespace weft
