// SPDX-License-Identifier: MIT
//
// The blocking pool: spare machines (threads without a processor) that run calls which block.
//
// A worker never makes such a call itself. Its ring belongs to its thread, so it cannot hand the
// processor over when it blocks, as Go does; it hands the call over instead, parks the branch, and
// goes on at once. So more threads than processors exist only while calls block.
//
// Who runs what, and that no job is lost, is decided by the board (job_board.hpp). The pool adds
// the threads: it makes one when a job is placed, none is idle and the limit is not reached, and a
// thread that was idle for some time ends, and is joined by the next one that does, so that the
// stack of at most one thread is kept that has ended. Where the system refuses a thread, the job
// waits for one that exists, if it may.
//
// The end of a runtime has three steps. close(): nothing is placed any more, what is queued is
// refused, idle machines end. wait_for_awaited(): calls that a frame waits for cannot be abandoned,
// since they may hold references into the frame. release(): machines that have ended, or are about
// to, are joined; one that runs a detached call is left behind. It keeps what it needs of the pool,
// and ends when its call returns.
//
// Rejected: threads that are made ahead of time (idle programs would have them); a fixed number of
// threads (as many calls as there are threads would stop all others, a database with a slow disk
// for instance); handing the calling thread's processor over (see above).
//
// Saturation. When all machines that may or can exist are busy, calls queue, up to a limit. The
// pool counts them and tells how long the first one has waited; the runtime looks once a second
// while any is queued, and reports (runtime_core). A call that does not want to wait (try_blocking)
// is given back then, and so is every call once the queue is full.
#pragma once

#include <weft/detail/base/clock.hpp>
#include <weft/detail/blocking/blocking_job.hpp>
#include <weft/detail/blocking/stop_order.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace weft::detail {

enum class submission : std::uint8_t {
    placed,
    waits,      ///< It may have to wait until another call ends.
    full,       ///< All machines are busy, and it does not wait, or too many do.
    no_thread,  ///< There is no machine, and the system refuses one.
};

class blocking_pool {
public:
    /// `begin_thread` is called first on the thread of each machine.
    blocking_pool(std::size_t most_machines, std::size_t most_queued,
                  std::chrono::nanoseconds idle_time, std::function<void()> begin_thread);
    ~blocking_pool();
    blocking_pool(const blocking_pool&) = delete;
    blocking_pool& operator=(const blocking_pool&) = delete;

    /// A worker of the runtime. The job may be gone when it returns; a detached one is the caller's
    /// again if the pool is full or without a thread, while an awaited one is refused then, with
    /// EBUSY or EAGAIN. `waits` false, for an awaited one: it is refused instead of waiting until
    /// another call ends. Jobs of others may be refused with EAGAIN meanwhile: those that waited
    /// for a machine which could not be made.
    submission submit(blocking_job& job, bool waits = true) noexcept;

    /// A canceller: takes an awaited job back that no machine has. False: it runs, or has run.
    bool withdraw(blocking_job& job) noexcept;

    /// A machine, before it makes a call that listens to a token: can the call be stopped? False:
    /// the system refuses the thread for that.
    bool prepare_stops() noexcept;

    /// A canceller, of a call that listens and was not withdrawn: it is told soon, on a thread of
    /// its own (stop_messenger.hpp).
    void request_stop(std::shared_ptr<stop_order> order) noexcept;

    /// See the head of this file. False: an awaited call, or a callback on its token, still runs at
    /// the deadline.
    void close() noexcept;
    bool wait_for_awaited(monotonic_time deadline) noexcept;
    void release() noexcept;

    /// Calls that were placed, machines that exist, and calls that wait for a machine.
    std::uint64_t calls() const noexcept;
    std::size_t machines() const noexcept;
    std::size_t queued() const noexcept;
    /// Calls that had to wait for a machine, and calls that were refused since they would have had
    /// to.
    std::uint64_t waited() const noexcept;
    std::uint64_t refused() const noexcept;
    /// How long the first queued call has waited; zero if none is queued.
    std::chrono::nanoseconds longest_wait() const noexcept;

private:
    class state;
    submission give_back(blocking_job& job) noexcept;
    submission give_back_alone(blocking_job& job) noexcept;

    // Shared with the machines, since one that runs a detached call may outlive the pool.
    std::shared_ptr<state> state_;
};

}  // namespace weft::detail
