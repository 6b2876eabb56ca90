// SPDX-License-Identifier: MIT
//
// The word that decides who finishes a parked operation.
//
// A branch that waits has published an operation to some object: a timer heap, the wait word of a
// poll descriptor, the join word of a task. Up to three parties then race: the *parker*, still
// inside await_suspend; a *completer*, which took the operation off its object because the awaited
// thing has happened; a *canceller*, which stops the scope that the branch is in. Exactly one of
// them makes the branch run again, and nobody touches the frame after it may have been freed.
//
// The word lies in the branch, never in the frame that waits. The memory of a task's first branch
// is type-stable; a child's goes when the child has ended, and child_branch.hpp says why that is
// late enough for all three. Its low bits hold the state, two flags above them say that the
// innermost scope is stopped, and why, and the rest counts the lives of the branch, so that a stop
// that comes late for one task never hits the next one of the same control block:
//
//     state        meaning                                            leaves by
//     idle         running, or publishing its operation (parker)      suspend, complete
//     armed        suspended, the operation lies on its object        complete, request_stop
//     completed    the completer came before suspend()                suspend (parker only)
//     cancelling   a canceller owns the wake-up and will take the     withdrawn, let_go
//                  operation off its object
//     let_go       one of completer and canceller has made its        let_go
//                  last touch; the other one readies
//
// Transitions, with the party that makes them:
//
//     parker      idle -> armed                 suspended; it touches nothing any more
//     parker      completed -> idle             not suspended, the operation is done
//     parker      idle|stop -> cancelling|stop  it cancels its own operation, like any canceller
//     completer   idle -> completed             the parker goes on by itself
//     completer   armed -> idle                 the completer readies the branch
//     canceller   armed -> cancelling           under the lock of the scope
//     canceller   cancelling -> idle            the operation was still on its object: readies
//     both        cancelling -> let_go -> idle  the completer had taken the operation already: both
//                                               let go, and who comes second readies
//
// Why it is correct. (1) A completer calls complete() once for each operation that it took off an
// object, and an object gives an operation away once; so there is at most one completer. (2) The
// stop flag is set by a read-modify-write of the same word, so a parker either sees it in
// suspend(), or the canceller sees `armed`: one modification order, no fence needed. (3) The frame
// is freed only after the branch ran again. In the states armed and idle its wake-up is owned by
// one party; from `cancelling` with a completer under way both must pass through let_go(), which is
// their last touch, before the branch is readied. (4) A stop for a given life changes the word only
// by an exchange that compares the life too. Whoever gives the block back begins the next life with
// a plain store: an exchange before it is void, since the task has ended, and one after it fails.
//
// Rejected: a word in the frame (a late completer hits freed memory); a lock for each branch (a
// completer would hold it together with the object's lock); swapping under the object's lock (the
// wait words of the netpoller have none).
//
// The load that starts a compare-and-swap loop is relaxed everywhere: the swap decides.
#pragma once

#include <weft/detail/base/assert.hpp>

#include <atomic>
#include <cstdint>

namespace weft::detail {

/// What suspend() found.
enum class suspend_outcome : std::uint8_t {
    suspended,  ///< The branch is parked; touch neither it nor its frame.
    completed,  ///< The completer was faster; go on without suspending.
    stopped,    ///< The scope is stopped; the parker is now the canceller of its own operation.
};

/// See the essay at the head of this file.
template <class Layer>
class operation_word {
public:
    static constexpr std::uint32_t idle = 0;
    static constexpr std::uint32_t armed = 1;
    static constexpr std::uint32_t completed = 2;
    static constexpr std::uint32_t cancelling = 3;
    static constexpr std::uint32_t let_go_state = 4;
    static constexpr std::uint32_t state_mask = 7;
    /// The innermost scope of the branch is stopped.
    static constexpr std::uint32_t stop_flag = 8;
    /// It is stopped because its deadline has passed.
    static constexpr std::uint32_t late_flag = 16;
    static constexpr std::uint32_t flag_mask = stop_flag | late_flag;
    /// The lives of the branch, counted in steps of `life_step`.
    static constexpr std::uint32_t life_step = 32;
    static constexpr std::uint32_t life_mask = ~(life_step - 1);
    /// For request_stop(): whichever task lives in the branch.
    static constexpr std::uint32_t any_life = 1;

