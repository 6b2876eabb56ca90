// SPDX-License-Identifier: MIT
//
// The loop of a worker: which branch runs next, and what a worker does when there is none.
//
// A worker is a thread (Go's M) that owns one processor (Go's P) and one poller for its whole life.
// It may be asked to give the processor up for a while; then it sleeps in attend()
// (retirement.hpp). Order of search, fixed and tested literally:
//
//     every 61st tick   one branch from the global queue, so that it cannot starve; a batch in the
//                       next turn where the watchdog saw that it gives nothing to anybody
//     every 8th turn    own timers that are due; own poller, if its flags show work, but every 32nd
//                       turn or earlier while sends are gathered (send_gathering.hpp)
//     runnext           inherits the time slice: no tick. At most 64 in a row, and none when 5 ms
//                       have passed since the first; then what is in runnext goes behind the ring
//     own ring          a new slice: one tick
//     global queue      a batch
//     own timers        those that are due
//     own poller        without waiting; then, with other processors, all own waits that are
//                       unverified
//     steal             four passes over the others in random order: rings; in the last pass also
//                       due timers, and runnext if it stays there for about 3 us
//     park              see parking_loop.hpp; sleep in the ring or on a futex
//
// yield() goes behind the own ring, not behind the global queue as Go's Gosched does: it is what
// tasks do to be fair to their neighbours, and costs one locked operation there instead of a lock
// that all share. So beside a task that does nothing but yield, the global queue advances by one in
// 61 ticks, and by a batch in a few milliseconds where the ticks are long (watchdog.hpp). That is a
// bound, it holds only while no processor is idle (whoever puts something there wakes one), and
// branches that overran their slice do go behind the global queue.
//
// A tick is a time slice: what comes from runnext does not count. A turn is one trip through the
// loop. Go's phase is kept: the first branch runs in tick 1.
//
// What a worker readies (by a completion, a timer, the end of a task, a spawn) goes into its own
// runnext, and what was there goes behind the ring; of a batch the last one stays in runnext. When
// the ring is full, half of it and the kicked branch move to the global queue.
#pragma once

#include "lib/base/held_locks.hpp"
#include "lib/base/thread_usage.hpp"
#include "lib/sched/processor.hpp"
#include "lib/sched/send_gathering.hpp"
#include "lib/sched/task_slabs.hpp"

#include <weft/detail/base/random.hpp>
#include <weft/detail/sched/idle_protocol.hpp>
#include <weft/detail/sched/park_word.hpp>
#include <weft/detail/sched/retirement.hpp>
#include <weft/detail/sched/worker.hpp>

#include <atomic>
#include <cstdint>

namespace weft::detail {

class worker_thread final : public worker {
public:
    worker_thread(runtime_core& runtime, std::uint32_t index);
    ~worker_thread();

    /// On the thread of this worker: makes it the current worker, or none.
    void enter_thread() noexcept;
    void leave_thread() noexcept;

    /// Runs branches until the runtime stops.
    void run();

    /// On this worker: into runnext, and what was there behind the ring. Wakes if needed.
    void ready_next(branch* readied) noexcept;
    /// On this worker, as the last act of a branch: like ready_next(), but the loop may take the
    /// branch directly.
    void ready_last(branch* readied) noexcept;
    /// On this worker: behind the ring.
    void ready_back(branch* readied) noexcept;
    /// On this worker: a batch; the last one stays in runnext.
    void ready_batch(branch_list& readied) noexcept;

    /// Any thread: makes the worker return from its sleep.
    void wake() noexcept;

    /// Starter, before any other thread knows of this worker.
    void set_poller(poller& io) noexcept { io_ = own_poller_ = &io; }
    /// Tests, on this worker: another one stands in front of it for a while.
    void replace_poller(poller& io) noexcept { io_ = &io; }
    /// Any thread: the poller of this worker.
    poller& own_poller() const noexcept { return *own_poller_; }
    std::uint64_t take_id() noexcept;
    /// Control blocks, from a cache of this worker. acquire throws std::bad_alloc.
    task_control* acquire_control();
    void release_control(task_control* released) noexcept;

    /// On this worker: the branch is about to leave it, or has ended. Does a lock of threads that
    /// it has taken stay behind? Costs nothing where locks are not counted.
    void check_held_locks(const branch& leaving, bool ends = false) noexcept {
        if constexpr (counts_held_locks) {
            if (held_locks() != 0) [[unlikely]] { report_held_locks(leaving, ends); }
        }
    }

