// SPDX-License-Identifier: MIT
//
// What every operation on a descriptor is made of: it tries its system call, waits for readiness
// after EAGAIN, and tries again, without a coroutine frame of its own.
//
// States of an operation, as far as its descriptor goes:
//
//     nothing   it holds nothing: not started, refused, or given back
//     queued    it holds a reference and waits in the queue of its direction
//     turn      it holds a reference and the turn: it makes system calls, or its branch waits in
//               the wait word, or the poller of its worker makes the call (below)
//
// start() runs on the worker that runs the branch and is called again after each wake-up, before
// the coroutine is resumed. A false wake-up, a move to another worker or the hand-over of the turn
// is nothing but one more round of its loop. What another thread may do while the branch is parked:
//   * hand the turn over (under the descriptor's lock): queued -> turn, then complete the branch;
//   * evict it from the queue because the descriptor is closed (under the lock), then complete;
//   * take the branch from the wait word (a compare-and-swap), then complete;
//   * cancel it: unlink() undoes exactly one of the above places, or finds that a completer was
//     faster. Turn and reference stay with the operation: it gives them back when it is resumed, or
//     in its destructor.
// All of that happens while the operation is published, and the branch's word decides who readies
// (operation_word.hpp), so no field of the operation is touched by two threads at a time.
//
// Gathered sends. The first attempt of a send may be left to the worker's poller, which makes those
// of several operations with one system call (lib/sched/send_gathering.hpp says when). It is the
// same attempt, made a little later: the kernel is told not to wait, so it has ended when that call
// returns, and has the buffer no longer than that. In between the operation is published nowhere.
// Its branch counts as queued, as one that has yielded, though it is in no queue: nobody can cancel
// it, and a stop is seen when it is started again, where a transfer that has succeeded wins. It has
// the turn and its reference all the time, so that a close waits for it as for a call under way.
//
// Rejected: completion-style receive and send in the ring. The kernel would own the user's buffer
// until the final completion, so that a cancelled read could not return at once, and a hungry peer
// would pin a buffer for each idle connection.
#pragma once

#include <weft/detail/branch/operation.hpp>
#include <weft/detail/netpoll/direction.hpp>

#include <cstddef>
#include <cstdint>
#include <system_error>

namespace weft::detail {

class poll_descriptor;

/// One life of a descriptor (descriptor_word.hpp). Copies name the same life; none owns it.
struct descriptor_name {
    poll_descriptor* descriptor = nullptr;
    std::uint32_t generation = 0;
};

class io_operation : public operation {
public:
    bool start(branch& waiter) noexcept override;
    bool unlink() noexcept override;

protected:
    /// How one system call ended.
    enum class attempt_outcome : std::uint8_t {
        done,         ///< The operation has its result, or its error.
        again,        ///< It goes on with another call.
        would_block,  ///< EAGAIN.
        gathered,     ///< The poller makes the call, together with others; see gather_send().
    };

    io_operation(descriptor_name on, direction which) noexcept
        : operation(true, which == direction::read ? wait_reason::io_read : wait_reason::io_write),
          on_(on),
          which_(which) {}
    /// For an operation that makes its descriptor itself; it calls use() before start().
    explicit io_operation(direction which) noexcept : io_operation(descriptor_name{}, which) {}
    /// Only of an operation that has not started.
    io_operation(const io_operation&) = default;
    /// The most derived class has taken a parked operation off its descriptor before
    /// (operation::unlink_if_parked).
    ~io_operation() { give_back(); }

    void use(descriptor_name on) noexcept { on_ = on; }
    descriptor_name used() const noexcept { return on_; }

    /// One system call that does not block, by the operation that has the turn.
    virtual attempt_outcome attempt(int fd) noexcept = 0;

    /// For attempt() of a read: it got something, but less than it asked for. The next attempt on
    /// this descriptor may then be put off (unverified_waits.hpp).
    void short_read() noexcept;

    /// For attempt(): leaves a send to the poller, if that is worth while, once for an operation.
    /// Then attempt() returns `gathered`, and ended() is called instead of the next attempt.
    bool gather_send(int fd, const void* data, std::size_t size) noexcept;

    /// How the send that was gathered has ended: with what the system call would have returned, or
    /// minus its errno.
    virtual attempt_outcome ended(int) noexcept { return attempt_outcome::again; }

    /// The operation ends with this error. For attempt() and start().
    void fail(std::error_code error) noexcept {
        error_category_ = &error.category();
        error_ = error.value();
    }
    void fail_with_errno(int error) noexcept { fail({error, std::system_category()}); }

    /// For await_resume(): gives back what a cancelled operation still holds, and tells how the
    /// operation ended: an error of its own, operation_canceled, timed_out, or none. An error that
    /// came before the cancellation wins.
    std::error_code finish() noexcept {
        await_is_over();
        const bool succeeded = standing_ == standing::nothing && error_ == 0 &&
                               outcome() == operation_outcome::completed;
        return succeeded ? std::error_code() : finish_failed();
    }

private:
    friend class poll_descriptor;
    friend class handed_work;
    friend class ring_poller;

    enum class standing : std::uint8_t { nothing, queued, turn };
    /// Where the branch is, or may be, published. Written by the operation itself only.
    enum class place : std::uint8_t { nowhere, queue, wait_word };
    /// Is a send of this operation gathered?
    enum class gathering : std::uint8_t { not_yet, under_way, ended };
    /// What the loop of start() does next.
    enum class next_step : std::uint8_t { go_on, try_again, end, leave_parked };

    next_step take_turn(branch& waiter) noexcept;
    next_step wait_for_readiness(branch& waiter, bool verified) noexcept;
    void give_back() noexcept;
    std::error_code finish_failed() noexcept;

    descriptor_name on_;
    io_operation* next_ = nullptr;      ///< In the queue; guarded by the descriptor's lock. Also in
                                        ///< handed_work, to which a waiter belongs that is in it.
    io_operation* previous_ = nullptr;  ///< As next_.
    // An error, in two parts: to make the std::error_code of no error is a call of another library.
    const std::error_category* error_category_ = nullptr;
    int error_ = 0;
    direction which_;
    standing standing_ = standing::nothing;
    place place_ = place::nowhere;
    bool linked_ = false;  ///< In the queue; guarded by the descriptor's lock.
    gathering gathering_ = gathering::not_yet;
    int sent_ = 0;  ///< Result of the send that was gathered; written by the poller.
};

}  // namespace weft::detail
