// SPDX-License-Identifier: MIT
//
// The operations whose sends a ring has taken over, by the names that its entries carry: a slot, and
// how often slots were taken before, so that a completion that is read late names nothing any more.
//
// A slot belongs to the owner of the ring, and its word is in one of these states:
//
//     state      meaning                                             leaves by
//     free       nothing                                             add (owner)
//     prepared   the entry is in the ring, and may complete at any   publish (owner)
//                moment; the branch is not suspended yet
//     held       the branch is suspended                             end (owner), take_for_owner
//     taken      somebody else has the operation, while a task       end (owner)
//                keeps the owner
//
// Who takes the operation out of `held`, by compare-and-swap, gives it its result and readies its
// branch. The owner frees the slot in any case when it takes the completion, of which there is one
// for each entry.
//
// Why it is correct. Whoever takes for the owner reads the word, then the operation, and then swaps
// the word that it has read, which names one use of the slot only. If the swap succeeds, the slot
// was not used again in between, so the operation was that one's. That it acquires the release of
// publish() makes visible all that the owner has written before, and the owner touches neither the
// operation nor its branch after that. The owner on its side has a result to give only when it has
// published, since it takes completions in its loop.
//
// Who finds a slot prepared comes back later: between add() and publish() the owner does nothing but
// suspend the branch.
#pragma once

#include <weft/detail/base/assert.hpp>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace weft::detail {

enum class send_taking : std::uint8_t {
    taken,
    too_early,  ///< Ask again later.
    gone,       ///< The owner has it, or has had it.
};

template <class Layer, class Operation, unsigned Capacity = 32>
class gathered_sends {
public:
    static_assert(Capacity <= 32);

    // The owner.

    bool any() const noexcept { return free_ != all; }
    bool full() const noexcept { return free_ == 0; }
    /// Between add() and publish(): in a signal handler on the owner's thread, nothing must end then.
    bool preparing() const noexcept { return prepared_ != nullptr; }

    /// Before the entry is pushed, at `position` of the submission queue. Returns its name, of 40
    /// bits at most. publish() follows when the branch is suspended.
    std::uint64_t add(Operation& sending, unsigned position) noexcept {
        WEFT_ASSERT(!full() && prepared_ == nullptr);
        const auto index = static_cast<unsigned>(std::countr_zero(free_));
        free_ &= free_ - 1;
        slot& used = slots_[index];
        used.position = position;
        used.use = ++uses_;
        // Relaxed, both: publish() releases them. Whoever reads the word of this use before that
        // does not look at the operation.
        used.sending.store(&sending, std::memory_order_relaxed);
        used.word.store(word_of(used.use, prepared), std::memory_order_relaxed);
        prepared_ = &used;
        return std::uint64_t{used.use} << slot_bits | index;
    }

    /// The last touch of whoever has added one: its branch is suspended.
    void publish() noexcept {
        WEFT_ASSERT(prepared_ != nullptr);
        // Release: pairs with the acquire in take_for_owner().
        prepared_->word.store(word_of(prepared_->use, held), std::memory_order_release);
        prepared_ = nullptr;
    }

    /// Its completion is taken, or lost: frees the slot. Null: somebody else has the operation.
    Operation* end(std::uint64_t name) noexcept {
        const auto index = static_cast<unsigned>(name) % (1U << slot_bits);
        if (index >= Capacity || (free_ >> index & 1U) != 0) return nullptr;
        slot& used = slots_[index];
        if (used.use != static_cast<std::uint32_t>(name >> slot_bits)) return nullptr;
        free_ |= std::uint32_t{1} << index;
        std::uint64_t seen = word_of(used.use, held);
        // Relaxed: what is in the slot is the owner's own; the swap only decides who has it.
        const bool ours =
            used.word.compare_exchange_strong(seen, word_of(used.use, free_slot),
                                              std::memory_order_relaxed, std::memory_order_relaxed);
        return ours ? used.sending.load(std::memory_order_relaxed) : nullptr;
    }

    /// Calls visit(name, position) for each whose completion has not been taken; it may end that.
    template <class Visit>
    void for_each(Visit&& visit) noexcept {
        for (std::uint32_t left = ~free_ & all; left != 0; left &= left - 1) {
            const auto index = static_cast<unsigned>(std::countr_zero(left));
            visit(std::uint64_t{slots_[index].use} << slot_bits | index, slots_[index].position);
        }
    }

    // Any other thread, one at a time, that has read the completion of that name.

    send_taking take_for_owner(std::uint64_t name, Operation*& taken) noexcept {
        const auto index = static_cast<unsigned>(name) % (1U << slot_bits);
        if (index >= Capacity) return send_taking::gone;
        const auto use = static_cast<std::uint32_t>(name >> slot_bits);
        slot& named = slots_[index];
        // Acquire: pairs with the release in publish().
        std::uint64_t seen = named.word.load(std::memory_order_acquire);
        if (seen == word_of(use, prepared)) return send_taking::too_early;
        if (seen != word_of(use, held)) return send_taking::gone;
        // Relaxed: the swap tells whether it was of this use.
        taken = named.sending.load(std::memory_order_relaxed);
        // Release: the loads before, of the completion too, come before the swap, after which the
        // owner lets the kernel and others write again.
        return named.word.compare_exchange_strong(seen, word_of(use, taken_slot),
                                                  std::memory_order_release,
                                                  std::memory_order_relaxed)
                   ? send_taking::taken
                   : send_taking::gone;
    }

private:
    enum state : std::uint64_t { free_slot = 0, prepared = 1, held = 2, taken_slot = 3 };

    struct slot {
        typename Layer::template atomic<std::uint64_t> word{0};
        typename Layer::template atomic<Operation*> sending{nullptr};
        // The owner's.
        std::uint32_t use = 0;
        unsigned position = 0;
    };

    static constexpr unsigned slot_bits = 5;
    static constexpr std::uint32_t all = ~std::uint32_t{0} >> (32 - Capacity);

    static constexpr std::uint64_t word_of(std::uint32_t use, state what) noexcept {
        return std::uint64_t{use} << 2 | what;
    }

    std::uint32_t free_ = all;
    std::uint32_t uses_ = 0;
    slot* prepared_ = nullptr;
    std::array<slot, Capacity> slots_{};
};

}  // namespace weft::detail
