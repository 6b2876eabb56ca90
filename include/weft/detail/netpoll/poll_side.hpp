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
//     worker that      take the waiter out of the wait word, and wake it          nudge
//     waited for it
//     unverified
//
// The one argument that needs both words. An operation must not park where no poll is armed and
// nobody closes. It parks only after it has read `armed` in the home word, which it does after it
// has published itself. Suppose that poll has ended. Its owner cleared `armed` before it notified
// the wait word. If that notification came before the publication, the operation has acquired it
// (wait_word.hpp) and would have seen `armed` cleared. So it came after, and took the waiter. The
// same holds for the closer with `closing` in place of `armed` cleared.
//
// Waiting without EAGAIN. After a read that got less than it asked for, the next operation may wait
// at once, *unverified*; unverified_waits.hpp says when that is allowed and why the call that it
// leaves out is made up for, unless an event comes before. Nothing above depends on what the kernel
// does: it is asked in any case, after the publication, and who is nudged tries again. What makes
// it rare that the answer is needed is TCP. A short read has emptied the queue, so later data are
// an event after the exchange of the wait word, which came before that read: it takes the waiter,
// or the publication fails. The end of the stream behind the data is an event of its own. If it
// came after the exchange, the same holds. If it came before, it has set hung_up_ before it
// notified, the exchange has acquired that, and such an operation does not wait unverified. An
// urgent mark alone stops a read and brings no event.
//
// A refusal that is none. A call that begins at an urgent mark says EAGAIN, whatever lies behind
// it, while a signal is pending for the thread, or work of the kernel's own (tcp_recvmsg in Linux).
// So who was nudged makes its call twice before it takes EAGAIN for the truth. A call that is not
// put off has nothing to tell the one from the other: such data are read when more arrives.
//
// Releasing. A poll whose place in the home word was taken (moved, given up, closing) is released
// after both its final completion and the request to cancel it; both are seen by one thread, the
// owner, which keeps in the record which of them came first. One that ends in its place is released
// at once; its record may be armed again by another thread from the swap in end() on, so
// completed() does not touch it after that.
#pragma once

#include <weft/detail/base/assert.hpp>
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
    bool hung_up = false;  ///< The peer sends no more, or the connection is gone.
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
    bool arms = false;         ///< Arm the poll `armed` here; its reference has been added.
    bool cancels_old = false;  ///< Ask the home of `old` to cancel it.
    std::uint32_t number = 0;  ///< Of this wait.
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

    /// A read got less than it asked for. The attempts after a nudge that was right are verified.
    void short_read() noexcept {
        if (nudged_.load(std::memory_order_relaxed)) [[unlikely]] {
            forget_nudge();
            lost();
        }
        if (distrusted_ != 0) [[unlikely]] {
            distrusted_ = distrusted_ - 1;
        } else {
            emptied_ = true;
            if (trusted_ < trust_after) trusted_ = trusted_ + 1;
        }
    }

    /// A call has said EAGAIN. True: make it once more, since the kernel has just said that there
    /// is something. See "A refusal that is none" above; when the call has returned, nothing is
    /// pending any more.
    bool doubts_refusal() noexcept {
        if (!nudged_.load(std::memory_order_relaxed)) [[likely]] return false;
        const bool doubted = doubted_;
        doubted_ = true;
        return !doubted;
    }

    /// Before a system call, on the worker whose ring is `here`: may the operation wait unverified
    /// instead? Once for each short read. Relaxed: see above what orders the hang-up.
    bool take_emptied(std::uint16_t here) noexcept {
        if (!emptied_) return false;
        emptied_ = false;
        return !hung_up_.load(std::memory_order_relaxed) && home_.armed_at(here);
    }

    /// After EAGAIN, or unverified, on the worker whose ring is `here`. `references` as in
    /// home_word::arm(); `stranded(home)` says of which rings the polls are of no use
    /// (stranded_mark.hpp).
    template <class References, class Stranded>
    wait_decision wait(Waiter* waiter, std::uint16_t here, References references,
                       Stranded&& stranded) noexcept {
        // Relaxed: stored before the notification that we have taken.
        if (error_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
            return {.step = wait_step::failed,
                    .error = error_.exchange(0, std::memory_order_relaxed)};
        }
        // Relaxed, all three: nudge() was before, on the way that woke us; the number is for its
        // writer.
        if (nudged_.load(std::memory_order_relaxed)) [[unlikely]] {
            forget_nudge();
        }
        const std::uint32_t number = number_.load(std::memory_order_relaxed) + 1;
        number_.store(number, std::memory_order_relaxed);
        const bool leaves = stranded(home_.home());
        if (!wait_.publish(waiter)) return {.step = wait_step::ready};
        const bool may_move = leaves || misses_ >= MissesBeforeMove;
        const arm_decision decision = home_.arm(here, may_move, references);
        switch (decision.outcome) {
        case arm_outcome::closing: return {.step = wait_step::closing};
        case arm_outcome::armed_elsewhere:
            if (misses_ < MissesBeforeMove) misses_ = misses_ + 1;
            return {.number = number};
        case arm_outcome::armed_here: misses_ = 0; return {.number = number};
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
                .number = number,
                .armed = decision.poll,
                .old = decision.old};
    }

    /// Whoever takes a published waiter back. False: a notifier has it.
    bool withdraw(Waiter* waiter) noexcept { return wait_.withdraw(waiter); }

    // The worker that has published an unverified wait (unverified_waits.hpp).

    /// Does the wait of that number still last? Relaxed: it reads what it wrote, or later values.
    bool waits(std::uint32_t number) const noexcept {
        return number_.load(std::memory_order_relaxed) == number && wait_.waits();
    }

    /// Takes the waiter, to be completed, so that it tries again. Null: somebody was faster.
    Waiter* nudge() noexcept {
        Waiter* const taken = wait_.take_waiter();
        // Relaxed: the waiter is ours; completing it orders this.
        if (taken != nullptr) nudged_.store(true, std::memory_order_relaxed);
        return taken;
    }

    // The owner of a ring.

    [[gnu::hot]]
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
            if (completion.hung_up) set_hung_up();
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
    Waiter* notify(bool hung_up = false) noexcept {
        if (hung_up) set_hung_up();
        return wait_.notify();
    }

    /// Ends a poll that was moved away, or that is closing. True: it is released; false: it was
    /// before.
    bool end_poll(const poll_name& poll, bool moved) noexcept {
        const bool ended_here = home_.end(poll.sequence).current;
        WEFT_ASSERT(ended_here != moved);  // A closer's poll is nobody else's to end.
        if (moved) home_.release_other();
        return ended_here || moved;
    }

    /// Ends a poll that could not be armed, unless a closer has seen it: the set has to stay until
    /// that one has ended it. True: it is released.
    bool end_refused(const poll_name& poll) noexcept {
        return home_.end_unless_closing(poll.home);
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
        // Relaxed: the publication of the new life orders it.
        error_.store(0, std::memory_order_relaxed);
        misses_ = 0;
        emptied_ = false;
        distrusted_ = 0;
        losses_ = 0;
        trusted_ = trust_after;
        hung_up_.store(false, std::memory_order_relaxed);
        forget_nudge();
    }

    Record& record(unsigned index) noexcept { return records_[index]; }

