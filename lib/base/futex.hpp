// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/clock.hpp>

#include <atomic>
#include <cstdint>

namespace weft::detail {

/// Sleeps while `word` has the value `expected`, at most until `deadline`. May return early.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                monotonic_time deadline) noexcept;

/// Wakes one thread, or all, that sleep on `word`. The word may be gone already: the kernel looks
/// at its address only.
void futex_wake(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace weft::detail
