// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <limits>

namespace kv {

/// A number of bytes that many connections share. Whoever wants memory takes it from the budget
/// first, so that the sum of what clients make the server hold is bounded, not only each part.
class memory_budget {
public:
    explicit memory_budget(std::size_t limit = std::numeric_limits<std::size_t>::max())
        : limit_(limit) {}

    /// Takes `bytes`, or nothing and returns false if fewer are left.
    bool try_take(std::size_t bytes) noexcept {
        // The number guards no other data: whoever takes bytes makes memory of its own. Relaxed.
        std::size_t used = used_.load(std::memory_order_relaxed);
        do {
            if (bytes > limit_ - used) return false;
        } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
        return true;
    }

    /// Gives back bytes that were taken.
    void give_back(std::size_t bytes) noexcept {
        // Relaxed as in try_take.
        used_.fetch_sub(bytes, std::memory_order_relaxed);
    }

    /// A figure for statistics. Relaxed as in try_take.
    std::size_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
    std::size_t limit() const noexcept { return limit_; }

private:
    const std::size_t limit_;
    std::atomic<std::size_t> used_{0};
};

}  // namespace kv
