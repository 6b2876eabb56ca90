// SPDX-License-Identifier: MIT
//
// Requests of other threads to the owner of a ring, who alone may talk to it.
//
// A list, last in first out, through links that the entries bring along, so it has no limit.
// Entries are numbers; 0 is none. An entry is in one inbox at a time (home_word.hpp says why).
//
//     word       values                      changed by
//     first_     0, or the newest entry      any thread (push), owner (take)
//     waiting_   the owner sleeps in the     owner
//                kernel, or is about to
//
// The owner must not sleep over a request, and nobody should pay for a bell that wakes nobody.
// push() swaps first_ and then reads waiting_; the owner stores waiting_ and then reads first_. All
// four are seq_cst, so one of the two sees the other: the owner stays awake, or the bell is rung.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::detail {

template <class Layer>
class request_inbox {
public:
    /// Any thread. `link(next)` stores the link of the entry. True: ring the owner's bell.
    template <class Link>
    bool push(std::uint32_t entry, Link&& link) noexcept {
        // Relaxed: the swap decides.
        std::uint32_t first = first_.load(std::memory_order_relaxed);
        do {
            link(first);
            // seq_cst, pairs with prepare_sleep(); it is also the release that publishes the link
            // to take().
        } while (!first_.compare_exchange_weak(first, entry, std::memory_order_seq_cst,
                                               std::memory_order_relaxed));
        // seq_cst: after the swap, as prepare_sleep() reads first_ after it has stored this.
        return waiting_.load(std::memory_order_seq_cst);
    }

    /// Owner: is there anything to take? Relaxed: a hint, asked again and again.
    bool empty() const noexcept { return first_.load(std::memory_order_relaxed) == 0; }

    /// Owner: takes all entries. Acquire pairs with push(): their links are visible.
    std::uint32_t take() noexcept {
        if (empty()) return 0;
        return first_.exchange(0, std::memory_order_acquire);
    }

    /// Owner, before it sleeps. False: there is a request; do not sleep. seq_cst: both pair with
    /// push(), see above.
    bool prepare_sleep() noexcept {
        waiting_.store(true, std::memory_order_seq_cst);
        if (first_.load(std::memory_order_seq_cst) == 0) return true;
        finish_sleep();
        return false;
    }

    /// Owner, after its sleep. Relaxed: who sees the old value rings once for nothing.
    void finish_sleep() noexcept { waiting_.store(false, std::memory_order_relaxed); }

private:
    typename Layer::template atomic<std::uint32_t> first_{0};
    typename Layer::template atomic<bool> waiting_{false};
};

}  // namespace weft::detail
