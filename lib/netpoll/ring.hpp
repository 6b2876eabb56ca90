// SPDX-License-Identifier: MIT
//
// One io_uring: its memory, its entries, and the one system call per turn.
//
// States and who may touch what:
//
//     state      entered by                               touched by
//     empty      construction, tear_down()                anybody alone
//     disabled   set_up(), by the thread that starts      anybody alone
//     enabled    enable(), by the owner                   the owner, which from then on is the only
//                                                         thread that the kernel lets enter
//     retired    give_back_thread(), by the owner         anybody alone
//
// The ring runs with DEFER_TASKRUN: the kernel posts completions only while the owner is inside
// io_uring_enter, at most 20 items of deferred work for each call. Whoever looks at the completion
// queue alone starves its sockets; needs_enter() looks at the flags that the kernel keeps in shared
// memory, and a turn enters again while they say so, in bounded slices.
//
// An entry is complete in memory before the tail moves over it (release), and the tail moves for
// each entry. So at every instant, also inside a signal handler that interrupts push(), what lies
// between head and tail may be submitted. Submit counts are therefore hints: how much is left is
// read from the head that the kernel moves, never counted here.
//
// Rejected: the functions of liburing that make and end a ring, since they call the kernel past the
// table of system calls; its entry functions, since they publish many entries at once; SQPOLL,
// which burns a processor for each ring.
#pragma once

#include "lib/netpoll/ring_mapping.hpp"

#include <weft/detail/base/clock.hpp>
#include <weft/detail/netpoll/netpoller.hpp>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include <liburing.h>

// Constants that are newer than the oldest supported liburing. Whether the kernel knows them is
// found out when a ring starts.
#ifndef IORING_ENTER_ABS_TIMER
#define IORING_ENTER_ABS_TIMER (1U << 5)
#endif
#ifndef IORING_ENTER_NO_IOWAIT
#define IORING_ENTER_NO_IOWAIT (1U << 7)
#endif
#ifndef IORING_FEAT_NO_IOWAIT
#define IORING_FEAT_NO_IOWAIT (1U << 17)
#endif

namespace weft::detail {

/// What the kernel says about one entry.
struct ring_completion {
    std::uint64_t user_data = 0;
    int result = 0;
    unsigned flags = 0;
};

class io_ring {
public:
    /// Entries of the submission queue: what is asked for first, and the least that is accepted
    /// where memory is short. The completion queue has four times as many.
    static constexpr unsigned largest = 256;
    static constexpr unsigned smallest = 64;
    /// A completion taken from the ring whose user_data is this one is the start-up check's own.
    static constexpr std::uint64_t no_op_token = ~std::uint64_t{0};

    io_ring() noexcept = default;
    io_ring(const io_ring&) = delete;
    io_ring& operator=(const io_ring&) = delete;
    ~io_ring() { tear_down(); }

    /// Makes the ring, disabled, and checks that the kernel has the operations that weft needs.
    start_result set_up(unsigned entries) noexcept;

    /// The owner, once: enables the ring, finds out what the kernel can do, and sends one no-op
    /// there and back. From now on only this thread may use the ring.
    start_result enable() noexcept;

    /// The owner, last of all: takes back what was registered for its thread.
    void give_back_thread() noexcept;

    void tear_down() noexcept;

    /// Room for how many entries?
    unsigned space() const noexcept { return entries_ - unsubmitted(); }

    /// Adds an entry; there is space for it.
    void push(const io_uring_sqe& entry) noexcept;

    /// The position of the entry that is pushed next.
    unsigned next_position() const noexcept {
        return std::atomic_ref(*submission_tail_).load(std::memory_order_relaxed);  // It is ours.
    }

    /// Has the kernel taken the entry of this position? Acquire: as in unsubmitted().
    bool submitted(unsigned position) const noexcept {
        const unsigned head = std::atomic_ref(*submission_head_).load(std::memory_order_acquire);
        return static_cast<int>(head - position) > 0;
    }

    /// Entries that the kernel has not taken yet.
    unsigned unsubmitted() const noexcept {
        // The tail is ours. Acquire pairs with the kernel's release of the head: it has read the
        // entries below, so that their slots may be written again.
        const unsigned tail = std::atomic_ref(*submission_tail_).load(std::memory_order_relaxed);
        return tail - std::atomic_ref(*submission_head_).load(std::memory_order_acquire);
    }

