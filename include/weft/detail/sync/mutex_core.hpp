// SPDX-License-Identifier: MIT
//
// What a mutex decides: who has it, who waits, and who is woken (Go's sync.Mutex).
//
// The word says all that is asked where nobody waits, so that locking and unlocking are one
// compare-and-swap each. Those who wait stand in a list under an internal lock:
//
//     word                 meaning                                       changed by
//     0                    free, nobody stands in line                   lock
//     locked               held, nobody stands in line                   unlock; who lines up
//     locked | contended   held, somebody stands in line                 under the internal lock
//     contended            free, somebody stands in line, and one who    lock (whoever is faster)
//                          was woken is on its way
//
//     lock       free: locked. Held: line up at the end
//     unlock     nobody waits: free. Otherwise one of two modes decides:
//                normal: free; the first one in line is woken, unless one is on its way already. It
//                tries again like everybody else, and where somebody was faster it stands in front
//                again
//                starving: the first one in line becomes the holder; the mutex is never free in
//                between, so nobody who comes now is faster
//     withdraw   one who stood in line leaves it
//     give up    one who was woken does not want the mutex any more: if it is free, the next one in
//                line is woken in its place
//
// Why two modes. A task that runs can lock and unlock many times before one that was woken is there
// to try; handing over each time would cost a switch of tasks for every section instead. But then
// the woken one could lose for ever. So whoever was woken, fails, and has waited for more than 1 ms
// makes the mutex starving; it is normal again when the one it is handed to is the last in line, or
// has waited for less (sync.Mutex: mutexStarving, starvationThresholdNs), since competing is the
// cheaper way once nobody loses for long.
//
// Why nobody is forgotten. If the mutex is free and somebody stands in line, then one that was
// woken (`woken_`) is on its way: (1) Whoever lines up sets `contended` by a read-modify-write that
// finds `locked`, so the holder's unlock finds both bits, and goes to the line. (2) An unlock that
// frees it with somebody in line leaves one woken. (3) The woken one ends by taking the mutex; by
// standing in line again, as (1); or by giving up, where it wakes another one if the mutex is free.
// If it is held then, (1) holds for its holder. (4) `contended` is cleared under the internal lock
// by whoever takes the last one off, or by one that was woken and finds nobody behind it.
//
// Why sections never overlap. The only way from free to locked is a compare-and-swap that finds
// `locked` clear; a hand-over passes the bit on as it is. From `locked | contended` only the holder
// changes `locked`, under the internal lock; so there its stores cannot hide anybody else's change.
//
// Why the mutex may be destroyed by whoever has locked it last, when nobody waits any more. An
// unlock that takes the internal lock, and finds somebody in line, is followed by one who takes
// that lock after it (the one that was woken), or runs only after it (the one it is handed to).
// Where everybody has left the line meanwhile, the unlock starts again from the beginning instead,
// and ends with the compare-and-swap as its last touch.
//
// Rejected: spinning before lining up, as Go does (the holder may be suspended, for as long as it
// likes); handing over always (see above: 100 tasks that share a mutex would pay a switch for each
// section); a lock-free list of waiters (whoever is cancelled has to leave from its middle).
#pragma once

#include <weft/detail/base/assert.hpp>
#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/sync/wait_list.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace weft::detail {

template <class Waiter>
struct unlock_decision {
    bool was_locked = true;
    Waiter* next = nullptr;  ///< Off the list: the caller completes it.
    bool handed = false;     ///< It holds the mutex; otherwise it is to call acquire() again.
};

