// SPDX-License-Identifier: MIT
//
// A file descriptor as the netpoller sees it: a word for its life, a side for each direction, and
// the queues.
//
//     part                 decides                                              explained in
//     descriptor_word      who uses the descriptor; when its life ends          descriptor_word.hpp
//     poll_side (x2)       who waits; in whose ring the poll is armed           poll_side.hpp
//
// Who may touch what:
//   * fd_, epoch_ and shuts_down_: written by whoever opens the life (or holds the turn), read by
//     whoever holds a reference.
//   * the queues and the waiters of the close: under lock_.
//   * the sides: as they say.
//
// A copy in a forked child. The rings, the epoll set and the connection are the parent's, and lock_
// may be held by a thread that does not exist here. So a descriptor of an earlier epoch
// (fork_epoch.hpp) is good for calls that do not wait, and its close does nothing but close(2) of
// this process's own number: no shutdown, no request to a home, no waiter, no lock; its slot is not
// used again. Whatever would have to wait, queue or give the file away ends the process with a
// message.
//
// Closing, in this order, and why:
//   1. closing in the descriptor word: no operation enters, and each one that is inside holds a
//      reference that keeps the number of the file taken over its system call.
//   2. closing in both home words: nobody arms any more. What is armed now is cancelled in 4.
//   3. The wait words are notified and the queues emptied: every waiter wakes up, finds the mark
//      and gives its reference back. An operation that publishes itself after this reads the home
//      word after 2, so it takes itself back.
//   4. Each armed poll is cancelled by its own id, at its own home.
//   5. shutdown(2), for connected sockets that weft made and only if a ring still holds the file:
//      the peer sees the end now, not when the last poll is gone.
//   6. The closer drops its reference. Whoever drops the last one, be it the closer, an operation
//      or the final completion of a poll, calls close(2), starts the next generation, gives the
//      slot back and wakes those who wait for the close. The generation ends under the lock of
//      their list, which is taken in the same step: whoever wants to join finds either a list that
//      will be taken, or the next generation and nothing to wait for. A signal handler that has
//      dropped the last reference leaves all of this to others (handed_list.hpp), who may come
//      late; one can still join meanwhile.
#pragma once

#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/netpoll/close_operation.hpp>
#include <weft/detail/netpoll/descriptor_word.hpp>
#include <weft/detail/netpoll/io_operation.hpp>
#include <weft/detail/netpoll/netpoller.hpp>
#include <weft/detail/netpoll/poll_record.hpp>
#include <weft/detail/netpoll/poll_side.hpp>

#include "lib/base/fork_epoch.hpp"
#include "lib/netpoll/handed_work.hpp"
#include "lib/netpoll/poll_home.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::detail {

class alignas(64) poll_descriptor {
public:
    poll_descriptor() noexcept = default;
    poll_descriptor(const poll_descriptor&) = delete;
    poll_descriptor& operator=(const poll_descriptor&) = delete;

    // For operations that hold a reference.

    int fd() const noexcept { return fd_; }
    bool closing() const noexcept { return word_.closing(); }
    /// Closing must not shut the connection down first, since it is to be reset.
    void never_shut_down() noexcept { shuts_down_.store(false, std::memory_order_relaxed); }

    /// Takes the turn, or puts the operation into the queue. `busy`: it is in the queue.
    enter_outcome enter_or_queue(io_operation& entering) noexcept;
    /// Takes an operation out of the queue again. False: it is not there any more.
    bool leave_queue(io_operation& leaving) noexcept;
    /// Gives the turn and the reference back. Branches to be readied are appended.
    void leave(direction which, branch_list& readied) noexcept;
    /// Gives back the reference of an operation without a turn, or of the closer.
    void drop_reference(branch_list& readied) noexcept;

    void forget_readiness(direction which) noexcept { side_of(which).forget_readiness(); }

    /// Operation with the turn: a read got less than it asked for.
    void short_read(direction which) noexcept { side_of(which).short_read(); }
    /// Operation with the turn, after EAGAIN: is it to make the call once more?
    bool doubts_refusal(direction which) noexcept { return side_of(which).doubts_refusal(); }
    /// Operation with the turn, before a system call: may it call wait() instead, unverified?
    bool may_wait_unverified(direction which, branch& waiter) noexcept;

    enum class wait_outcome : std::uint8_t { wait, ready, failed, refused };
    /// Operation with the turn, after EAGAIN (`verified`) or may_wait_unverified(): publishes the
    /// branch and sees to it that a poll is armed. `ready`: something has happened meanwhile, try
    /// again. `failed`: the last poll failed, and nothing was published. `refused`: it was, but no
    /// poll can be armed. `error`, 0 before, becomes the errno of either; it stays 0 where the
    /// descriptor is being closed.
    wait_outcome wait(direction which, branch& waiter, bool verified, int& error) noexcept;
    bool withdraw(direction which, branch& waiter) noexcept {
        return side_of(which).withdraw(&waiter);
    }