    /// Deferred work or overflown completions wait for the owner to enter. Relaxed: a hint that is
    /// looked at again and again; the call that follows orders everything.
    bool needs_enter() const noexcept {
        return (std::atomic_ref(*submission_flags_).load(std::memory_order_relaxed) &
                (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
    }

    bool has_completions() const noexcept {
        return std::atomic_ref(*completion_tail_).load(std::memory_order_acquire) !=
               std::atomic_ref(*completion_head_).load(std::memory_order_relaxed);
    }

    /// Submits what is there and runs deferred work, without waiting. 0 or an errno.
    int enter() noexcept;

    /// Does that, or the errno of any other enter, tell that the kernel has let it in?
    static constexpr bool admits(int error) noexcept {
        // The deadline of a wait has passed, or a signal has come; what was submitted is submitted.
        return error == 0 || error == ETIME || error == EINTR;
    }

    /// Hands over entries only, as a full queue needs it. 0 or an errno.
    int submit() noexcept;

    /// The owner's thread, in a signal handler at any point: hands over what is in the queue and
    /// runs deferred work until none is left, within a bound. Takes no completion. If it is told
    /// that completions were dropped, which the kernel says once, it keeps that for take_loss() and
    /// rings the bell, since the owner may be about to sleep. Returns whether the kernel let it
    /// enter at least once.
    bool enter_for_others() noexcept;
    /// Before the ring is enabled: the eventfd that ends the owner's sleep.
    void set_bell(int eventfd) noexcept { bell_ = eventfd; }
    /// The owner: was a handler told of a loss since the last time?
    bool take_loss() noexcept {
        // Relaxed, both: the handler ran on this thread. An exchange, which it cannot interrupt.
        return lost_.load(std::memory_order_relaxed) &&
               lost_.exchange(false, std::memory_order_relaxed);
    }

    /// As enter(), but waits for one completion until `deadline`. ETIME tells that it passed.
    int wait(monotonic_time deadline) noexcept;

    /// Takes one completion. False: there is none.
    bool next_completion(ring_completion& taken) noexcept;

    bool enabled() const noexcept { return enabled_; }
    int fd() const noexcept { return fd_; }
    unsigned entries() const noexcept { return entries_; }
    bool has_absolute_timer() const noexcept { return absolute_timer_; }
    bool has_registered_fd() const noexcept {
        return (enter_flags_ & IORING_ENTER_REGISTERED_RING) != 0;
    }

private:
    start_result map(const io_uring_params& parameters) noexcept;
    start_result check_operations() noexcept;
    start_result no_op_round_trip() noexcept;
    void register_for_thread() noexcept;
    void detect_absolute_timer() noexcept;
    int call_enter(unsigned to_submit, unsigned wanted, unsigned flags,
                   const io_uring_getevents_arg* argument) noexcept;

    ring_mapping queues_;        ///< Heads, tails, flags, the index array and the completions.
    ring_mapping entry_memory_;  ///< The entries.
    // What lies there. The kernel writes the head of the submission queue, its flags and the tail
    // of the completion queue, and reads the others.
    unsigned* submission_head_ = nullptr;
    unsigned* submission_tail_ = nullptr;
    unsigned* submission_flags_ = nullptr;
    io_uring_sqe* submission_entries_ = nullptr;
    unsigned* completion_head_ = nullptr;
    unsigned* completion_tail_ = nullptr;
    io_uring_cqe* completions_ = nullptr;
    int fd_ = -1;
    unsigned entries_ = 0;
    unsigned completion_mask_ = 0;
    unsigned features_ = 0;
    /// What goes into each io_uring_enter: the descriptor, or its index registered for the thread.
    int enter_fd_ = -1;
    unsigned enter_flags_ = 0;
    /// Flags of the calls that wait.
    unsigned wait_flags_ = 0;
    bool enabled_ = false;
    bool absolute_timer_ = false;
    std::atomic<bool> lost_{false};  ///< Set by the handler; see take_loss().
    int bell_ = -1;
};

}  // namespace weft::detail