    /// Parker, before it starts an operation: has the scope been stopped?
    /// Relaxed is enough: a stop that this load misses is found by suspend().
    bool stop_requested() const noexcept {
        return (word_.load(std::memory_order_relaxed) & stop_flag) != 0;
    }

    /// True if the stop came from a deadline. Relaxed: read by the branch after it was readied.
    bool late() const noexcept { return (word_.load(std::memory_order_relaxed) & late_flag) != 0; }

    /// Parker, after it has published its operation.
    suspend_outcome suspend() noexcept {
        std::uint32_t value = word_.load(std::memory_order_relaxed);
        for (;;) {
            const std::uint32_t kept = value & ~state_mask;
            if ((value & state_mask) == completed) {
                // Acquire pairs with the release in complete(): the result is visible. Only flags
                // can change beside us, so a failed exchange is tried again.
                if (word_.compare_exchange_weak(value, kept, std::memory_order_acquire,
                                                std::memory_order_relaxed)) {
                    return suspend_outcome::completed;
                }
            } else if ((kept & stop_flag) != 0) {
                // Acquire and release: the completer that finds `cancelling` must see the frame,
                // and we go on to touch what it wrote.
                if (word_.compare_exchange_weak(value, cancelling | kept,
                                                std::memory_order_acq_rel,
                                                std::memory_order_relaxed)) {
                    return suspend_outcome::stopped;
                }
            } else {
                // Release pairs with the acquire in complete() and request_stop(): whoever takes
                // the wake-up over sees the handle and the operation that we stored before.
                if (word_.compare_exchange_weak(value, armed | kept, std::memory_order_release,
                                                std::memory_order_relaxed)) {
                    return suspend_outcome::suspended;
                }
            }
        }
    }

    /// At the end of a runtime, when no canceller is left, for a branch that is parked and whose
    /// frame is about to be destroyed: takes the operation off its object by `unlink()`, unless a
    /// completer elsewhere has it or has had it. Returns when that one does not touch the branch
    /// any more.
    ///
    /// All tasks were stopped before. So as a rule the completer is not found in `armed`, before
    /// its canceller, but in `let_go`, after it; and where it has finished, in `idle`, the object
    /// may be gone, and unlink() is not called.
    template <class Unlink>
    void end_parked(Unlink&& unlink) noexcept {
        // Acquire pairs with the completer's release: its last touch is over when this returns.
        const auto state = [this] { return word_.load(std::memory_order_acquire) & state_mask; };
        if (state() == armed && unlink()) return;
        while (state() != idle) Layer::yield_thread();
    }

    /// At the same moment, for an operation that no stop takes off its object, since its unlink()
    /// says no: does it still wait for its completer, who has not come, or is under way? Whoever
    /// then takes it off its object is its completer. Acquire as above.
    bool awaits_completer() const noexcept {
        const std::uint32_t state = word_.load(std::memory_order_acquire) & state_mask;
        return state == armed || state == let_go_state;
    }

    /// Completer, after it took the operation off its object and stored the result in it.
    /// True: the caller readies the branch. False: touch neither branch nor operation any more.
    bool complete() noexcept {
        std::uint32_t value = word_.load(std::memory_order_relaxed);
        for (;;) {
            const std::uint32_t kept = value & ~state_mask;
            std::uint32_t next = 0;
            switch (value & state_mask) {
                case idle:
                    next = completed;
                    break;
                case armed:
                    next = idle;
                    break;
                default:
                    return let_go();
            }
            // Release: the result, for the parker or for the worker that resumes. Acquire: pairs
            // with the parker's release in suspend(), since we are about to ready its handle.
            if (word_.compare_exchange_weak(value, next | kept, std::memory_order_acq_rel,
                                            std::memory_order_relaxed)) {
                return next == idle;
            }
        }
    }