private:
    /// After a nudge that found something, so many short reads are followed by a call at once;
    /// twice as many each time, up to 16,384, where it was again one of the first waits after them.
    /// An event that comes while the question is put looks like a loss as well, but does so seldom.
    static constexpr std::uint16_t distrust_after_loss = 64;
    static constexpr std::uint8_t losses_limit = 8;
    static constexpr std::uint8_t trust_after = 64;

    void lost() noexcept {
        if (trusted_ == trust_after) {
            losses_ = 0;
        } else if (losses_ < losses_limit) {
            losses_ = losses_ + 1;
        }
        trusted_ = 0;
        distrusted_ = static_cast<std::uint16_t>(distrust_after_loss << losses_);
    }

    void forget_nudge() noexcept {
        nudged_.store(false, std::memory_order_relaxed);
        doubted_ = false;
    }

    /// Before the notification that tells it. Relaxed: that notification orders it.
    void set_hung_up() noexcept { hung_up_.store(true, std::memory_order_relaxed); }

    wait_word<Layer, Waiter> wait_;
    home_word<Layer> home_;
    /// Why the last poll failed, or 0.
    typename Layer::template atomic<int> error_{0};
    /// Counts the waits, over all lives. Written by the operation with the turn.
    typename Layer::template atomic<std::uint32_t> number_{0};
    typename Layer::template atomic<bool> hung_up_{false};
    /// The last wait was ended by a nudge.
    typename Layer::template atomic<bool> nudged_{false};
    // These belong to the turn.
    typename Layer::template var<std::uint8_t> misses_{0};
    typename Layer::template var<bool> emptied_{false};
    typename Layer::template var<bool> doubted_{false};  ///< The first EAGAIN after a nudge.
    /// Losses in a row, each soon after the last.
    typename Layer::template var<std::uint8_t> losses_{0};
    /// Short reads that were trusted since the last loss, up to `trust_after`.
    typename Layer::template var<std::uint8_t> trusted_{trust_after};
    typename Layer::template var<std::uint16_t> distrusted_{0};
    std::array<Record, 2> records_;
};

}  // namespace weft::detail
