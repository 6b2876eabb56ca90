// SPDX-License-Identifier: MIT
//
// One direction of a descriptor: the wait word, the home word, the two records, and the order of
// the steps that connect them. The words themselves are explained in wait_word.hpp and
// home_word.hpp.
//
//     party            steps, in this order                                       function
//     operation        forget readiness; system call; EAGAIN; publish in the      forget_readiness,
//                      wait word; read or swap the home word; arm; park           wait
//     owner of the     end the poll in the home word; say what went wrong;        completed
//     home             notify the wait word; release the poll
//     owner of the     take the request to cancel; release the poll if it has take_cancel_request
//     home             ended, else cancel it
//     closer           closing into the home word; notify the wait word; ask      close
//                      the home to cancel
//     canceller        take the waiter out of the wait word                       withdraw
//
// The one argument that needs both words. An operation must not park where no poll is armed and
// nobody closes. It parks only after it has read `armed` in the home word, which it does after it
// has published itself. Suppose that poll has ended. Its owner cleared `armed` before it notified
// the wait word. If that notification came before the publication, the operation has acquired it
// (wait_word.hpp) and would have seen `armed` cleared. So it came after, and took the waiter. The
// same holds for the closer with `closing` in place of `armed` cleared.
//
// Releasing. A poll whose place in the home word was taken (moved, given up, closing) is released
// after both its final completion and the request to cancel it; both are seen by one thread, the
// owner, which keeps in the record which of them came first. One that ends in its place is released
// at once; its record may be armed again by another thread from the swap in end() on, so
// completed() does not touch it after that.
#pragma once

#include <weft/detail/netpoll/home_word.hpp>
#include <weft/detail/netpoll/wait_word.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <utility>

namespace weft::detail {

/// What a ring tells about a poll.
struct poll_completion {
    std::uint32_t sequence = 0;
    int result = 0;     ///< Events, or a negative errno.
    bool more = false;  ///< The poll goes on.
};

enum class wait_step : std::uint8_t {
    wait,     ///< The waiter is published and a poll is armed, or is the caller's to arm.
    ready,    ///< Something has happened meanwhile: try again.
    failed,   ///< The last poll failed with `error`; nothing was published.
    closing,  ///< The waiter is published, but the descriptor is being closed: take it back.
};

struct wait_decision {
    wait_step step = wait_step::wait;
    int error = 0;
    bool arms = false;         ///< Arm the poll `armed` here; add a reference for it.
    bool cancels_old = false;  ///< Ask the home of `old` to cancel it.
    poll_name armed = {};
    poll_name old = {};
};

template <class Waiter>
struct completion_decision {
    Waiter* waiter = nullptr;  ///< Complete it.
    bool released = false;     ///< Then drop the reference of the poll.
};

template <class Waiter>
struct close_decision {
    Waiter* waiter = nullptr;  ///< Complete it.
    bool cancels = false;      ///< Ask the home of `poll` to cancel it.
    poll_name poll = {};
};

/// After `MissesBeforeMove` EAGAINs in a row that found the poll in another ring, it moves.
template <class Layer, class Waiter, class Record, std::uint8_t MissesBeforeMove = 2>
class poll_side {
public:
    // The operation that has the turn.

    /// Before a system call.
    void forget_readiness() noexcept { wait_.take_ready(); }

    /// After EAGAIN, on the worker whose ring is `here`.
    wait_decision wait(Waiter* waiter, std::uint16_t here) noexcept {
        // Relaxed: stored before the notification that we have taken.
        if (error_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
            return {.step = wait_step::failed,
                    .error = error_.exchange(0, std::memory_order_relaxed)};
        }
        if (!wait_.publish(waiter)) return {.step = wait_step::ready};
        const arm_decision decision = home_.arm(here, misses_ >= MissesBeforeMove);
        switch (decision.outcome) {
        case arm_outcome::closing: return {.step = wait_step::closing};
        case arm_outcome::armed_elsewhere:
            if (misses_ < MissesBeforeMove) misses_ = misses_ + 1;
            return {};
        case arm_outcome::armed_here: misses_ = 0; return {};
        case arm_outcome::arm:
        case arm_outcome::move: break;
        }
        misses_ = 0;
        Record& record = records_[decision.poll.record];
        record.sequence = decision.poll.sequence;
        record.multishot = decision.poll.multishot;
        record.given_up = false;
        record.ended = false;
        record.cancel_taken = false;
        record.unused_events = 0;
        return {.arms = true,
                .cancels_old = decision.outcome == arm_outcome::move,
                .armed = decision.poll,
                .old = decision.old};
    }

