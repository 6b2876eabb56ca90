// SPDX-License-Identifier: MIT
#pragma once

// A lock for a few instructions: scope trees, the list of parked workers, wait queues.
//
//     word     meaning      changed by
//     false    free         whoever locks
//     true     held         the holder (unlock)
//
// Test and test-and-set: waiters only read until the lock looks free, so that they share the line
// instead of taking it from each other. On machines with few processors the holder may have been
// descheduled; after `spins_before_yield` looks a waiter lets other threads run. No code that is
// guarded by it suspends, allocates, resumes a branch or calls user code.

#include <weft/detail/base/layer.hpp>

#include <atomic>

namespace weft::detail {

/// Not recursive, not fair. Has the members that std::lock_guard needs.
template <class Layer>
class spin_lock {
public:
    spin_lock() noexcept = default;
    spin_lock(const spin_lock&) = delete;
    spin_lock& operator=(const spin_lock&) = delete;

    void lock() noexcept {
        unsigned spins = 0;
        while (!try_lock()) {
            // Relaxed: only a hint that try_lock() is worth it. Reads what unlock() stores.
            while (held_.load(std::memory_order_relaxed)) {
                if (++spins < spins_before_yield) {
                    Layer::pause();
                } else {
                    Layer::yield_thread();
                }
            }
        }
    }

    /// Acquire pairs with the release in unlock(): what the last holder did is visible.
    bool try_lock() noexcept { return !held_.exchange(true, std::memory_order_acquire); }

    /// Holder only. Release pairs with the acquire of the next holder.
    void unlock() noexcept { held_.store(false, std::memory_order_release); }

private:
    static constexpr unsigned spins_before_yield = 64;

    typename Layer::template atomic<bool> held_{false};
};

}  // namespace weft::detail
