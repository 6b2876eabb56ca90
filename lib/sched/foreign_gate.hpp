// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace weft::detail {

/// Keeps the end of a runtime and threads outside of it apart: whoever is inside may touch tasks,
/// and close() returns when nobody is and nobody will be.
class foreign_gate {
public:
    /// False: closed; the runtime is being destroyed.
    bool enter() noexcept {
        // Acquire and release on both sides: one word, so its modification order decides who was
        // first.
        if ((word_.fetch_add(1, std::memory_order_acq_rel) & closed) == 0) {
            return true;
        }
        leave();
        return false;
    }
    void leave() noexcept { word_.fetch_sub(1, std::memory_order_release); }

    void close() noexcept {
        word_.fetch_or(closed, std::memory_order_acq_rel);
        // Whoever is inside only sets words and readies branches: a few microseconds.
        while (word_.load(std::memory_order_acquire) != closed) {
            std::this_thread::yield();
        }
    }

private:
    static constexpr std::uint32_t closed = 1U << 31;
    std::atomic<std::uint32_t> word_{0};
};

}  // namespace weft::detail