    /// Whoever takes a published waiter back. False: a notifier has it.
    bool withdraw(Waiter* waiter) noexcept { return wait_.withdraw(waiter); }

    // The owner of a ring.

    completion_decision<Waiter> completed(Record& record,
                                          const poll_completion& completion) noexcept {
        completion_decision<Waiter> decision;
        end_outcome end{.current = true};
        if (!completion.more) {
            end = home_.end(completion.sequence);
            // Where nobody asks for a cancellation the record is not ours any more.
            decision.released = !end.cancel_requested || record.cancel_taken;
            if (!decision.released) {
                record.given_up = !end.current;
                record.ended = true;
            }
            if (end.current && completion.result < 0 && completion.result != -ECANCELED) {
                // Relaxed: the notification that follows orders it.
                error_.store(-completion.result, std::memory_order_relaxed);
            }
        }
        // The cancellation of a poll that was given up tells nothing: the one in its place was, or
        // will be, submitted after it, and looks at the state of the file itself.
        if (end.current || completion.result != -ECANCELED) {
            decision.waiter = wait_.notify();
            if (completion.more) {
                record.unused_events = static_cast<std::uint8_t>(
                    decision.waiter != nullptr ? 0 : record.unused_events + 1);
            }
        }
        if (decision.released && !end.current) home_.release_other();
        return decision;
    }

    /// True: the poll had ended, and is released now. False: cancel it.
    bool take_cancel_request(Record& record) noexcept {
        if (!record.ended) {
            record.cancel_taken = true;
            return false;
        }
        if (record.given_up) home_.release_other();
        return true;
    }

    /// Gives up a poll whose events nobody uses. True: cancel it.
    bool give_up(Record& record) noexcept {
        record.unused_events = 0;
        if (!home_.disarm(record.sequence)) return false;
        record.cancel_taken = true;
        return true;
    }

    // An epoll set, where a poll has no completions of its own.

    /// An event.
    Waiter* notify() noexcept { return wait_.notify(); }

    /// Ends a poll that was moved away, or that is closing or could not be armed. True: it is
    /// released; false: it was before.
    bool end_poll(const poll_name& poll, bool moved) noexcept {
        const bool ended_here = home_.end(poll.sequence).current;
        if (moved) home_.release_other();
        return ended_here || moved;
    }

    /// The set goes away: ends the poll that is armed there, unless a closer is about to. True: it
    /// is released; notify().
    bool end_unless_closing(std::uint16_t home) noexcept { return home_.end_unless_closing(home); }

    // The closer.

    close_decision<Waiter> close() noexcept {
        const close_outcome outcome = home_.close();
        return {.waiter = wait_.notify(), .cancels = outcome.armed, .poll = outcome.poll};
    }

    /// Whoever has the descriptor alone, at the end of a life.
    void reset() noexcept {
        wait_.reset();
        home_.reset();
        error_.store(0, std::memory_order_relaxed);
        misses_ = 0;
    }

    Record& record(unsigned index) noexcept { return records_[index]; }

private:
    wait_word<Layer, Waiter> wait_;
    home_word<Layer> home_;
    /// Why the last poll failed, or 0.
    typename Layer::template atomic<int> error_{0};
    /// Belongs to the turn.
    typename Layer::template var<std::uint8_t> misses_{0};
    std::array<Record, 2> records_;
};

}  // namespace weft::detail
