// SPDX-License-Identifier: MIT
//
// Who is meant when a bell rings that several workers wait for: the epoll set has one eventfd, and
// each of its pollers has one of these words.
//
//     value                meaning                                      changed by
//     0                    the owner does not wait                      owner (enter, leave)
//     waiting              it waits for the bell, or is about to        owner (enter)
//     notified             woken while it did not wait: its next wait   wakers
//                          returns at once, without the bell
//     waiting + notified   woken while it waited: the bell was rung     wakers
//                          for it, or is about to be
//
// The bell is a level and is read by whichever waiter comes first. A waiter that has read it takes
// it away from the others, so it looks at all words and rings again while another one is `waiting +
// notified`. That state ends when its owner leaves, which nothing but that worker's turn on a
// processor delays. A waker rings after it has changed the word, so whoever reads the bell finds
// the word of whom it was rung for.
//
// A waker may be late: it saw the owner asleep, the owner came back by itself and now sleeps
// elsewhere, perhaps for long. Then it finds the word at 0 and rings no bell. Rejected: one counter
// of wakes that were not seen yet, and a flag for each poller. A late waker raised the counter and
// its owner, who sleeps elsewhere, did not lower it again; so the bell was rung for ever, and each
// wait of the others returned at once.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::detail {

template <class Layer>
class bell_word {
public:
    /// Owner, before it waits. False: it was notified; the notification is consumed, do not wait.
    /// Acquire pairs with wake(): the waker's reason is visible.
    bool enter() noexcept {
        std::uint32_t expected = 0;
        if (word_.compare_exchange_strong(expected, waiting, std::memory_order_acquire,
                                          std::memory_order_acquire)) {
            return true;
        }
        leave();
        return false;
    }

    /// Owner, after its wait, whatever ended it. Acquire pairs with wake(), as in enter().
    void leave() noexcept { word_.exchange(0, std::memory_order_acquire); }

    /// Any thread. True: ring the bell, now. Release publishes the reason to enter() and leave();
    /// nothing is acquired. A second waker leaves the bell to the first one.
    bool wake() noexcept {
        return word_.fetch_or(notified, std::memory_order_release) == waiting;
    }

    /// A waiter that has read the bell: was it rung for this one, who has not left yet? It changes
    /// nothing; a read-modify-write finds the newest value, also where reading the bell orders
    /// nothing. Relaxed: nothing but the value is used.
    bool expects_bell() noexcept {
        return word_.fetch_or(0, std::memory_order_relaxed) == (waiting | notified);
    }

private:
    static constexpr std::uint32_t waiting = 1;
    static constexpr std::uint32_t notified = 2;

    typename Layer::template atomic<std::uint32_t> word_{0};
};

}  // namespace weft::detail
