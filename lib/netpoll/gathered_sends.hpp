// SPDX-License-Identifier: MIT
//
// The operations whose sends a ring has taken over, by the slots that its entries name. A slot is
// taken when the entry is pushed and free again when its completion is taken; there is one
// completion for each. Only the owner of the ring touches it, never the handler of the rescue
// signal, which may submit an entry as soon as it is pushed: hence add() comes before that.
#pragma once

#include <weft/detail/base/assert.hpp>

#include <array>
#include <bit>
#include <cstdint>

namespace weft::detail {

class io_operation;

class gathered_sends {
public:
    static constexpr unsigned capacity = 32;

    bool any() const noexcept { return free_ != all; }
    bool full() const noexcept { return free_ == 0; }
    bool holds(unsigned slot) const noexcept {
        return slot < capacity && (free_ >> slot & 1U) == 0;
    }

    /// Returns the slot. The entry is pushed at `position` of the submission queue.
    unsigned add(io_operation& sending, unsigned position) noexcept {
        WEFT_ASSERT(!full());
        const auto slot = static_cast<unsigned>(std::countr_zero(free_));
        free_ &= free_ - 1;
        held_[slot] = {&sending, position};
        return slot;
    }

    io_operation& take(unsigned slot) noexcept {
        WEFT_ASSERT(holds(slot));
        free_ |= std::uint32_t{1} << slot;
        return *held_[slot].sending;
    }

    /// Calls visit(slot, position) for each that is held; it may take that one.
    template <class Visit>
    void for_each(Visit&& visit) noexcept {
        for (std::uint32_t held = ~free_; held != 0; held &= held - 1) {
            const auto slot = static_cast<unsigned>(std::countr_zero(held));
            visit(slot, held_[slot].position);
        }
    }

private:
    struct entry {
        io_operation* sending = nullptr;
        unsigned position = 0;
    };

    static constexpr std::uint32_t all = ~std::uint32_t{0};

    std::uint32_t free_ = all;
    std::array<entry, capacity> held_{};
};

}  // namespace weft::detail
