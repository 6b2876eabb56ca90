// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/branch/child_branch.hpp>

#include <exception>

namespace weft::detail {

/// Is it what an operation throws that was stopped, and has the scope of the branch been stopped?
bool comes_from_stop(const branch& of, const std::exception_ptr& failure) noexcept;

/// Tells the runtime's handler of the failure of a child that is not the one which its parent gets.
/// Not of one that the child has from a stop of its scope. Not under a lock.
void report_suppressed_failure(const branch& of, std::exception_ptr failure) noexcept;

}  // namespace weft::detail
