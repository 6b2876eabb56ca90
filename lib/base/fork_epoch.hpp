// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/layer.hpp>

#include <atomic>
#include <cstdint>

namespace weft::detail {

/// Counts the forks by which this process came into being while a runtime existed in its parent.
/// What was made in an earlier epoch is a copy of something that a thread of the parent still uses:
/// its locks may be held by nobody, and what it shares with the parent through the kernel (a
/// connection, an epoll set) is the parent's.
extern layer::atomic<std::uint32_t> fork_epoch;

/// Relaxed: it changes in the only thread of a new process.
inline std::uint32_t current_fork_epoch() noexcept {
    return fork_epoch.load(std::memory_order_relaxed);
}

/// In the child of a fork.
inline void begin_fork_epoch() noexcept {
    fork_epoch.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace weft::detail
