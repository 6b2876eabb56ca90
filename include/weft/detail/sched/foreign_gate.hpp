// SPDX-License-Identifier: MIT
//
// The gate of a runtime: keeps its end and the threads outside of it apart. Whoever is inside may
// touch tasks; close() returns when nobody is inside and nobody will be.
//
//     bits     content                                      changed by
//     0..30    who is inside, or is about to be refused     enter, leave
//     31       closed, for good                             close
//
// One word, so its modification order decides: an enter() that comes before the mark is waited for,
// one that comes after it sees it, takes itself back and touches nothing else. That one may keep
// close() waiting for a moment. A thread that is refused must be kept from the gate's memory by
// something else; a handle does that, which keeps the runtime_core.
#pragma once

#include <weft/detail/base/assert.hpp>
#include <weft/detail/base/layer.hpp>

#include <atomic>
#include <cstdint>

namespace weft::detail {

template <class Layer>
class basic_foreign_gate {
public:
    /// False: closed; the runtime is being destroyed.
    bool enter() noexcept {
        // Acquire pairs with the release in close(): who is refused comes after what was done
        // before the end began. Who gets in needs no order here, but in leave().
        if ((word_.fetch_add(1, std::memory_order_acquire) & closed) == 0) {
            return true;
        }
        leave();
        return false;
    }

    /// Release pairs with the acquire in close(): what was done inside comes before the end. Others
    /// that enter and leave meanwhile hand it on, since all of them are read-modify-writes.
    void leave() noexcept {
        [[maybe_unused]] const std::uint32_t before =
            word_.fetch_sub(1, std::memory_order_release);
        WEFT_ASSERT((before & ~closed) != 0);
    }

    void close() noexcept {
        // Release pairs with the acquire of who is refused.
        word_.fetch_or(closed, std::memory_order_release);
        // Whoever is inside only sets words and readies branches: a few microseconds. Acquire pairs
        // with leave().
        while (word_.load(std::memory_order_acquire) != closed) {
            Layer::yield_thread();
        }
    }

private:
    static constexpr std::uint32_t closed = 1U << 31;
    typename Layer::template atomic<std::uint32_t> word_{0};
};

using foreign_gate = basic_foreign_gate<layer>;

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