    /// Any thread: the thread of this worker. Relaxed: see enter_thread().
    thread_name thread() const noexcept { return thread_.load(std::memory_order_relaxed); }

    processor p;

    // What parking_loop.hpp asks of a worker; on its own thread, but for earliest_timer().

    using ready_list = branch_list;
    parked_link<worker_thread> parked;  ///< Guarded by the lock of idle_protocol.
    bool searching = false;
    bool attend() noexcept;
    branch* look();
    bool has_own_work() const noexcept { return p.queue.size() != 0; }
    monotonic_time earliest_timer() const noexcept { return p.timers.earliest(); }
    void sleep(monotonic_time deadline, bool is_sentinel, branch_list& brought);
    void ready(branch_list& brought) noexcept { ready_batch(brought); }
    void back_from_sleep(bool was_sentinel) noexcept;

    // What retirement.hpp asks of a worker.

    state_word<layer> state;
    void give_work_up() noexcept;
    void give_timers_up() noexcept;
    bool may_return() noexcept;
    bool may_settle() const noexcept;
    void sleep_retired() noexcept;
    /// For running_workers.hpp.
    void tell_of_request() noexcept { set_attention(attention::retire); }

private:
    friend class worker;
    friend class runtime_core;

    static constexpr std::uint32_t global_period = 61;
    static constexpr std::uint32_t poll_period = 8;
    static constexpr std::uint32_t next_chain_limit = 64;
    static constexpr monotonic_time slice_length = 5'000'000;
    static constexpr std::size_t timer_batch = 64;
    static constexpr int steal_passes = 4;
    static constexpr std::size_t repeats_at_once = 64;  ///< Some 100 us on sockets.

    branch* next();
    branch* take_next();
    branch* take_readied();
    bool slice_over() noexcept;
    void inherit_slice() noexcept;
    bool slice_is_young(std::uint32_t link) const noexcept;
    std::size_t turn_of_global() noexcept;
    branch* begin_slice(branch* taken) noexcept;
    branch* take_global(std::size_t limit) noexcept;
    branch* steal();
    branch* steal_next_of(processor& victim) noexcept;
    bool run_timers_of(processor& of, std::size_t limit = timer_batch) noexcept;
    void fire_due(processor& of, std::size_t limit, branch_list& readied) noexcept;
    bool poll_io() noexcept;
    void repeat_operations(branch_list& readied) noexcept;
    void verify_waits(bool all) noexcept;
    void end_gathered_sends() noexcept;
    bool begin(branch& running) noexcept;
    void execute(branch* running) noexcept;
    void report_held_locks(const branch& leaving, bool ends) noexcept;
    void finish_branch() noexcept;
    void finish_task(task_control& ended) noexcept;

    bool serve_attention() noexcept;
    void tell_sentinel() noexcept;

    std::uint32_t ticks_ = 1;         ///< As in Go, the first branch runs in tick 1.
    bool global_waits_ = false;       ///< The global queue is to be looked at for more than one.
    std::uint32_t turns_ = 0;
    std::uint32_t next_chain_ = 0;    ///< runnext pops since the slice began.
    monotonic_time slice_tick_ = 0;   ///< When the slice was handed on first; see slice_over().
    bool slice_aged_ = false;         ///< A tick has passed since.
    bool timers_untold_ = false;        ///< The sentinel may not know the earliest own timer.
    branch* direct_ = nullptr;          ///< Runs next, without a trip through runnext.
    branch* finished_ = nullptr;        ///< Whose first frame just ended, for the loop.
    /// What runs, child or not. Atomic, since a signal handler asks for it. Set and cleared beside
    /// the mark, which names the task.
    std::atomic<branch*> running_{nullptr};
    std::uint64_t next_id_ = 0;
    std::uint64_t id_block_end_ = 0;
    task_slabs::batch free_controls_;
    send_gathering gathering_;
    poller* own_poller_ = nullptr;
    random_source random_;
    park_word<layer> park_word_;
    std::atomic<thread_name> thread_{thread_name{}};
};

/// The worker that the calling thread is, if it is one of this runtime; else null. As
/// current_worker(), it is not inlined.
worker_thread* current_worker_of(const runtime_core& runtime) noexcept;

}  // namespace weft::detail
