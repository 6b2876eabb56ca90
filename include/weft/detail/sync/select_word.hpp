// SPDX-License-Identifier: MIT
//
// Who serves a select: see the head of select_core.hpp.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::detail {

/// Who may serve a select: the first one who claims it.
template <class Layer>
class select_word {
public:
    static constexpr std::uint32_t nobody = 0;
    static constexpr std::uint32_t cancelled = 1;
    static constexpr std::uint32_t first_case = 2;

    /// A peer that holds the lock of the case's channel, an event, or a canceller. Release and
    /// acquire are not needed for values: those are ordered by the word of the operation
    /// (operation_word.hpp). Relaxed: what is claimed are lines that the locks guard.
    bool claim(std::uint32_t winner) noexcept {
        std::uint32_t expected = nobody;
        return word_.compare_exchange_strong(expected, winner, std::memory_order_relaxed,
                                             std::memory_order_relaxed);
    }

    /// The select itself, resumed. Relaxed: the completion came after the claim.
    std::uint32_t winner() const noexcept { return word_.load(std::memory_order_relaxed); }

private:
    typename Layer::template atomic<std::uint32_t> word_{nobody};
};

/// A case that has been taken off its object, or off the line of its channel, by whoever makes it
/// happen.
template <class Layer>
class select_event {
public:
    select_event() noexcept = default;
    select_event(const select_event&) noexcept {}  // Only of one that has not begun.
    select_event& operator=(const select_event&) = delete;

    /// True: this case is made, and the caller completes the select. False: another one was faster;
    /// the caller touches nothing any more. Word is select_word, or what a model makes of it.
    template <class Word>
    bool happen(Word& of, std::uint32_t index) noexcept {
        if (of.claim(select_word<Layer>::first_case + index)) return true;
        // Release pairs with has_let_go(): what this thread has read of the select, it has read.
        let_go_.store(true, std::memory_order_release);
        return false;
    }

    /// The select, resumed, if this event has not won and was not on its object any more.
    void await_let_go() const noexcept {
        while (!has_let_go()) Layer::yield_thread();
    }

    /// Has this event been taken off its object, and was too late? Acquire pairs with happen().
    bool has_let_go() const noexcept { return let_go_.load(std::memory_order_acquire); }

private:
    typename Layer::template atomic<bool> let_go_{false};
};

}  // namespace weft::detail
