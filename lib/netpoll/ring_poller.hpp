// SPDX-License-Identifier: MIT
//
// The poller of one worker on io_uring.
//
// A turn (poll or wait) does, in this order: take the requests of other threads, push what has to
// be pushed (polls to arm, polls to cancel, the doorbell), enter the kernel once, take the
// completions, and as long as the kernel says that it holds more, enter again, at most a few times.
//
// What is in flight. `polls_` lists each poll from its arming to its final completion,
// `unreleased_` counts it until it is released, which is later where its cancellation was requested
// but not taken yet. Lists go through the records of the descriptors, which are type-stable, so
// nothing here has a limit and nothing is allocated.
//
// A full submission queue. push() never drops an entry and never waits: it hands over what is there
// with one system call, and if the kernel takes nothing (it is short of memory, or wants its
// completions taken first), the poll goes into `unarmed_` or `uncancelled_`, from where each turn
// takes up again. Cancels wait until nothing is in `unarmed_`, so a cancel never overtakes its
// poll.
//
// Requests. Any thread may have made a poll of this ring lose its place; it puts the record into
// `inbox_` (request_inbox.hpp) and, if the owner waits in the kernel, rings the doorbell. A worker
// with a poll in flight never sleeps but in wait(), so no other wake is needed.
//
// Gathered sends (send_gathering.hpp) are entries as well. Each carries MSG_DONTWAIT, by which the
// kernel marks its request as one that must not wait: where the socket has no room the request ends
// at once with EAGAIN, and is neither handed to another thread nor put on a poll. So whoever
// submits an entry, be it the owner or the handler of the rescue signal, has its completion in the
// queue when the call returns, and from then on the kernel has nothing of the buffer. As long as
// the entry is not submitted, and as long as its completion is not taken, its operation is held in
// `sends_`, and its branch is nowhere else. A completion names a slot of that table, never a frame.
// While a task keeps the owner, its completion is taken in the handler of the rescue signal, and
// others ready its branch; not before that is suspended, since the handler is kept from it until
// then.
//   * Refused. An entry that the kernel did not take stays in the queue, and so does its operation,
//     until a later turn; the worker does not sleep on a futex meanwhile. To take it out again and
//     make the call would be a race against the handler of the signal.
//   * Dropped. The kernel drops completions only when its queue is full and it has no memory. Sends
//     come first in a call, before deferred work, so they find the queue as the last turn left it,
//     and there has been a turn with hundreds of completions too many. Then it is not known what
//     was sent, and the operation fails with EBADR.
//
// A kernel that refuses to be entered (it is short of memory, or wants its completions taken first,
// or has dropped some) is asked again: each turn a few times, and a worker without anything else to
// do at most once a millisecond. When it has refused all attempts for `patience` (refusal_time.hpp
// says what counts), the process ends with a message, since entries and completions of this ring
// cannot go elsewhere.
//
// Rescue. A task that keeps the owner keeps everybody who waits in its ring, and everybody who
// wants a poll there to end: who closes its descriptor, or has armed another one elsewhere. Others
// may interrupt the owner's thread by a signal, whose handler takes a turn (rescue_signal.hpp):
// requests and completions, as ever. What would need a lock it leaves to whoever has interrupted
// it, or to the owner itself when it is back (handed_list.hpp). So nothing of the owner is touched
// by another thread, completions are taken however many come, and the fast path has no lock. The
// ring counts as stranded from then on until its owner is back (stranded_mark.hpp): whoever would
// wait for a poll there arms one on its own ring instead, which is faster than the next signal. A
// turn in the handler has limits; what it leaves behind is told to whoever looks, and the next
// signal goes on. A loss of completions, and a kernel that refuses, are left to the owner; one that
// has let the handler enter does not refuse.
//
// Rejected: reading the completions from outside without taking them (their queue is full after a
// while, with those of polls that have moved away, and closes wait for the owner); taking them from
// outside (a lock on the owner's fast path); a second queue to which the handler copies them (it
// has a limit as well, and the requests still wait).
//
// Retiring. A worker without a processor wants to be rid of its polls, wherever they are: the
// kernel is asked to cancel everything, and asked again as long as its answer has come and polls
// are left. That ends the doorbell's poll as well, which is armed again. A poll that has not been
// released when its final completion has come waits for the request of whoever took its place, as
// ever. Since a worker without a processor runs nothing, nothing is armed here meanwhile; so when
// nothing is in flight any more, no request can come either.
//
// The doorbell is an eventfd with a multishot poll. It is never read: each write is an event. A
// multishot ends when completions overflow; then it is armed again, which reports at once, since
// the eventfd is readable for ever after its first write. So no ring of the bell is lost.
#pragma once

#include "lib/netpoll/handed_work.hpp"
#include "lib/netpoll/poll_home.hpp"
#include "lib/netpoll/refusal_time.hpp"
#include "lib/netpoll/ring.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/detail/netpoll/gathered_sends.hpp>
#include <weft/detail/netpoll/netpoller.hpp>
#include <weft/detail/netpoll/poll_record.hpp>
#include <weft/detail/netpoll/request_inbox.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace weft::detail {

class ring_poller final : public poller, public poll_home {
public:
    ring_poller();
    /// What was not shut down is ended here: the ring is torn down, so the kernel knows none of its
    /// polls any more, and the descriptors are told so.
    ~ring_poller() override;

    /// Starter: makes the ring with so many entries, and the doorbell.
    start_result set_up(unsigned entries) noexcept;