    /// Canceller, holding the lock of the branch's innermost scope: sets the stop flag, and the
    /// late flag if `is_late`. True: the branch was parked and the caller now cancels it: it drops
    /// the lock, takes the operation off its object, and calls withdrawn() if it was still there,
    /// let_go() if not. False: the branch sees the flag at its next suspension point, or the task
    /// of that life has ended.
    bool request_stop(bool is_late, std::uint32_t of_life = any_life) noexcept {
        std::uint32_t value = word_.load(std::memory_order_relaxed);
        for (;;) {
            if (of_life != any_life && (value & life_mask) != of_life) { return false; }
            if ((value & stop_flag) != 0) { return false; }  // The first reason stays.
            const std::uint32_t flags =
                (value & life_mask) | stop_flag | (is_late ? late_flag : 0U);
            const bool parked = (value & state_mask) == armed;
            const std::uint32_t state = parked ? cancelling : (value & state_mask);
            // Acquire pairs with suspend(): we read the operation of a parked branch. Release
            // pairs with let_go() of the completer and with the parker's acquire.
            if (word_.compare_exchange_weak(value, state | flags, std::memory_order_acq_rel,
                                            std::memory_order_relaxed)) {
                return parked;
            }
        }
    }

    /// Canceller that took the operation off its object itself: nobody else knows the branch, it
    /// readies it (or goes on, if it is the parker). Relaxed: the run queue orders the rest.
    void withdrawn() noexcept {
        [[maybe_unused]] const std::uint32_t before =
            word_.fetch_and(~state_mask, std::memory_order_relaxed);
        WEFT_ASSERT((before & state_mask) == cancelling);
    }

    /// Last touch of completer and canceller where both hold the operation. True: the caller came
    /// second and readies the branch (or goes on, if it is the parker).
    bool let_go() noexcept {
        std::uint32_t value = word_.load(std::memory_order_relaxed);
        for (;;) {
            const bool second = (value & state_mask) == let_go_state;
            // Also of a second completer, which finds `completed`.
            WEFT_ASSERT(second || (value & state_mask) == cancelling);
            const std::uint32_t next = second ? idle : let_go_state;
            // Release publishes what the first one wrote to the operation, acquire takes it over
            // before the second one readies.
            if (word_.compare_exchange_weak(value, next | (value & ~state_mask),
                                            std::memory_order_acq_rel, std::memory_order_relaxed)) {
                return second;
            }
        }
    }

    /// The branch itself, running, under the lock of the scope that becomes its innermost one.
    /// Relaxed: later stops of that scope are ordered by its lock, earlier ones are in `flags`.
    void adopt_flags(std::uint32_t flags) noexcept {
        const std::uint32_t value = word_.load(std::memory_order_relaxed);
        word_.store((value & life_mask) | (flags & flag_mask), std::memory_order_relaxed);
    }

    /// The flags, for a scope that opens inside this one; under the scope's lock, hence relaxed.
    std::uint32_t flags() const noexcept {
        return word_.load(std::memory_order_relaxed) & flag_mask;
    }

    /// Which life of the branch this is. Acquire pairs with begin_next_life() through whatever made
    /// the next task known: see join_word::finished().
    std::uint32_t life() const noexcept {
        return word_.load(std::memory_order_acquire) & life_mask;
    }

    /// Whoever gives an ended task's block back. Relaxed: (4) at the head of this file.
    void begin_next_life() noexcept {
        const std::uint32_t value = word_.load(std::memory_order_relaxed);
        word_.store((value & life_mask) + life_step, std::memory_order_relaxed);
    }

private:
    typename Layer::template atomic<std::uint32_t> word_{idle};
};

}  // namespace weft::detail