    // For handles.

    bool is_open(std::uint32_t generation) const noexcept { return word_.is_open(generation); }
    /// Is it a copy, in a forked child, of what a runtime of the parent uses?
    bool inherited() const noexcept {
        return epoch_.load(std::memory_order_relaxed) != current_fork_epoch();
    }
    /// A reference for a system call that needs no turn. False: it is closed.
    bool add_use(std::uint32_t generation) noexcept { return word_.add_use(generation); }
    /// Begins to close this life; begun already, or ended: does nothing.
    void close(std::uint32_t generation, close_operation::purpose why,
               branch_list& readied) noexcept;
    /// Adds a waiter for the end of this life, also where the last reference has been dropped and
    /// the end is near. It may come before this returns. False: the life has ended.
    bool add_close_waiter(std::uint32_t generation, close_operation& waiting) noexcept;
    bool remove_close_waiter(close_operation& waiting) noexcept;

    // For the owners of rings.

    // In a handler, what may need a lock is added to `later`; it is null elsewhere.

    /// A completion of a poll, taken by the owner of its home. True: the record is released, and
    /// the ring no longer counts it.
    bool completed(poll_record& record, const poll_completion& completion, branch_list& readied,
                   handed_work* later) noexcept;
    /// The owner has taken the request to cancel the poll from its inbox. True: the poll had ended,
    /// and the record is released; false: the owner cancels it now.
    bool take_cancel_request(poll_record& record, branch_list& readied,
                             handed_work* later) noexcept;
    /// The owner gives a poll up whose events nobody uses. True: it cancels it now.
    bool give_up(poll_record& record) noexcept { return side_of(record.which()).give_up(record); }

    // For the epoll set, where a poll has no completions of its own.

    void notify(direction which, bool hung_up, branch_list& readied) noexcept;
    /// Ends a poll that has lost its place. True: it is released; false: somebody else ended it.
    bool end_poll(direction which, const poll_name& poll, cancel_reason why,
                  branch_list& readied) noexcept;
    /// Ends the polls that are armed at this home, except those that a closer is on its way to end.
    /// Returns how many were released.
    unsigned end_polls_at(std::uint16_t home, branch_list& readied) noexcept;
    std::uint32_t generation() const noexcept { return word_.generation(); }

    std::uint32_t slot() const noexcept { return slot_; }

    /// Whoever has taken the slot from the table: starts a life and returns its generation.
    std::uint32_t open(int fd, bool shuts_down) noexcept;

private:
    friend class descriptor_table;
    friend class handed_work;

    using side = descriptor_side;

    /// Operations that wait for the turn of one direction.
    struct queue {
        io_operation* first = nullptr;
        io_operation* last = nullptr;
    };

    side& side_of(direction which) noexcept { return sides_[index_of(which)]; }
    void place(std::uint32_t slot) noexcept;
    void unlink_queued(io_operation& leaving) noexcept;
    int arm(side& on, const poll_name& poll, poller& io) noexcept;
    void evict_queued(direction which, branch_list& readied) noexcept;
    void release_poll(branch_list& readied, handed_work* later) noexcept;
    close_operation* take_owner_to_be() noexcept;
    void end_life(branch_list& readied) noexcept;
    void close_inherited(std::uint32_t generation) noexcept;
    void check_not_inherited() const noexcept;
    static void complete(branch* taken, branch_list& readied) noexcept;

    descriptor_word<layer> word_;
    int fd_ = -1;
    std::uint32_t slot_ = 0;
    /// In which this life began. Relaxed: whoever asks with a name of an earlier life is told by
    /// its generation afterwards.
    layer::atomic<std::uint32_t> epoch_{0};
    layer::atomic<bool> shuts_down_{false};  ///< Relaxed: a wish, not a guard.
    bool gives_back_ = false;  ///< Written by the closer, read at the end of the life.
    spin_lock<layer> lock_;
    // What a read, a write and an event touch lies in the first 128 bytes.
    std::array<side, 2> sides_;
    std::array<queue, 2> queues_;
    close_operation* close_waiters_ = nullptr;
    poll_descriptor* next_free_ = nullptr;  ///< In the list of free slots, or in handed_work.
};

/// Puts a file descriptor into a slot. It is not registered with anything before an operation waits
/// for it. Null descriptor: no memory; the caller still owns `fd`.
descriptor_name open_descriptor(int fd, bool shuts_down) noexcept;

/// Readies branches that may belong to more than one runtime.
void ready_each(branch_list& readied) noexcept;

/// Closes a life from a destructor: starts the protocol and does not wait.
void close_in_background(descriptor_name closing) noexcept;

}  // namespace weft::detail
