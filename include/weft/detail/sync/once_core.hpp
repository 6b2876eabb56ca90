// SPDX-License-Identifier: MIT
//
// Who does what is to be done once, and who waits for it.
//
//     state      meaning                               leaves by
//     idle       nobody does it                        begin
//     taken      one caller has the turn, others wait  succeed, fail
//     done       it has been done                      -
//
//     begin      done            there is nothing to do
//                idle            the caller has the turn
//                taken           it lines up
//     succeed    done; everybody is taken off the list, and has nothing to do
//     fail       the first one who waits has the turn now; if nobody does, idle
//     withdraw   a canceller: off the list, unless it was given the turn or told that it is done
//     end        the object is destroyed: nobody who waits or has the turn looks at it any more
//
// There is one turn, and it is never lost: who has it gives it up by succeed() or fail(), also
// where its frame is destroyed at the end of a runtime, while it works or before it could begin. At
// that time the object may be gone, since frames are destroyed in any order. Therefore it knows who
// has the turn, and tells that one of its own end.
//
// Rejected: waking all who wait after a failure, to try again (the order would be lost, and as many
// wake-ups as there are who wait, for one turn).
#pragma once

#include <weft/detail/base/assert.hpp>
#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/sync/wait_list.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace weft::detail {

/// What of a caller belongs to the object.
template <class Layer, class Caller>
struct once_links : wait_links<Layer, Caller> {
    typename Layer::template var<bool> has_turn{false};
};

enum class once_step : std::uint8_t { done, has_turn, waits };

/// Caller is derived from once_links<Layer, Caller>.
template <class Layer, class Caller>
class once_core {
public:
    /// Acquire pairs with the release in succeed(): what was done is visible.
    bool is_done() const noexcept { return done_.load(std::memory_order_acquire); }

    once_step begin(Caller& self) noexcept {
        const std::lock_guard held(lock_);
        // Relaxed: changed under the lock only.
        if (done_.load(std::memory_order_relaxed)) return once_step::done;
        if (holder_ == nullptr) {
            give_turn(&self);
            return once_step::has_turn;
        }
        waiting_.push_back(self);
        return once_step::waits;
    }

    /// Who has the turn. The caller completes all of those who waited, linked through `next`.
    Caller* succeed(Caller& self) noexcept {
        const std::lock_guard held(lock_);
        take_turn(self);
        done_.store(true, std::memory_order_release);
        return waiting_.take_all();
    }

    /// Who has the turn. The caller completes the one that has it now; null: nobody waits.
    Caller* fail(Caller& self) noexcept {
        const std::lock_guard held(lock_);
        take_turn(self);
        Caller* const next = waiting_.pop_front();
        give_turn(next);
        return next;
    }

    /// A canceller. False: somebody has taken it off, and will complete it.
    bool withdraw(Caller& waiting) noexcept {
        const std::lock_guard held(lock_);
        return waiting_.remove(waiting);
    }

    struct ended {
        Caller* waiting = nullptr;  ///< The caller completes all of them, linked through `next`.
        Caller* holder = nullptr;   ///< Not to be touched but for an assertion.
    };

    ended end() noexcept {
        const std::lock_guard held(lock_);
        waiting_.orphan_all();
        Caller* const holder = holder_;
        if (holder != nullptr) holder->orphaned = true;
        return {waiting_.take_all(), holder};
    }

private:
    void give_turn(Caller* to) noexcept {
        holder_ = to;
        if (to != nullptr) to->has_turn = true;
    }

    void take_turn(Caller& from) noexcept {
        WEFT_ASSERT(holder_ == &from);
        holder_ = nullptr;
        from.has_turn = false;
    }

    spin_lock<Layer> lock_;
    typename Layer::template atomic<bool> done_{false};
    typename Layer::template var<Caller*> holder_{nullptr};
    wait_list<Layer, Caller> waiting_;
};

}  // namespace weft::detail