    start_result enable_on_this_thread() noexcept override;
    void disable_on_this_thread() noexcept override;
    void shut_down() noexcept override;
    void poll(branch_list& readied, poll_extent extent) noexcept override;
    void wait(monotonic_time deadline, branch_list& readied) noexcept override;
    void wake() noexcept override;
    [[gnu::hot]]
    bool begin_sleep() noexcept override {
        return unreleased_ != 0 || sends_.any() || !handed_.empty();
    }
    [[gnu::hot]]
    void end_sleep() noexcept override {}
    void begin_retiring(branch_list& readied) noexcept override;
    void end_retiring() noexcept override { retiring_ = false; }
    bool in_flight() const noexcept override { return unreleased_ != 0 || !handed_.empty(); }
    bool has_work() const noexcept override;
    bool wants_owner() const noexcept override {
        return wants_turn() || !handed_.empty();
    }
    bool interrupt_owner(::pid_t thread) noexcept override;
    void take_for_owner(branch_list& readied) noexcept override { handed_.finish(readied); }
    /// Owner's thread, in a signal handler at any point. `runs_task`: it is in a task, not in its
    /// loop.
    void serve_interrupted(bool runs_task) noexcept;
    /// Starter: the handler of the rescue signal is there.
    void allow_rescue() noexcept { may_interrupt_ = true; }
    bool has_unsubmitted() const noexcept override {
        return ring_.unsubmitted() != 0 || !unarmed_.empty() || uncancelled_ != no_record;
    }
    int arm(poll_record& record) noexcept override;
    bool gather_send(io_operation& sending, int fd, const void* data,
                     std::size_t size) noexcept override;
    [[gnu::hot]]
    void publish_gathered() noexcept override { arming.end(); }
    bool has_gathered() const noexcept override { return sends_.any(); }
    void hand_over_for_owner(::pid_t thread) noexcept override;

    /// For tests: how long the kernel may refuse to be entered.
    static void set_patience(std::chrono::nanoseconds patience) noexcept;

    const io_ring& ring() const noexcept { return ring_; }
    std::size_t unreleased() const noexcept { return unreleased_; }

private:
    /// Polls in order, linked through their records.
    class poll_list {
    public:
        bool empty() const noexcept { return first_ == no_record; }
        poll_record* front() const noexcept;
        void push_back(poll_record& added) noexcept;
        void remove(poll_record& removed) noexcept;

    private:
        record_ref first_ = no_record;
        record_ref last_ = no_record;
    };

    bool cancel(const poll_name& poll, poll_record& record, cancel_reason why,
                branch_list& readied) noexcept override;

    void release_one() noexcept {
        WEFT_ASSERT(unreleased_ != 0);
        --unreleased_;
    }

    static constexpr unsigned no_limit = ~0U;

    void take_requests() noexcept;
    /// At most `limit` of the polls and requests that wait. Returns with how many it has dealt.
    unsigned push_waiting(branch_list& readied, unsigned limit = no_limit) noexcept;
    bool make_space() noexcept;
    void push_poll(poll_record& record) noexcept;
    void push_cancel(const poll_record& record) noexcept;
    void push_doorbell() noexcept;

    /// Any thread: would the owner find something?
    bool wants_turn() const noexcept {
        return ring_.needs_enter() || ring_.has_completions() || ring_.unsubmitted() != 0 ||
               !inbox_.empty() || waits_for_next_signal_.load(std::memory_order_relaxed);
    }

    void be_back(branch_list& readied) noexcept;
    void turn(unsigned enters, branch_list& readied) noexcept;
    void judge(int error) noexcept;
    void refused(int error) noexcept;
    unsigned reap(unsigned limit, branch_list& readied) noexcept;
    void take(const ring_completion& completion, branch_list& readied) noexcept;
    void end_send(std::uint64_t name, int result, branch_list& readied) noexcept;
    void take_poll(const ring_completion& completion, branch_list& readied) noexcept;
    void take_doorbell(const ring_completion& completion) noexcept;
    void push_cancel_all() noexcept;
    void recover(branch_list& readied) noexcept;
    bool cancel_everything(branch_list& readied) noexcept;
    void end(poll_list& list, branch_list& readied) noexcept;
    void release_cancelled(branch_list& readied) noexcept;

    io_ring ring_;
    int doorbell_ = -1;
    bool doorbell_armed_ = false;
    bool ending_ = false;                 ///< The doorbell is not armed again.
    bool rung_ = false;                   ///< Woken since the last wait().
    bool lost_ = false;                   ///< The kernel had to drop completions.
    refusal_time refusal_;                ///< Of enters.
    bool may_interrupt_ = false;
    bool retiring_ = false;               ///< Polls are cancelled.
    bool cancel_all_sent_ = false;        ///< Its answer has not come; used while retiring.
    bool everything_cancelled_ = false;   ///< The answer to cancel_everything() has come.
    poll_list polls_;                     ///< Known to the kernel, or in its queue.
    poll_list unarmed_;                   ///< Found no space in the queue.
    record_ref uncancelled_ = no_record;  ///< Requests that were taken; linked as the inbox.
    std::size_t unreleased_ = 0;

    gathered_sends<io_operation> sends_;
    request_inbox<layer> inbox_;  ///< Records to cancel.
    handed_work handed_;
    handed_work* later_ = nullptr;  ///< In the handler: the one above.
    /// The handler could not push everything: it had done enough, or the kernel refused. Relaxed
    /// everywhere: a hint, for whoever looks again and again.
    layer::atomic<bool> waits_for_next_signal_{false};
};

}  // namespace weft::detail
