// SPDX-License-Identifier: MIT
#pragma once

#include <csignal>

namespace weft::detail {

/// The child of a fork has one thread and none of the workers; a runtime is dead there. From the
/// first call on every registered runtime (runtime_registry.hpp) is marked in the child, so that
/// its next use ends with a message instead of a hang.
void watch_forks() noexcept;

/// For a thread whose signals weft blocks: the child of a fork on it gets this mask instead, since
/// a program that it executes expects signals to arrive.
void restore_signals_in_fork(const sigset_t& mask) noexcept;

/// Ends the process with that message.
[[noreturn]] void used_in_fork() noexcept;

}  // namespace weft::detail
