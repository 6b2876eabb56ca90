// SPDX-License-Identifier: MIT
//
// What a semaphore decides: who gets permits, and who waits for them.
//
// One lock guards the number of permits and two lists, of those who wait and of those who were
// granted what they waited for and have not run since:
//
//     acquire      enough, and nobody waits    it has them
//                  otherwise                   it lines up
//     release      permits + n, then grant
//     grant        while there are enough for the first one who waits: it is off the list, has
//                  them, and is granted; its caller completes it
//     withdraw     a canceller: off the list, then grant, since those behind may want fewer
//     take         a granted one runs: nobody has to know it any more
//     give back    a granted one was destroyed before it could run: release
//     end          the semaphore is destroyed: whoever waits or was granted does not look at it
//
// Between any two of these steps there are too few permits for the first one who waits. So nobody
// waits beside what it could have, and nobody is overtaken: whoever comes later finds somebody
// waiting and lines up behind, also where there would be enough for itself. One who wants many
// therefore gets them, if slowly, although there are always others who want few.
//
// Why no permit is lost or doubled. A permit is free, or of somebody who has acquired it, and moves
// between them under the lock. A canceller takes its waiter off under the lock too, so whoever is
// cancelled has got nothing; whoever was granted first is completed, and completion beats
// cancellation (operation_word.hpp). What is left is a task that was granted permits and never runs
// again, since its runtime has ended. Its frame is destroyed, and the permits go to the next one,
// of another runtime perhaps. For that the semaphore must be known to be alive: at the end of a
// runtime frames are destroyed in any order, so one in a frame may be gone by then. Therefore it
// keeps a list of those who were granted, and tells them of its own end.
//
// Rejected: waking whoever waits to try again (others are faster, and one who wants many never
// gets them); permits as an atomic word with a path without the lock (the list has to be empty as
// well, so the word has to count those who wait, and release has to look twice: it saves little
// beside a lock that is one exchange and one store, and nobody who waits is in a hurry).
#pragma once

#include <weft/detail/base/assert.hpp>
#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/sync/wait_list.hpp>

#include <cstddef>
#include <mutex>

namespace weft::detail {

/// What of a waiter belongs to its semaphore. The links are of the list that it is in.
template <class Layer, class Waiter>
struct permit_links : wait_links<Layer, Waiter> {
    typename Layer::template var<std::size_t> wanted{0};
    /// In the list of those who were granted. Cleared when it runs.
    typename Layer::template var<bool> granted{false};
    /// The next one who was granted in the same step. Of whoever completes them.
    typename Layer::template var<Waiter*> next_granted{nullptr};
};

/// What release() and withdraw() found. The caller completes all of `granted`, linked through
/// `next_granted`.
template <class Waiter>
struct release_decision {
    bool fits;  ///< False: more than the limit; what is above it is dropped.
    Waiter* granted;
};
template <class Waiter>
struct withdrawal {
    bool was_there;  ///< False: it was granted, and whoever did that completes it.
    Waiter* granted;
};

/// Waiter is derived from permit_links<Layer, Waiter>.
template <class Layer, class Waiter>
class semaphore_core {
public:
    semaphore_core(std::size_t permits, std::size_t limit) noexcept
        : permits_(permits), limit_(limit) {
        WEFT_ASSERT(permits <= limit);
    }

    /// Has it them? Otherwise `self` waits, with that number in `wanted`; null: it does not.
    bool acquire(std::size_t wanted, Waiter* self) noexcept {
        const std::lock_guard held(lock_);
        if (waiting_.empty() && wanted <= permits_) {
            permits_ = permits_ - wanted;
            return true;
        }
        if (self != nullptr) waiting_.push_back(*self);
        return false;
    }

    release_decision<Waiter> release(std::size_t count) noexcept {
        const std::lock_guard held(lock_);
        const std::size_t room = limit_ - permits_;
        permits_ = permits_ + (count <= room ? count : room);
        return {count <= room, grant()};
    }

    /// A canceller.
    withdrawal<Waiter> withdraw(Waiter& waiting) noexcept {
        const std::lock_guard held(lock_);
        if (waiting.granted || !waiting_.remove(waiting)) return {false, nullptr};
        return {true, grant()};
    }

    /// A granted one that runs.
    void take(Waiter& running) noexcept {
        const std::lock_guard held(lock_);
        forget(running);
    }

    /// A granted one that never runs. The caller completes those who were granted what it had.
    Waiter* give_back(Waiter& ended) noexcept {
        const std::lock_guard held(lock_);
        forget(ended);
        permits_ = permits_ + ended.wanted;
        return grant();
    }

    struct ended {
        Waiter* waiting = nullptr;  ///< The caller completes all of them, linked through `next`.
        Waiter* granted = nullptr;  ///< Not to be touched but for an assertion.
    };

    /// Nobody looks at this any more.
    ended end() noexcept {
        const std::lock_guard held(lock_);
        waiting_.orphan_all();
        granted_.orphan_all();
        return {waiting_.take_all(), granted_.front()};
    }

    /// How many are free. Those who wait want more.
    std::size_t permits() const noexcept {
        const std::lock_guard held(lock_);
        return permits_;
    }

    std::size_t limit() const noexcept { return limit_; }

private:
    Waiter* grant() noexcept {
        Waiter* first = nullptr;
        Waiter* last = nullptr;
        for (Waiter* next = waiting_.front(); next != nullptr && next->wanted <= permits_;
             next = waiting_.front()) {
            permits_ = permits_ - next->wanted;
            waiting_.remove(*next);
            granted_.push_back(*next);
            next->granted = true;
            if (last != nullptr) {
                last->next_granted = next;
            } else {
                first = next;
            }
            last = next;
        }
        return first;
    }

    void forget(Waiter& granted) noexcept {
        WEFT_ASSERT(granted.granted);
        granted_.remove(granted);
        granted.granted = false;
    }

    template <class T>
    using var = typename Layer::template var<T>;

    mutable spin_lock<Layer> lock_;
    var<std::size_t> permits_;
    const std::size_t limit_;
    wait_list<Layer, Waiter> waiting_;
    wait_list<Layer, Waiter> granted_;
};

}  // namespace weft::detail