/// Waiter is derived from wait_links<Layer, Waiter> and has waits_long(): for more than 1 ms?
template <class Layer, class Waiter>
class mutex_core {
public:
    bool try_lock() noexcept {
        std::uint32_t seen = word_.load(std::memory_order_relaxed);
        while ((seen & locked) == 0) {
            // Acquire pairs with the release of unlock(): what the last holder did is visible.
            // Relaxed otherwise: only a hint for the next round.
            if (word_.compare_exchange_weak(seen, seen | locked, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
                return true;
            }
        }
        return false;
    }

    /// True: locked. False: `self` stands in line, and its task parks. Whoever was woken calls it
    /// again.
    bool acquire(Waiter& self) noexcept {
        const std::lock_guard held(lock_);
        const bool again = woken_ == &self;
        if (again) woken_ = nullptr;
        if (take_or_contend()) return true;
        if (again) {
            if (self.waits_long()) starving_ = true;
            list_.push_front(self);
        } else {
            list_.push_back(self);
        }
        return false;
    }

    /// The holder.
    unlock_decision<Waiter> unlock() noexcept {
        for (;;) {
            std::uint32_t seen = locked;
            // Release pairs with the acquire of whoever locks next. Relaxed otherwise: what is seen
            // is looked at again under the lock, or nobody has locked.
            if (word_.compare_exchange_strong(seen, 0, std::memory_order_release,
                                              std::memory_order_relaxed)) {
                return {};
            }
            if ((seen & locked) == 0) return {.was_locked = false};
            const std::lock_guard held(lock_);
            if (!list_.empty()) return unlock_contended();
        }
    }

    /// A canceller. False: it was woken, or holds the mutex; somebody completes it, or has.
    bool withdraw(Waiter& waiting) noexcept {
        const std::lock_guard held(lock_);
        if (!list_.remove(waiting)) return false;
        note_if_empty();
        return true;
    }

    /// Whoever was woken, and neither locks nor waits any more. The caller completes the one that
    /// is returned, if any.
    Waiter* give_up([[maybe_unused]] Waiter& woken) noexcept {
        const std::lock_guard held(lock_);
        WEFT_ASSERT(woken_ == &woken);
        woken_ = nullptr;
        // Relaxed: a holder with somebody in line takes our lock before it frees the mutex. So if
        // it is held now, its unlock is still to come to the line.
        const bool free = (word_.load(std::memory_order_relaxed) & locked) == 0;
        if (!free || list_.empty()) return nullptr;
        woken_ = list_.pop_front();
        note_if_empty();
        return woken_;
    }

    /// The mutex is destroyed. Returns all who stand in line, linked through `next`; they and the
    /// one that was woken are marked, and do not come back.
    Waiter* end() noexcept {
        const std::lock_guard held(lock_);
        list_.orphan_all();
        if (woken_ != nullptr) woken_->orphaned = true;
        return list_.take_all();
    }

    /// Others may change it at any time. Relaxed: it orders nothing.
    bool is_locked() const noexcept {
        return (word_.load(std::memory_order_relaxed) & locked) != 0;
    }

private:
    static constexpr std::uint32_t locked = 1;
    static constexpr std::uint32_t contended = 2;

    template <class T>
    using var = typename Layer::template var<T>;

    /// Under the lock. True: locked. False: held, and whoever unlocks comes to the line.
    bool take_or_contend() noexcept {
        std::uint32_t seen = word_.load(std::memory_order_relaxed);
        for (;;) {
            const bool takes = (seen & locked) == 0;
            const std::uint32_t wanted = locked | (!takes || !list_.empty() ? contended : 0);
            // What nobody else changes without our lock need not be written again.
            if (!takes && seen == wanted) return false;
            // Acquire as in try_lock(); of no use to whoever only lines up.
            if (word_.compare_exchange_weak(seen, wanted, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
                return takes;
            }
        }
    }

    /// Under the lock, by the holder, with somebody in line.
    unlock_decision<Waiter> unlock_contended() noexcept {
        if (starving_) {
            WEFT_ASSERT(woken_ == nullptr);  // The first one in line is handed it instead.
            Waiter* const first = list_.pop_front();
            if (!first->waits_long()) starving_ = false;
            note_if_empty();
            return {.next = first, .handed = true};
        }
        Waiter* woken_now = nullptr;
        if (woken_ == nullptr) woken_ = woken_now = list_.pop_front();
        // Release as above.
        word_.store(list_.empty() ? 0 : contended, std::memory_order_release);
        return {.next = woken_now};
    }

    /// Under the lock, when one has left the line.
    void note_if_empty() noexcept {
        if (!list_.empty()) return;
        starving_ = false;
        // Relaxed: nothing is published; the holder's unlock is one compare-and-swap again.
        word_.fetch_and(~contended, std::memory_order_relaxed);
    }

    typename Layer::template atomic<std::uint32_t> word_{0};
    spin_lock<Layer> lock_;
    var<bool> starving_{false};
    var<Waiter*> woken_{nullptr};  ///< On its way to acquire() or give_up().
    wait_list<Layer, Waiter> list_;
};

}  // namespace weft::detail
