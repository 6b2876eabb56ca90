// SPDX-License-Identifier: MIT
//
// What a barrier decides: who waits, and who ends a phase.
//
//     arrive     not the last one    it lines up
//                the last one        the phase is over: everybody is taken off the list, the next
//                                    phase begins, and the caller ends the old one: it does what is
//                                    to be done at that time, and completes them
//     drop       one fewer is expected from now on, which may end the phase, too
//     withdraw   a canceller: off the list, and it has not arrived
//
// All under one lock; only the end of a phase is made with the lock free, since it runs the user's
// code. It is over before anybody of the next phase arrives all the same: all who are expected wait
// for it, but for the one that makes it.
//
// So many have arrived as are in the list, so no count of them can be wrong: one who is stopped
// takes its arrival back by leaving the list, and who finds itself off the list when it is stopped
// has passed the barrier.
#pragma once

#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/sync/wait_list.hpp>

#include <cstddef>
#include <mutex>

namespace weft::detail {

template <class Waiter>
struct arrival {
    bool ends_phase = false;   ///< The caller ends it, and completes all of `others`.
    bool expected = true;      ///< False: nobody was expected any more.
    Waiter* others = nullptr;  ///< Linked through `next`.
};

/// Waiter is derived from wait_links<Layer, Waiter>.
template <class Layer, class Waiter>
class barrier_core {
public:
    explicit barrier_core(std::size_t expected) noexcept : expected_(expected) {}

    /// `self` waits, unless it is the last one.
    arrival<Waiter> arrive(Waiter& self) noexcept {
        const std::lock_guard held(lock_);
        if (expected_ == 0) return {true, false};
        if (arrived_ + 1 < expected_) {
            arrived_ = arrived_ + 1;
            waiters_.push_back(self);
            return {};
        }
        return {true, true, next_phase()};
    }

    arrival<Waiter> drop() noexcept {
        const std::lock_guard held(lock_);
        if (expected_ == 0) return {false, false};
        expected_ = expected_ - 1;
        if (arrived_ < expected_) return {};
        return {true, true, next_phase()};
    }

    /// A canceller. False: the phase is over, and whoever ends it completes it.
    bool withdraw(Waiter& waiting) noexcept {
        const std::lock_guard held(lock_);
        if (!waiters_.remove(waiting)) return false;
        arrived_ = arrived_ - 1;
        return true;
    }

    /// The barrier is destroyed. The caller completes all of them, linked through `next`.
    Waiter* end() noexcept {
        const std::lock_guard held(lock_);
        waiters_.orphan_all();
        return next_phase();
    }

private:
    Waiter* next_phase() noexcept {
        arrived_ = 0;
        return waiters_.take_all();
    }

    spin_lock<Layer> lock_;
    typename Layer::template var<std::size_t> expected_;
    typename Layer::template var<std::size_t> arrived_{0};  ///< So many wait.
    wait_list<Layer, Waiter> waiters_;
};

}  // namespace weft::detail
