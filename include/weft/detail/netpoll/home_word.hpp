// SPDX-License-Identifier: MIT
//
// The home word: in whose ring the poll of one direction of a descriptor is armed.
//
// A *poll* is one request to a ring to tell when the descriptor becomes ready. Its id is the slot
// of the descriptor, the direction, the record (there are two for each direction) and a sequence
// number that no other poll of this direction has, for 2^32 polls. A poll ends with its final
// completion; until then the kernel holds the file.
//
//     bits     content
//     0        armed: the current poll has not ended
//     1        closing: nobody arms any more; stays until the slot gets its next life
//     2        record of the current poll
//     3        the other record is busy: its poll has been given up, but is not *released* yet
//     4        armed before in this life: from the second time on a poll is multishot
//     16..31   home: the index of the ring of the current poll
//     32..63   sequence number of the current poll
//
// Transitions, each one compare-and-swap of the whole word:
//
//     unarmed   -> armed (new sequence, home)            arm(), operation with the turn
//     armed     -> armed (new sequence, home, record),   arm(): the poll moves; the mover asks the
//                  other busy                            old home to cancel the old poll
//     armed     -> unarmed, other busy                   disarm(), owner of the home: nobody uses
//                                                        the events
//     armed     -> unarmed                               end(), owner of the home, by id: the final
//                                                        completion of the current poll
//     any       -> closing                               close(), once; the closer asks the home of
//                                                        an armed poll to cancel it
//     other busy -> other free                           release_other(), owner of the old home
//
// Whoever makes a poll lose its place (move, disarm, close) asks for its cancellation, and since
// that is one compare-and-swap, exactly one party asks, once for each poll. Which end() belongs to
// a poll that was asked for follows from the same word: it is no longer the current one, or the
// word is closing. Such a poll is released when both has happened, in either order: its final
// completion was reaped, and the request to cancel it was taken from the inbox of its home. Both
// happen on the owner of that ring. Only then may its record be used again and the descriptor be
// closed.
//
// Why nobody parks without a poll. end() comes before notify() of the wait word, and arm() after
// publish(): see wait_word.hpp. An operation that reads `armed` here has published itself before,
// so the notifier that follows the end finds it. An old poll's last completion cannot clear a newer
// poll: end() compares the sequence.
//
// Why nobody arms after closing. arm() swaps from the value that it has read.
//
// The load that starts a compare-and-swap loop is relaxed everywhere: the swap decides.
#pragma once

#include <weft/detail/base/assert.hpp>

#include <atomic>
#include <cstdint>

namespace weft::detail {

/// A poll, as far as its direction goes; the descriptor and the direction are known from elsewhere.
struct poll_name {
    std::uint32_t sequence = 0;
    std::uint16_t home = 0;
    std::uint8_t record = 0;
    bool multishot = false;
};

enum class arm_outcome : std::uint8_t {
    armed_here,       ///< A poll is armed at `here`: wait for it.
    armed_elsewhere,  ///< One is armed in another ring: wait for it.
    arm,              ///< `poll` is the caller's to arm.
    move,             ///< The same, and `old` is the caller's to cancel.
    closing,          ///< The descriptor is being closed: do not wait.
};

struct arm_decision {
    arm_outcome outcome = arm_outcome::closing;
    poll_name poll = {};
    poll_name old = {};

    bool arms() const noexcept {
        return outcome == arm_outcome::arm || outcome == arm_outcome::move;
    }
};

struct end_outcome {
    /// It was the current poll of its direction.
    bool current = false;
    /// Somebody asks, or has asked, its home to cancel it.
    bool cancel_requested = false;
};

struct close_outcome {
    bool armed = false;  ///< `poll` is the caller's to cancel.
    poll_name poll = {};
};

template <class Layer>
class home_word {
public:
    /// Operation with the turn, after it has published itself in the wait word. `may_move`: leave a
    /// poll in another ring and arm one here. `references` are those of the descriptor: the poll's
    /// is added before the swap that makes it the current one, since a closer on another thread may
    /// see it there, end it and drop its reference before this returns (where the home needs no
    /// owner for that: an epoll set).
    template <class References>
    arm_decision arm(std::uint16_t here, bool may_move, References references) noexcept {
        // Acquire pairs with end(), release_other() and reset(): the record that is used next is
        // done with. That the value is new enough follows from the order of the wait word.
        std::uint64_t value = word_.load(std::memory_order_acquire);
        std::uint64_t next = 0;
        arm_decision decision = decide(value, here, may_move, next);
        if (!decision.arms()) return decision;
        references.add();
        // Release: the owner of this ring, who ends the poll, is the caller itself; a closer or
        // mover on another thread reads a word from which it asks for a cancellation, and must
        // find the ring there (acquire in close() and here).
        while (!word_.compare_exchange_weak(value, next, std::memory_order_acq_rel,
                                            std::memory_order_acquire)) {
            decision = decide(value, here, may_move, next);
            if (decision.arms()) continue;
            references.drop();
            break;
        }
        return decision;
    }

    /// Operation with the turn: is a poll armed at `here`? Relaxed: a hint, on which nothing
    /// depends but whether an attempt is worth while.
    bool armed_at(std::uint16_t here) const noexcept {
        const std::uint64_t value = word_.load(std::memory_order_relaxed);
        return (value & (armed_bit | closing_bit)) == armed_bit && home_of(value) == here;
    }

    /// Owner of the home, with the final completion of a poll, before it notifies the wait word.
    end_outcome end(std::uint32_t sequence) noexcept {
        std::uint64_t value = word_.load(std::memory_order_relaxed);
        for (;;) {
            if ((value & armed_bit) == 0 || sequence_of(value) != sequence) {
                return {.current = false, .cancel_requested = true};
            }
            // Release pairs with arm(): the record is done with. Relaxed reading is enough: only
            // the word itself decides.
            if (word_.compare_exchange_weak(value, value & ~armed_bit, std::memory_order_release,
                                            std::memory_order_relaxed)) {
                return {.current = true, .cancel_requested = (value & closing_bit) != 0};
            }
        }
    }

