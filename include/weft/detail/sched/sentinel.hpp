// SPDX-License-Identifier: MIT
//
// The sentinel: the one parked worker that watches over the timers of all workers, so that a timer
// of a busy worker is served by an idle one.
//
// One worker holds the role while it sleeps; its sleep ends at the earliest time in any heap. Both
// the role and the deadline are words that busy workers read:
//
//     sentinel      take():      holder := me;  deadline := for ever         (all seq_cst)
//                   then         read the earliest time of every heap
//                   watch_until: deadline := that time
//                   then         sleep (the wake word catches a wake in between)
//     busy worker   store the new earliest time of its heap, then read the deadline; if the new
//                   time comes first, wake the holder                        (all seq_cst)
//
// Why no timer is missed: store-then-load on both sides, with one order of all of them. If the busy
// worker's store comes before the sentinel reads that heap, the sentinel sees the time. Otherwise
// the busy worker's load comes after `deadline := for ever` and finds either that, or a deadline
// computed without its timer; in both cases its time comes first and it wakes the holder.
//
// leave() sets the deadline to `nobody` before the holder to none. From then on the role is vacant,
// which is as it should be while nobody is parked. While somebody is, and while there is anything
// to watch, it must be filled. Three parties see to that:
//
//     who parks           makes itself known as parked, then takes the role if it is vacant
//     who stops looking   a worker that comes out of its sleep, or out of its search, and is about
//     for work            to run a branch (the former sentinel is one of them): if the role is
//                         vacant, somebody is parked, nobody searches, and a heap holds a timer,
//                         it wakes one, which then looks for work itself
//     who adds a timer    the same, when it finds the role vacant
//
// Why it does not stay vacant. Between leave() and its next branch or park the former sentinel is
// of the second kind, and so is every worker that it wakes or that searches meanwhile; the last of
// them parks, or looks. If a parker's claim fails because the sentinel has not left yet, the
// sentinel's look comes after it and finds the parker (store then load on both sides, seq_cst). If
// the look finds nothing to watch, then whoever adds a timer later finds the role vacant.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::detail {

template <class Layer>
class sentinel_role {
public:
    static constexpr std::uint32_t none = 0xffffffffU;
    static constexpr std::uint32_t vacant_role = 0xfffffffeU;
    static constexpr std::int64_t for_ever = INT64_MAX;
    static constexpr std::int64_t nobody = INT64_MIN;

    /// A worker that is about to sleep. True: it holds the role now, and must read the earliest
    /// time of every heap next. seq_cst, also where it fails: see the essay.
    bool take(std::uint32_t index) noexcept {
        std::uint32_t expected = none;
        if (!holder_.compare_exchange_strong(expected, index, std::memory_order_seq_cst,
                                             std::memory_order_seq_cst)) {
            return false;
        }
        deadline_.store(for_ever, std::memory_order_seq_cst);
        return true;
    }

    /// Holder: it will sleep until this time. seq_cst: see the essay.
    void watch_until(std::int64_t deadline) noexcept {
        deadline_.store(deadline, std::memory_order_seq_cst);
    }

    /// Holder: gives the role up. The order of the two stores lets a new holder overwrite the
    /// deadline, never the other way round.
    void leave() noexcept {
        deadline_.store(nobody, std::memory_order_seq_cst);
        holder_.store(none, std::memory_order_seq_cst);
    }

    /// Is nobody the sentinel? seq_cst: see the essay.
    bool vacant() const noexcept { return deadline_.load(std::memory_order_seq_cst) == nobody; }

    /// Busy worker, after it stored a new earliest time of its heap: none if whoever is the
    /// sentinel wakes early enough, the index of the worker to be woken, or vacant_role. seq_cst:
    /// see the essay.
    std::uint32_t to_be_woken(std::int64_t earliest) const noexcept {
        const std::int64_t deadline = deadline_.load(std::memory_order_seq_cst);
        if (earliest == for_ever || (deadline != nobody && earliest >= deadline)) {
            return none;
        }
        const std::uint32_t holder = holder_.load(std::memory_order_seq_cst);
        return deadline == nobody || holder == none ? vacant_role : holder;
    }

    /// The holder, as a hint. Acquire pairs with take(): that worker exists.
    std::uint32_t holder_hint() const noexcept { return holder_.load(std::memory_order_acquire); }

private:
    typename Layer::template atomic<std::uint32_t> holder_{none};
    typename Layer::template atomic<std::int64_t> deadline_{nobody};
};

}  // namespace weft::detail
