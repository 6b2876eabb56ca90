// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/layer.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace weft::detail {

/// Room for one value of a channel. Whose it is has been decided before (channel_core.hpp): those
/// who fill it and those who empty it take turns, and the slot counts the turns, since several may
/// have been decided on before the first one is over. A mark that only said "full" would let the
/// second receiver take the value of the first one.
template <class Layer, class Value>
class channel_slot {
public:
    channel_slot() noexcept {}
    channel_slot(const channel_slot&) = delete;
    channel_slot& operator=(const channel_slot&) = delete;
    /// Nobody uses it any more.
    ~channel_slot() {
        if (turn_.load(std::memory_order_relaxed) % 2 != 0) std::destroy_at(&value_);
    }

    void fill(std::uint32_t round, Value&& value) noexcept {
        await(2 * round);
        std::construct_at(&value_, std::move(value));
        // Release pairs with await() in empty(): the value is there.
        turn_.store(2 * round + 1, std::memory_order_release);
    }

    /// Hands the value to `into` as an rvalue, and destroys what is left of it.
    template <class Into>
    void empty(std::uint32_t round, Into&& into) noexcept {
        await(2 * round + 1);
        into(std::move(value_));
        std::destroy_at(&value_);
        // Release pairs with await() in fill(): the room is free.
        turn_.store(2 * round + 2, std::memory_order_release);
    }

private:
    static constexpr unsigned spins_before_yield = 64;

    // Acquire pairs with the release of whoever had it before. That one is past its decision, and
    // has one move to make; its thread may have lost its core, though. Rounds wrap around, as no
    // two that are decided on at a time are 2^31 apart.
    void await(std::uint32_t turn) const noexcept {
        for (unsigned spins = 0; turn_.load(std::memory_order_acquire) != turn; ++spins) {
            if (spins < spins_before_yield) {
                Layer::pause();
            } else {
                Layer::yield_thread();
            }
        }
    }

    union {
        Value value_;
    };
    typename Layer::template atomic<std::uint32_t> turn_{0};
};

}  // namespace weft::detail
