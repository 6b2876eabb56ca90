// SPDX-License-Identifier: MIT
//
// The wake word of one worker: how others make it return from its sleep.
//
//     value      meaning                                   changed by
//     awake      it runs, or is about to look again        owner (prepare), wakers
//     in_futex   it sleeps on this word, or is about to    wakers, owner (finish)
//     in_poller  it waits in its poller, or is about to    wakers, owner (finish)
//     notified   somebody has called wake() since the      owner (prepare, finish)
//                owner last looked
//
// A waker first publishes its reason (the list of parked workers, an inbox, a timer heap), then
// exchanges the word to `notified`. Only the waker that finds the owner asleep pays for a system
// call. The owner looks at every reason after finish() and before prepare(). If the waker's
// exchange comes before the owner's prepare(), prepare() fails and the owner looks again; if it
// comes after, the waker sees the kind of sleep and ends it. `notified` is sticky, so a wake
// between two sleeps costs at most one needless turn.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::detail {

enum class sleep_kind : std::uint32_t { awake = 0, in_futex = 1, in_poller = 2, notified = 3 };

template <class Layer>
class park_word {
public:
    /// Owner: about to sleep. False: it was notified; the notification is consumed, look again.
    /// Release is not needed for the waker; acquire pairs with wake(): the reason is visible.
    bool prepare(sleep_kind kind) noexcept {
        auto expected = static_cast<std::uint32_t>(sleep_kind::awake);
        if (word_.compare_exchange_strong(expected, static_cast<std::uint32_t>(kind),
                                          std::memory_order_acquire, std::memory_order_acquire)) {
            return true;
        }
        finish();
        return false;
    }

    /// Owner: after its sleep. Acquire pairs with the release in wake(). True: it was notified.
    bool finish() noexcept {
        const std::uint32_t found = word_.exchange(static_cast<std::uint32_t>(sleep_kind::awake),
                                                   std::memory_order_acquire);
        return found == static_cast<std::uint32_t>(sleep_kind::notified);
    }

    /// Any thread: returns what the owner is doing; the caller ends that kind of sleep. Release
    /// publishes the reason to prepare() and finish().
    sleep_kind wake() noexcept {
        return static_cast<sleep_kind>(word_.exchange(
            static_cast<std::uint32_t>(sleep_kind::notified), std::memory_order_acq_rel));
    }

    /// The word itself, for the futex and for the model. Relaxed: finish() orders.
    std::uint32_t value() const noexcept { return word_.load(std::memory_order_relaxed); }
    auto& word() noexcept { return word_; }

private:
    typename Layer::template atomic<std::uint32_t> word_{0};
};

}  // namespace weft::detail
