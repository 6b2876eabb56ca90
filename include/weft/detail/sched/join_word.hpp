// SPDX-License-Identifier: MIT
//
// The word on which one party waits for the end of another: the join of a handle, and the end of a
// timer that is being fired while its scope closes.
//
//     value        meaning                                       changed by
//     running      not ended, nobody waits                       waiter, owner, finisher
//     a waiter     not ended, this branch waits; a tag says      finisher, canceller of the waiter,
//                  where it is another one: a foreign thread,    owner (desert)
//                  or a case of a select (select_join.hpp)
//     abandoned    nobody will ever wait                         finisher, which owns the object
//     finished     ended; whoever would wait cleans up           owner (desert), which owns it
//
// The finisher exchanges the word to `finished` as its last touch of the object unless it found
// `abandoned`, in which case the object is its own. So exactly one side destroys: the one whose
// read-modify-write came second. A waiter that is cancelled takes itself out by compare-and-swap;
// when that fails, the finisher has taken it and will complete it.
//
// A finisher that reads `abandoned` comes second in any case. It may do first what belongs to the
// end, and exchange then, which only those learn who examine the object (run_mark.hpp).
//
// Desertion. At the end of a runtime frames are destroyed in any order, so a handle may go before
// the awaiter that waits on it, perhaps in another runtime that ends, is cancelled or finishes the
// task at the same time. desert() is the exchange of an owner that does not care what it finds: a
// waiter, which it completes as a finisher would; nobody, where a canceller was faster; or the end,
// and then the object is the owner's. The waiter's canceller then fails, and the waiter waits for
// its completer as for any other (operation::unlink_if_parked).
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::detail {

/// Who waits: the tag of the waiter in the word.
enum class join_kind : std::uintptr_t {
    branch = 0,
    thread = 1,    ///< A thread that is no worker.
    listener = 2,  ///< A case of a select.
};

template <class Layer, class Waiter>
class join_word {
public:
    /// What finish() or desert() found.
    struct finish_result {
        Waiter* waiter = nullptr;  ///< To be completed by the caller, as its kind says.
        join_kind kind = join_kind::branch;
        bool abandoned = false;    ///< The object belongs to the caller, who destroys it.
    };

    /// Has the other side finished? Acquire pairs with the release in finish(): the result is
    /// visible when this returns true. seq_cst: whoever examines what the finisher will give back
    /// asks so (run_mark.hpp).
    bool finished() const noexcept {
        return word_.load(std::memory_order_seq_cst) == finished_value;
    }

    /// Waiter: publishes itself. False: finished meanwhile. Release pairs with the acquire in
    /// finish(), which hands the waiter's contents to the finisher; acquire on failure makes the
    /// result visible.
    bool publish(Waiter* waiter, join_kind kind = join_kind::branch) noexcept {
        std::uintptr_t expected = running_value;
        return word_.compare_exchange_strong(expected, encode(waiter, kind),
                                             std::memory_order_release, std::memory_order_acquire);
    }

    /// Waiter's canceller: takes the waiter out again. False: the finisher has it. Acquire on
    /// failure is not needed, since the canceller then passes through operation_word::let_go().
    bool withdraw(Waiter* waiter, join_kind kind = join_kind::branch) noexcept {
        std::uintptr_t expected = encode(waiter, kind);
        return word_.compare_exchange_strong(expected, running_value, std::memory_order_relaxed,
                                             std::memory_order_relaxed);
    }

    /// The end of a runtime, where nobody finishes the object for now: takes a foreign thread's
    /// waiter out, to be told by the caller, and leaves the object as it was. Null: no such waiter
    /// is there. Acquire takes over its contents; its own withdraw() fails then.
    Waiter* dismiss_foreign() noexcept {
        std::uintptr_t found = word_.load(std::memory_order_relaxed);
        if ((found & tag_mask) != static_cast<std::uintptr_t>(join_kind::thread) ||
            !word_.compare_exchange_strong(found, running_value, std::memory_order_acquire,
                                           std::memory_order_relaxed)) {
            return nullptr;
        }
        return reinterpret_cast<Waiter*>(found & ~tag_mask);
    }

    /// Owner: nobody will wait. True: the finisher will destroy the object. False: it has finished,
    /// the caller destroys it; acquire pairs with the release in finish().
    bool abandon() noexcept {
        std::uintptr_t expected = running_value;
        return word_.compare_exchange_strong(expected, abandoned_value, std::memory_order_release,
                                             std::memory_order_acquire);
    }

    /// Owner, where abandon() has failed: gives the object up although a waiter is published, and
    /// returns it, to be completed by the caller; `abandoned` if the other side has finished
    /// meanwhile. Release hands what the owner did to a finisher that destroys; acquire takes over
    /// the contents of a waiter, or the result.
    finish_result desert() noexcept {
        const std::uintptr_t found = word_.exchange(abandoned_value, std::memory_order_acq_rel);
        if (found == finished_value) {
            return {.abandoned = true};
        }
        return {.waiter = reinterpret_cast<Waiter*>(found & ~tag_mask),
                .kind = static_cast<join_kind>(found & tag_mask)};
    }

    /// Finisher, before finish(): is the object its own already? It may do then what has to come
    /// before the end. Acquire pairs with abandon() and desert(), as that of finish() does.
    bool is_abandoned() const noexcept {
        return word_.load(std::memory_order_acquire) == abandoned_value;
    }

    /// Finisher: its last touch of the object unless the result says `abandoned`. Release publishes
    /// the result, acquire takes over a waiter's contents or what the owner did before it left.
    /// seq_cst: pairs with finished() of who examines the object.
    finish_result finish() noexcept {
        const std::uintptr_t found = word_.exchange(finished_value, std::memory_order_seq_cst);
        if (found == running_value) {
            return {};
        }
        if (found == abandoned_value) {
            return {.abandoned = true};
        }
        return {.waiter = reinterpret_cast<Waiter*>(found & ~tag_mask),
                .kind = static_cast<join_kind>(found & tag_mask)};
    }

    /// Owner, before the object is used again. Release pairs with the acquire in finished(): who
    /// asks for the last task of the object, and reads this, sees that another one lives in it.
    /// Also a finisher that found the object abandoned, and is not done with it: finishes again.
    void reset() noexcept { word_.store(running_value, std::memory_order_release); }

private:
    static constexpr std::uintptr_t running_value = 0;
    static constexpr std::uintptr_t tag_mask = 3;
    static constexpr std::uintptr_t abandoned_value = 2;
    static constexpr std::uintptr_t finished_value = 4;

    static std::uintptr_t encode(Waiter* waiter, join_kind kind) noexcept {
        return reinterpret_cast<std::uintptr_t>(waiter) | static_cast<std::uintptr_t>(kind);
    }

    typename Layer::template atomic<std::uintptr_t> word_{running_value};
};

}  // namespace weft::detail
