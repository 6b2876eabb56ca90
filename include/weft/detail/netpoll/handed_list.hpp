// SPDX-License-Identifier: MIT
//
// What the owner of a ring finds in a signal handler, while a task keeps its thread, and what it
// leaves to others there.
//
//     party              steps, in this order
//     owner, arming      guard on; the home word names this ring; the poll enters the ring; guard
//                        off
//     owner, gathering   guard on; the send enters the ring; its branch is suspended; guard off
//     owner, in the      a task runs and the guard is off: takes a whole turn, and puts what needs
//     handler            more than that into a list
//     rescuer            takes the list, and does what it asks for
//     owner, back        takes the list before it sleeps, searches or leaves
//
// The handler comes between any two instructions of its own thread and runs to its end there. So it
// is the owner, and takes requests and completions as in any other turn, with no lock, no copy and
// no limit but its own. Three things it must not do.
//
// It must not come between steps that a turn takes for one. Those are in the poller itself, in
// arming, and in the gathering of a send. Once the home word names the ring, anybody may ask for
// the poll to be cancelled, and a request that is taken before the poll is in the ring finds
// nothing to cancel, and is gone. Once a send is in the ring it may complete, and its branch would
// be readied before it is suspended. The first are excluded since a turn is taken only while a task
// runs, the others by the guard. What else the owner's thread may be doing is in
// lib/netpoll/rescue_signal.hpp.
//
// It must not take a lock, since its own thread may hold it. Completing a waiter may need the queue
// of a runtime; ending the life of a descriptor needs the table's lock. Both are left in lists.
//
// It must not leave anything where nobody looks. The rescuer looks after each signal, but may
// take the worker for one that is back. Then the owner takes the list: nothing is put into it but
// while a task runs, so after the task it is complete, and the owner asks for it before it sleeps.
//
// The links of a list are in what it lists. Whoever takes a list takes all of it, so the classic
// fault of such lists (the head is taken and put back between load and swap) cannot occur.
#pragma once

#include <atomic>

namespace weft::detail {

/// See above. Only the owner's thread touches it, so no order of the machine is needed, only of the
/// compiler.
template <class Layer>
class arming_guard {
public:
    /// Owner. Relaxed and a fence for the compiler: the handler is on the same thread.
    void begin() noexcept {
        held_.store(true, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    void end() noexcept {
        std::atomic_signal_fence(std::memory_order_seq_cst);
        held_.store(false, std::memory_order_relaxed);
    }
    /// Owner, in the handler. Relaxed: its own store.
    bool held() const noexcept { return held_.load(std::memory_order_relaxed); }

private:
    typename Layer::template atomic<bool> held_{false};
};

template <class Layer, class Item>
class handed_list {
public:
    /// Owner, in the handler. `link(next)` stores the link of the item.
    template <class Link>
    void push(Item& item, Link&& link) noexcept {
        // Relaxed: the swap decides.
        Item* first = first_.load(std::memory_order_relaxed);
        do {
            link(first);
            // Release pairs with take(): the link, and what the handler knows of the item.
        } while (!first_.compare_exchange_weak(first, &item, std::memory_order_release,
                                               std::memory_order_relaxed));
    }

    /// Anybody. Relaxed: for the owner it is its own store; the rescuer looks again.
    bool empty() const noexcept { return first_.load(std::memory_order_relaxed) == nullptr; }

    /// Rescuer, or the owner when it is back: all items, the newest first. Acquire pairs with
    /// push().
    Item* take() noexcept {
        if (empty()) { return nullptr; }
        return first_.exchange(nullptr, std::memory_order_acquire);
    }

private:
    typename Layer::template atomic<Item*> first_{nullptr};
};

}  // namespace weft::detail
