// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/compiler.hpp>

#include <cstddef>
#include <span>

namespace weft::net {

/// Memory that an operation may write to. It belongs to the caller and stays valid until the
/// operation has ended.
using mutable_buffer = std::span<std::byte>;

/// Memory that an operation reads. It belongs to the caller and stays valid and unchanged until the
/// operation has ended.
using const_buffer = std::span<const std::byte>;

}  // namespace weft::net
