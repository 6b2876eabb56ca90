// SPDX-License-Identifier: MIT
//
// The descriptor word: who may use a descriptor, and when it is really closed.
//
// The slots of descriptors are type-stable: they are used again and never freed. A *life* of a slot
// begins when a file descriptor is put into it and ends after close(2). Whoever holds a handle
// knows the generation of its life, so a handle that outlives its descriptor finds that out here,
// instead of reading somebody else's socket.
//
//     bits     content
//     0        closing: a closer has begun, nothing new is started
//     1, 2     the turn of the read and of the write direction is taken
//     3, 4     operations queue for the turn of the read and of the write direction
//     8..31    references
//     32..63   generation
//
// A reference is held by: each operation, from enter() to leave() (over its system calls and over
// its wait); each operation in a queue; each poll, from before its arming to its release
// (home_word.hpp); the closer, until it has told everybody. The last one to drop a reference of a
// closing descriptor has it alone: it calls close(2), starts the next generation, and gives the
// slot back. So the number of the file is never free while a call or a request to the kernel may
// still name it. A life has an odd generation; an even one means that the slot is free.
//
// Turns. Of several operations in one direction one has the turn, the others queue first in, first
// out, in a list under the descriptor's lock. The queued bit is set under that lock, only while the
// turn is taken, and cleared under it when the list becomes empty. leave() either frees the turn
// or, where the bit is set, tells the caller to hand the turn over; the word is one, so an
// operation that queues beside a leaving one is either seen by it, or finds the turn free.
//
// References cannot overflow: only operations that queue are many, and queue() refuses more than
// half of what the field holds. Of the others there are as many as turns (two), polls (one for each
// direction and ring) and threads. So the paths that nobody queues on check nothing.
//
// The load that starts a compare-and-swap loop is relaxed everywhere: the swap decides.
#pragma once

#include <weft/detail/base/assert.hpp>
#include <weft/detail/netpoll/direction.hpp>

#include <atomic>
#include <cstdint>

namespace weft::detail {

enum class enter_outcome : std::uint8_t {
    entered,  ///< The caller has the turn and a reference.
    busy,     ///< Another operation has the turn.
    closed,   ///< The descriptor is being closed, or the handle is from an earlier life.
    crowded,  ///< So many operations queue already that no more are admitted.
};

template <class Layer>
class descriptor_word {
public:
    /// So many references there are when no operation is admitted to a queue any more.
    static constexpr std::uint32_t most_queued = std::uint32_t{1} << 23;

    /// Takes the turn of a direction.
    enter_outcome enter(std::uint32_t generation, direction which) noexcept {
        std::uint64_t value = word_.load(std::memory_order_relaxed);
        for (;;) {
            if (!is_open(value, generation)) return enter_outcome::closed;
            if ((value & turn_bit(which)) != 0) return enter_outcome::busy;
            WEFT_ASSERT((value & reference_mask) != reference_mask);
            // Acquire pairs with open(): the file descriptor is seen; and with leave(): what
            // belongs to the turn (plain fields of the direction) is seen.
            if (word_.compare_exchange_weak(value, (value | turn_bit(which)) + one_reference,
                                            std::memory_order_acquire, std::memory_order_relaxed)) {
                return enter_outcome::entered;
            }
        }
    }

    /// Under the descriptor's lock: the caller is about to be put into the queue of a direction,
    /// and holds a reference from now on. `entered`: the turn became free and is the caller's.
    /// `crowded`: nothing has changed.
    enter_outcome queue(std::uint32_t generation, direction which) noexcept {
        std::uint64_t value = word_.load(std::memory_order_relaxed);
        for (;;) {
            if (!is_open(value, generation)) return enter_outcome::closed;
            const bool taken = (value & turn_bit(which)) != 0;
            if (taken && references_of(value) >= most_queued) return enter_outcome::crowded;
            const std::uint64_t mark = taken ? queue_bit(which) : turn_bit(which);
            WEFT_ASSERT((value & reference_mask) != reference_mask);
            // Acquire as in enter(). Whoever has the turn sees the mark in leave(), since the word
            // is one; the list itself is ordered by the lock.
            if (word_.compare_exchange_weak(value, (value | mark) + one_reference,
                                            std::memory_order_acquire, std::memory_order_relaxed)) {
                return taken ? enter_outcome::busy : enter_outcome::entered;
            }
        }
    }

    /// Under the descriptor's lock: the queue of a direction has become empty. Relaxed: the word is
    /// one, and the lock orders the list.
    void queue_is_empty(direction which) noexcept {
        word_.fetch_and(~queue_bit(which), std::memory_order_relaxed);
    }

    enum class leave_outcome : std::uint8_t {
        left,       ///< Turn and reference are given back.
        hand_over,  ///< Nothing was given back: the caller hands the turn to the first in the
                    ///< queue.
        last,  ///< As left, and the caller has the closing descriptor alone: it ends this life.
    };