    /// A home whose polls have no completions of their own, and which goes away or could not arm
    /// this one: ends its current poll, unless a closer has seen it, which then ends it. For that
    /// one the home has to stay, and it does only as long as it has a poll. True: ended here.
    bool end_unless_closing(std::uint16_t home) noexcept {
        std::uint64_t value = word_.load(std::memory_order_relaxed);
        for (;;) {
            const bool possible = (value & (armed_bit | closing_bit)) == armed_bit;
            if (!possible || home_of(value) != home) return false;
            // Release: as in end().
            if (word_.compare_exchange_weak(value, value & ~armed_bit, std::memory_order_acq_rel,
                                            std::memory_order_relaxed)) {
                return true;
            }
        }
    }

    /// Owner of the home: gives the current poll up without a new one. True: the caller cancels it.
    bool disarm(std::uint32_t sequence) noexcept {
        std::uint64_t value = word_.load(std::memory_order_relaxed);
        for (;;) {
            const bool possible = (value & armed_bit) != 0 && sequence_of(value) == sequence &&
                                  (value & (closing_bit | other_busy_bit)) == 0;
            if (!possible) return false;
            const std::uint64_t next = ((value & ~armed_bit) ^ record_bit) | other_busy_bit;
            // Release: as in end(). The other record was released before; its release_other() was
            // read by this compare-and-swap, and its release goes on through it.
            if (word_.compare_exchange_weak(value, next, std::memory_order_acq_rel,
                                            std::memory_order_relaxed)) {
                return true;
            }
        }
    }

    /// Owner of the old home: the poll that was given up is released.
    /// Release pairs with arm(), which may use the record again.
    void release_other() noexcept {
        [[maybe_unused]] const std::uint64_t before =
            word_.fetch_and(~other_busy_bit, std::memory_order_release);
        WEFT_ASSERT((before & other_busy_bit) != 0);
    }

    /// The closer, once in a life, before it notifies the wait word. Acquire pairs with arm(): the
    /// ring that is named here is there. Release: part of the chain that end() and arm() read.
    close_outcome close() noexcept {
        const std::uint64_t value = word_.fetch_or(closing_bit, std::memory_order_acq_rel);
        return {.armed = (value & armed_bit) != 0, .poll = name_of(value)};
    }

    /// Whoever has the descriptor alone, between two lives of its slot: the sequence goes on, so
    /// that the completion of a poll of an earlier life is known as such. Relaxed: the publication
    /// of the new life orders it.
    void reset() noexcept {
        const std::uint64_t value = word_.load(std::memory_order_relaxed);
        word_.store(value & sequence_mask, std::memory_order_relaxed);
    }

    /// For assertions and tests, hence relaxed.
    bool armed() const noexcept { return (word_.load(std::memory_order_relaxed) & armed_bit) != 0; }
    std::uint16_t home() const noexcept { return home_of(word_.load(std::memory_order_relaxed)); }

private:
    static constexpr std::uint64_t armed_bit = 1;
    static constexpr std::uint64_t closing_bit = 2;
    static constexpr std::uint64_t record_bit = 4;
    static constexpr std::uint64_t other_busy_bit = 8;
    static constexpr std::uint64_t armed_before_bit = 16;
    static constexpr unsigned home_shift = 16;
    static constexpr unsigned sequence_shift = 32;
    static constexpr std::uint64_t sequence_mask = ~std::uint64_t{0} << sequence_shift;

    /// What arm() does with a word of that value, and which one follows if that arms a poll.
    static arm_decision decide(std::uint64_t value, std::uint16_t here, bool may_move,
                               std::uint64_t& next) noexcept {
        if ((value & closing_bit) != 0) return {.outcome = arm_outcome::closing};
        arm_decision decision{.outcome = arm_outcome::arm};
        std::uint64_t kept = value & (record_bit | other_busy_bit);
        if ((value & armed_bit) != 0) {
            if (home_of(value) == here) return {.outcome = arm_outcome::armed_here};
            if (!may_move || (value & other_busy_bit) != 0) {
                return {.outcome = arm_outcome::armed_elsewhere};
            }
            decision = {.outcome = arm_outcome::move, .old = name_of(value)};
            kept = (kept ^ record_bit) | other_busy_bit;
        }
        next = with_poll(kept, here, sequence_of(value) + 1);
        decision.poll = name_of(next);
        decision.poll.multishot = (value & armed_before_bit) != 0;
        return decision;
    }

    static constexpr std::uint32_t sequence_of(std::uint64_t value) noexcept {
        return static_cast<std::uint32_t>(value >> sequence_shift);
    }
    static constexpr std::uint16_t home_of(std::uint64_t value) noexcept {
        return static_cast<std::uint16_t>(value >> home_shift);
    }
    static constexpr poll_name name_of(std::uint64_t value) noexcept {
        return {.sequence = sequence_of(value),
                .home = home_of(value),
                .record = static_cast<std::uint8_t>((value & record_bit) != 0 ? 1 : 0)};
    }
    static constexpr std::uint64_t with_poll(std::uint64_t kept, std::uint16_t home,
                                             std::uint32_t sequence) noexcept {
        return kept | armed_bit | armed_before_bit | (std::uint64_t{home} << home_shift) |
               (std::uint64_t{sequence} << sequence_shift);
    }

    typename Layer::template atomic<std::uint64_t> word_{0};
};

}  // namespace weft::detail
