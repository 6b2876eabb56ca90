// SPDX-License-Identifier: MIT
//
// What an event, a wait group and a latch decide: who has to wait, and who goes on.
//
// Underneath the three are one thing, a count of what has yet to happen, and a list of those who
// wait until nothing has. One lock guards both:
//
//     wait     count 0         it need not wait
//              otherwise       it lines up
//     raise    count + n       from 0 on, later waits wait again
//     lower    count - n       at 0 everybody is taken off the list, first in, first out
//     open     count 0         as lower, by whatever the count is
//     close    count 1 if it was 0
//
// An event is a count of one or zero, a latch one that is never raised, a wait group one that is.
//
// Why nobody is forgotten. Whoever lines up has found a count above zero under the lock, so
// somebody lowers it to zero after that, under the same lock, and finds the list. Closing it again,
// or raising it, before those who were taken off have run changes nothing for them: what they
// waited for has happened. A canceller takes a waiter off under the lock as well, so of the two one
// has it.
//
// Why the object may be destroyed by whoever has waited, while lower() or open() has not returned
// on another thread: the last touch of the object is the release of its lock, and those who waited
// are completed after that. One who need not wait has taken the lock after that release.
//
// Rejected: a fast path without the lock, where the count is one atomic word that says 0 (a wait
// that reads it could destroy the object while the lock is still held); waking from one to the next
// (a chain of as many steps as there are waiters, instead of one batch).
#pragma once

#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/sync/wait_list.hpp>

#include <cstddef>
#include <limits>
#include <mutex>

namespace weft::detail {

/// What lower() found. The caller completes all of `gone`, linked through `next`.
template <class Waiter>
struct lowered {
    Waiter* gone = nullptr;
    bool enough = true;  ///< False: the count was lower than what was taken, and is zero now.
    bool open = false;   ///< Nothing is left to wait for.
};

/// Waiter is derived from wait_links<Layer, Waiter>.
template <class Layer, class Waiter>
class event_core {
public:
    explicit event_core(std::size_t count) noexcept : count_(count) {}

    /// True: nothing is left to wait for. Otherwise `self` waits; null: it does not.
    bool wait(Waiter* self) noexcept {
        const std::lock_guard held(lock_);
        if (count_ == 0) return true;
        if (self != nullptr) waiters_.push_back(*self);
        return false;
    }

    /// False: the sum is more than a count can be; it is the highest one then.
    bool raise(std::size_t by) noexcept {
        const std::lock_guard held(lock_);
        const std::size_t room = std::numeric_limits<std::size_t>::max() - count_;
        count_ = count_ + (by <= room ? by : room);
        return by <= room;
    }

    /// If something is left, `self` waits for it; null: it does not.
    lowered<Waiter> lower(std::size_t by, Waiter* self = nullptr) noexcept {
        const std::lock_guard held(lock_);
        const std::size_t before = count_;
        count_ = by < before ? before - by : 0;
        if (count_ != 0 && self != nullptr) waiters_.push_back(*self);
        return {take_if_open(), by <= before, count_ == 0};
    }

    /// The caller completes all of them, linked through `next`.
    Waiter* open() noexcept {
        const std::lock_guard held(lock_);
        count_ = 0;
        return take_if_open();
    }

    void close() noexcept {
        const std::lock_guard held(lock_);
        if (count_ == 0) count_ = 1;
    }

    /// A canceller. False: somebody has taken it off, and will complete it.
    bool withdraw(Waiter& waiting) noexcept {
        const std::lock_guard held(lock_);
        return waiters_.remove(waiting);
    }

    /// The object is destroyed. The caller completes all of them, linked through `next`; what they
    /// have waited for has not happened.
    Waiter* end() noexcept {
        const std::lock_guard held(lock_);
        waiters_.orphan_all();
        return waiters_.take_all();
    }

    std::size_t count() const noexcept {
        const std::lock_guard held(lock_);
        return count_;
    }

private:
    Waiter* take_if_open() noexcept { return count_ == 0 ? waiters_.take_all() : nullptr; }

    mutable spin_lock<Layer> lock_;
    typename Layer::template var<std::size_t> count_;
    wait_list<Layer, Waiter> waiters_;
};

}  // namespace weft::detail