    /// Gives the turn and the reference back.
    leave_outcome leave(direction which) noexcept {
        std::uint64_t value = word_.load(std::memory_order_relaxed);
        for (;;) {
            WEFT_ASSERT((value & reference_mask) != 0 && (value & turn_bit(which)) != 0);
            if ((value & queue_bit(which)) != 0) return leave_outcome::hand_over;
            const std::uint64_t next = (value & ~turn_bit(which)) - one_reference;
            // Release pairs with enter() of the next one that has the turn, and with the last
            // reference. Acquire: if we are the last, what all others did is behind us.
            if (word_.compare_exchange_weak(value, next, std::memory_order_acq_rel,
                                            std::memory_order_relaxed)) {
                return is_last(next) ? leave_outcome::last : leave_outcome::left;
            }
        }
    }

    /// A reference for a system call that needs no turn. False: closing, or an earlier life.
    bool add_use(std::uint32_t generation) noexcept {
        std::uint64_t value = word_.load(std::memory_order_relaxed);
        for (;;) {
            if (!is_open(value, generation)) return false;
            // Acquire as in enter().
            if (word_.compare_exchange_weak(value, value + one_reference, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
                return true;
            }
        }
    }

    /// A reference for a poll. The caller holds one already, so the descriptor cannot go away.
    /// Relaxed: the caller's own reference orders it.
    void add_reference() noexcept { word_.fetch_add(one_reference, std::memory_order_relaxed); }

    /// True: it was the last reference of a closing descriptor, and the caller ends this life.
    /// Release and acquire as in leave().
    bool drop_reference() noexcept {
        const std::uint64_t before = word_.fetch_sub(one_reference, std::memory_order_acq_rel);
        WEFT_ASSERT((before & reference_mask) != 0);
        return is_last(before - one_reference);
    }

    /// True: the caller is the closer and holds a reference. False: somebody has begun, or that
    /// life has ended.
    bool begin_close(std::uint32_t generation) noexcept {
        std::uint64_t value = word_.load(std::memory_order_relaxed);
        for (;;) {
            if (!is_open(value, generation)) return false;
            // Acquire pairs with open(). Release: an operation that meets the mark is told why.
            if (word_.compare_exchange_weak(value, (value | closing_bit) + one_reference,
                                            std::memory_order_acq_rel, std::memory_order_relaxed)) {
                return true;
            }
        }
    }

    /// An operation that was woken asks: because of a closer? Acquire pairs with begin_close().
    bool closing() const noexcept {
        return (word_.load(std::memory_order_acquire) & closing_bit) != 0;
    }

    /// A hint, since it may be closed at any moment.
    bool is_open(std::uint32_t generation) const noexcept {
        return is_open(word_.load(std::memory_order_relaxed), generation);
    }

    /// The generation, to tell a late event from a current one, and an ended life from one that is
    /// about to end. Acquire pairs with open() and end_life(): who sees another generation comes
    /// after close(2).
    std::uint32_t generation() const noexcept {
        return generation_of(word_.load(std::memory_order_acquire));
    }

    /// Whoever has the slot alone: starts a life and returns its generation. Release pairs with
    /// enter(): the fields of the new life are seen by whoever enters.
    std::uint32_t open() noexcept {
        WEFT_ASSERT(!lives());
        return next_generation();
    }

    /// Whoever dropped the last reference: no handle of the life that has ended gets in any more.
    /// Release pairs with generation().
    void end_life() noexcept {
        WEFT_ASSERT(lives());
        next_generation();
    }

private:
    static constexpr std::uint64_t closing_bit = 1;
    static constexpr unsigned reference_shift = 8;
    static constexpr unsigned generation_shift = 32;
    static constexpr std::uint64_t one_reference = std::uint64_t{1} << reference_shift;
    static constexpr std::uint64_t reference_mask = 0xffff'ff00;

    static constexpr std::uint64_t turn_bit(direction which) noexcept {
        return which == direction::read ? 2 : 4;
    }
    static constexpr std::uint64_t queue_bit(direction which) noexcept {
        return which == direction::read ? 8 : 16;
    }
    static constexpr std::uint32_t generation_of(std::uint64_t value) noexcept {
        return static_cast<std::uint32_t>(value >> generation_shift);
    }
    static constexpr std::uint32_t references_of(std::uint64_t value) noexcept {
        return static_cast<std::uint32_t>(value & reference_mask) >> reference_shift;
    }
    static constexpr bool is_open(std::uint64_t value, std::uint32_t generation) noexcept {
        return generation_of(value) == generation && (value & closing_bit) == 0;
    }
    static constexpr bool is_last(std::uint64_t value) noexcept {
        return (value & reference_mask) == 0 && (value & closing_bit) != 0;
    }

    /// For assertions: lives have odd generations. Relaxed: whoever asks has the slot alone.
    bool lives() const noexcept {
        return generation_of(word_.load(std::memory_order_relaxed)) % 2 != 0;
    }

    std::uint32_t next_generation() noexcept {
        const std::uint64_t before = word_.load(std::memory_order_relaxed);
        WEFT_ASSERT((before & reference_mask) == 0);
        const std::uint32_t generation = generation_of(before) + 1;
        word_.store(std::uint64_t{generation} << generation_shift, std::memory_order_release);
        return generation;
    }

    typename Layer::template atomic<std::uint64_t> word_{0};
};

}  // namespace weft::detail
