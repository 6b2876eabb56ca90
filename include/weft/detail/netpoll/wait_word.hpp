// SPDX-License-Identifier: MIT
//
// The wait word: how one direction of a descriptor hands readiness to the operation that waits.
//
//     value      meaning                                            changed by
//     nil        nobody waits, nothing is known                     operation (take_ready,
//     withdraw),
//                                                                   notifier (with the waiter)
//     ready      something has happened since an operation last     notifier
//                took it
//     waiter     this branch waits                                  operation (publish)
//
// Parties. The *operation* that has the turn of this direction; there is one at most (see
// descriptor_word.hpp), so there is one waiter at most. A *notifier*: the worker that reaped a
// completion, or whoever closes the descriptor. A *canceller*, which takes a waiter out again.
//
// Why no readiness is lost. The operation takes `ready` away before its first system call, and
// publishes itself only after a later call has said EAGAIN (or, where that call is put off, before
// the kernel is asked: unverified_waits.hpp). Whatever arrives after that call finds
// either the waiter, or nil and leaves `ready`, so that publish() fails and the call is made again.
// What arrived before the call was seen by the call. A stale `ready` costs one more call.
//
// Why a waiter is woken once. Every way out of the value `waiter` is a read-modify-write that puts
// another value there, so one party gets the branch.
//
// What the wait word orders besides. Before it notifies, a notifier clears the home of a poll that
// has ended, or marks the descriptor as closing (home_word.hpp). An operation that publishes itself
// after that must see it, or it would park on a poll that is no more. It does: the notification
// left `ready`; the publication fails on that, unless the operation took it away before, with
// acquire. If the notification took a waiter instead, that was the operation's own branch, and
// waking it up ordered the rest. For this notify() is a read-modify-write in every case, also where
// it finds `ready` and writes the same again: taking `ready` then reads from it, or from a later
// one of the same release sequence. A notifier that only looked at an older `ready` would break
// that.
//
// Rejected: four values as in Go (nil, wait, ready, waiter), since a branch is published in one
// step and its own word (operation_word.hpp) settles what happens before it is suspended.
//
// The load that starts a compare-and-swap loop is relaxed everywhere: the swap decides.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::detail {

template <class Layer, class Waiter>
class wait_word {
public:
    static constexpr std::uintptr_t nil = 0;
    static constexpr std::uintptr_t ready = 1;

    /// Operation with the turn: forgets what happened so far; the system call that follows will
    /// see it. The load may be relaxed and may miss a `ready` that was just written: then the call
    /// may say EAGAIN, and publish() finds the `ready`.
    void take_ready() noexcept {
        if (word_.load(std::memory_order_relaxed) == ready) {
            // Acquire pairs with notify(): a poll that ended before it is seen as ended.
            word_.exchange(nil, std::memory_order_acquire);
        }
    }

    /// Operation with the turn, after EAGAIN. False: something has happened meanwhile.
    bool publish(Waiter* waiter) noexcept {
        std::uintptr_t expected = nil;
        // Release pairs with the acquire in notify() and withdraw(): who takes the waiter sees what
        // it stored. Nothing to acquire: what was notified before was taken, or makes this fail.
        return word_.compare_exchange_strong(expected, reinterpret_cast<std::uintptr_t>(waiter),
                                             std::memory_order_release, std::memory_order_relaxed);
    }

    /// Whoever takes an operation back. True: the waiter was still there, and no notifier has it.
    bool withdraw(Waiter* waiter) noexcept {
        auto expected = reinterpret_cast<std::uintptr_t>(waiter);
        // Acquire pairs with publish(): the operation is about to be resumed or to be freed.
        return word_.compare_exchange_strong(expected, nil, std::memory_order_acquire,
                                             std::memory_order_relaxed);
    }

    /// Does a waiter stand here? Relaxed: for whoever published it itself (unverified_waits.hpp).
    bool waits() const noexcept {
        const std::uintptr_t value = word_.load(std::memory_order_relaxed);
        return value != nil && value != ready;
    }

    /// Whoever makes a waiter try again though nothing is known to have happened: takes it, if one
    /// is there (else null). As withdraw(), so it may take another waiter than it was meant for.
    Waiter* take_waiter() noexcept {
        std::uintptr_t value = word_.load(std::memory_order_relaxed);
        if (value == nil || value == ready) return nullptr;
        // Acquire pairs with publish(). Failed: somebody else has just taken it.
        return word_.compare_exchange_strong(value, nil, std::memory_order_acquire,
                                             std::memory_order_relaxed)
                   ? reinterpret_cast<Waiter*>(value)
                   : nullptr;
    }

    /// Notifier: takes the waiter, or leaves `ready` where nobody waits (null).
    Waiter* notify() noexcept {
        std::uintptr_t value = word_.load(std::memory_order_relaxed);
        for (;;) {
            const bool waits = value != nil && value != ready;
            // Release pairs with take_ready(), acquire with publish() of the waiter that is taken.
            if (word_.compare_exchange_weak(value, waits ? nil : ready, std::memory_order_acq_rel,
                                            std::memory_order_relaxed)) {
                return waits ? reinterpret_cast<Waiter*>(value) : nullptr;
            }
        }
    }

    /// Whoever has the descriptor alone, between two lives of its slot. Relaxed: the publication of
    /// the new life orders it.
    void reset() noexcept { word_.store(nil, std::memory_order_relaxed); }

private:
    typename Layer::template atomic<std::uintptr_t> word_{nil};
};

}  // namespace weft::detail
