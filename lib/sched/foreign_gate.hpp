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

/// Keeps a thread that is no worker of the runtime inside its gate. A worker needs no pass.
class gate_pass {
public:
    gate_pass(foreign_gate& gate, bool needed) noexcept
        : gate_(needed ? &gate : nullptr), inside_(gate_ == nullptr || gate_->enter()) {}
    ~gate_pass() {
        if (gate_ != nullptr && inside_) {
            gate_->leave();
        }
    }
    gate_pass(const gate_pass&) = delete;
    gate_pass& operator=(const gate_pass&) = delete;
    explicit operator bool() const noexcept { return inside_; }

private:
    foreign_gate* gate_;
    bool inside_;
};

}  // namespace weft::detail
