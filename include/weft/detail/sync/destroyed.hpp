// SPDX-License-Identifier: MIT
#pragma once

#include <weft/error.hpp>

#include <system_error>

namespace weft::detail {

/// For await_resume(): the object was destroyed while the task waited for it, which is an assertion
/// in debug builds.
[[noreturn, gnu::cold]] inline void throw_destroyed() {
    throw std::system_error(errc::closed);
}

}  // namespace weft::detail
