// SPDX-License-Identifier: MIT
//
// The sleep of the watchdog: short while something runs, and without end while nothing does.
//
//     value     meaning                                         changed by
//     watching  it looks around, or sleeps for some             watchdog, who begins to work
//               milliseconds
//     resting   it sleeps until somebody works, or is about to  watchdog
//     ended     it is to end                                    who ends it
//
// Whoever begins to work wakes it only if it rests, so a busy runtime pays for one load of a word
// that does not change. Nobody works unwatched: the watchdog stores `resting` and then reads the
// count of parked workers; a worker leaves the parked state by a change of that count, before it
// runs anything, and then reads the word. All four steps are sequentially consistent. If the
// watchdog finds all parked, then each change comes after its load, and so the worker's load after
// the store of `resting`.
//
// "All" are those that have a processor, and their number is a second count, read after the first
// one. It changes when a worker gives its processor up, or gets it back (retirement.hpp).
//   * Who gets one back was not parked, and leaves nothing. It is counted before it can know, and
//     reads the word before it runs anything. If the watchdog has not seen it counted, that load
//     comes after the store of `resting`, as above.
//   * Who gives one up runs nothing any more, and cannot be missed. But another one may leave the
//     parked state between the two loads, and so be among the parked of the first and not missing
//     from the second. That change comes after the first load, and so the argument is the same.
//
// What is left to the watchdog. A worker that is not parked and finds the watchdog watching may
// note something of which the watchdog is to remind it, also when it sleeps (unverified_waits.hpp).
// The watchdog rests only if, after it has seen all parked, nothing is noted. By the argument
// above, if the worker's load has read `watching`, then a watchdog that finds all parked has seen
// that worker park again, after its note, or give its processor up, before which it asks about all
// that it has noted; the change of either count is a release, and so the watchdog sees the note, or
// its end.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::detail {

template <class Layer>
class rest_word {
public:
    static constexpr std::uint32_t watching = 0;
    static constexpr std::uint32_t resting = 1;
    static constexpr std::uint32_t ended = 2;

    /// Watchdog: about to rest; `all_parked()` reads the count with sequential consistency, and
    /// `any_note()` whether something is noted. True: sleep while the word is `resting`. False:
    /// somebody works, or has noted something, or it is to end.
    template <class AllParked, class AnyNote>
    bool begin_rest(AllParked&& all_parked, AnyNote&& any_note) noexcept {
        std::uint32_t expected = watching;
        // seq_cst: before the load of the count. It fails when the watchdog is to end.
        if (!word_.compare_exchange_strong(expected, resting, std::memory_order_seq_cst,
                                           std::memory_order_relaxed)) {
            return false;
        }
        if (all_parked() && !any_note()) { return true; }
        end_rest();
        return false;
    }

    /// Watchdog: rests no more. Relaxed: somebody who worked may have done it, or ended it.
    void end_rest() noexcept {
        std::uint32_t expected = resting;
        word_.compare_exchange_strong(expected, watching, std::memory_order_relaxed,
                                      std::memory_order_relaxed);
    }

    /// A worker that was parked, before it runs a branch. True: the caller wakes the watchdog.
    bool begin_work() noexcept {
        // seq_cst: after the change of the count.
        if (word_.load(std::memory_order_seq_cst) != resting) [[likely]] { return false; }
        std::uint32_t expected = resting;
        // Relaxed: of several workers one wakes; nothing is handed over.
        return word_.compare_exchange_strong(expected, watching, std::memory_order_relaxed,
                                             std::memory_order_relaxed);
    }

    /// A worker that is not parked: may it note something? seq_cst: after the change of the count
    /// by which it left the parked state.
    bool is_watching() const noexcept { return word_.load(std::memory_order_seq_cst) == watching; }

    /// Whoever ends the watchdog, and wakes it then. Release pairs with is_ended().
    void end() noexcept { word_.store(ended, std::memory_order_release); }
    bool is_ended() const noexcept { return word_.load(std::memory_order_acquire) == ended; }

    /// The word itself, for the futex and for the model. Relaxed: it orders nothing.
    std::uint32_t value() const noexcept { return word_.load(std::memory_order_relaxed); }
    auto& word() noexcept { return word_; }

private:
    typename Layer::template atomic<std::uint32_t> word_{watching};
};

}  // namespace weft::detail
