// SPDX-License-Identifier: MIT
//
// The operations whose sends a ring has taken over, by the names that its entries carry: a slot,
// and how often slots were taken before, so that a completion that is read late names nothing any
// more.
//
// All of it belongs to the owner of the ring, whose signal handler is the owner as well. An entry
// may complete as soon as it is in the ring, when its branch is not suspended yet; then nobody must
// take that completion. The owner does not, since it takes completions in its loop, and its handler
// does not, since it is kept from it until the branch is suspended (handed_list.hpp).
#pragma once

#include <weft/detail/base/assert.hpp>

#include <array>
#include <bit>
#include <cstdint>

namespace weft::detail {

template <class Operation, unsigned Capacity = 32>
class gathered_sends {
public:
    static_assert(Capacity <= 32);

    bool any() const noexcept { return free_ != all; }
    bool full() const noexcept { return free_ == 0; }

    /// Before the entry is pushed, at `position` of the submission queue. Returns its name, of 40
    /// bits at most.
    std::uint64_t add(Operation& sending, unsigned position) noexcept {
        WEFT_ASSERT(!full());
        const auto index = static_cast<unsigned>(std::countr_zero(free_));
        free_ &= free_ - 1;
        slots_[index] = {.sending = &sending, .use = ++uses_, .position = position};
        return name_of(index);
    }

    /// Its completion is taken, or lost: frees the slot. Null: nobody asked for it.
    Operation* end(std::uint64_t name) noexcept {
        const auto index = static_cast<unsigned>(name) % (1U << slot_bits);
        if (index >= Capacity || (free_ >> index & 1U) != 0 || name != name_of(index)) {
            return nullptr;
        }
        free_ |= std::uint32_t{1} << index;
        return slots_[index].sending;
    }

    /// Calls visit(name, position) for each whose completion has not been taken; it may end that.
    template <class Visit>
    void for_each(Visit&& visit) noexcept {
        for (std::uint32_t left = ~free_ & all; left != 0; left &= left - 1) {
            const auto index = static_cast<unsigned>(std::countr_zero(left));
            visit(name_of(index), slots_[index].position);
        }
    }

private:
    struct slot {
        Operation* sending = nullptr;
        std::uint32_t use = 0;
        unsigned position = 0;
    };

    static constexpr unsigned slot_bits = 5;
    static constexpr std::uint32_t all = ~std::uint32_t{0} >> (32 - Capacity);

    std::uint64_t name_of(unsigned index) const noexcept {
        return std::uint64_t{slots_[index].use} << slot_bits | index;
    }

    std::uint32_t free_ = all;
    std::uint32_t uses_ = 0;
    std::array<slot, Capacity> slots_{};
};

}  // namespace weft::detail
