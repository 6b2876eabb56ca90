// SPDX-License-Identifier: MIT
//
// The board of the blocking pool: which job waits, which machine is idle, and whether one more
// machine is to be made. A machine (Go's M without a P) is a thread that runs one job after
// another.
//
// States of a machine, all under the lock of the board:
//
//     busy       runs a job, or is about to ask for one
//     idle       lies in the idle list and sleeps on its word
//     assigned   was taken off the idle list together with a job; it is being woken
//     ended      gave itself up after a long idle time, or because the board closed; its place may
//                be used for another machine
//
// States of a job:
//
//     starting   no machine was idle, and none is waited for; the placer makes one more, which
//                begins with the job
//     queued     no more machines are allowed, or the system refuses one; first in, first out
//     returned   it would have been queued, and the queue is full or whoever placed it does not
//                wait; it is the placer's again
//     taken      a machine runs it, or is assigned to run it; it cannot be taken back
//     withdrawn  a canceller took it off the queue; it will not run
//
// A job is never lost. Placing a job and going idle happen under the same lock: a machine goes idle
// only if it sees an empty queue under it, and a job is queued only if no machine is idle then. So
// never is a job queued while a machine is idle. Nor is one queued while no machine exists or is
// being made: whoever fails to make the last one takes everything off the queue. An idle machine
// leaves the list in one of two ways, and each is a step under the lock as well: whoever places a
// job assigns it, or the machine itself gives up after its time is over. One that gives up and
// finds that it was assigned has the job.
//
// The wake is outside the lock and may come late: the machine may have found its job by its own
// clock, run it, and be idle again. Such a wake is false: the machine looks under the lock, finds
// nothing, and sleeps again. The word is cleared before that look, so a wake that is not false is
// never cleared unseen. Places of machines are type-stable as long as the pool, so a late wake
// never touches freed memory.
//
// While the system refuses machines, jobs are queued although more are allowed. Then each job that
// is placed goes behind them, and the machine that is tried for it begins with the first one, so
// the order is kept; and a job whose placer does not wait is returned, since it would have to.
//
// The last in goes out first: the machine that has been idle for the shortest time gets the job, so
// that the others grow old, and a burst shrinks back.
//
// Rejected: a condition variable for all (wakes in any order, so that no machine grows old); a
// queue without a lock (the lock is held for a few instructions, beside a call that blocks); a wake
// under the lock (a system call under a spin lock); queueing every job and letting a new machine
// take the first one (which jobs have a machine coming is then a matter of counts, and a machine
// that cannot be made leaves somebody else's job without).
#pragma once

#include <weft/detail/base/spin_lock.hpp>

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace weft::detail {

/// What the board keeps in each job.
template <class Layer, class Job>
class job_link {
private:
    template <class, class, class>
    friend class job_board;

    typename Layer::template var<std::int64_t> since_{0};  ///< When it was placed.
    typename Layer::template var<Job*> next_{nullptr};
    typename Layer::template var<Job*> previous_{nullptr};
    typename Layer::template var<bool> queued_{false};
};

/// What the board keeps in each machine.
template <class Layer, class Job, class Machine>
class machine_link {
public:
    /// 1: woken. The machine sleeps on this word while it is 0.
    typename Layer::template atomic<std::uint32_t> word{0};

private:
    template <class, class, class>
    friend class job_board;

    typename Layer::template var<Machine*> above_{nullptr};
    typename Layer::template var<Machine*> below_{nullptr};
    typename Layer::template var<Job*> assigned_{nullptr};
    typename Layer::template var<bool> idle_{false};
};

/// See the head of this file. Job derives from job_link, Machine from machine_link.
template <class Layer, class Job, class Machine>
class job_board {
public:
    job_board(std::size_t most_machines, std::size_t most_queued) noexcept
        : most_machines_(most_machines), most_queued_(most_queued) {}
    job_board(const job_board&) = delete;
    job_board& operator=(const job_board&) = delete;

    /// What the caller of place() or start_failed() is to do.
    struct placement {
        Machine* wake = nullptr;  ///< This machine has the job: set its word and wake it.
        bool start = false;       ///< Make one more machine; it is counted already.
        bool queued = false;      ///< The job waits. A machine to be made begins with the queue
                                  ///< then, and with the job otherwise.
        bool refused = false;     ///< The board is closed; the job is the caller's.
        bool full = false;        ///< It would have to wait; the job is the caller's.
        bool alone = false;       ///< No machine is left to run it; the job is the caller's.
    };

    /// Any thread, at the time `now`: gives the job to an idle machine, or to one that is to be
    /// made, or queues it. With `waits` false it is not queued.
    placement place(Job& job, std::int64_t now, bool waits) noexcept {
        const std::lock_guard held(lock_);
        if (closed_) { return {.refused = true}; }
        if (Machine* idle = top_) { return assign(*idle, job); }
        const bool may_start = machines_ != most_machines_;
        if (may_start && queued_count_ == 0) {
            machines_ = machines_ + 1;
            return {.start = true};
        }
        placement placed = enqueue(job, now, waits);
        if (placed.queued && may_start) {
            machines_ = machines_ + 1;
            placed.start = true;
        }
        return placed;
    }

    /// Whoever was told to make a machine could not. `job` is the one that it was to begin with;
    /// null if it was queued. What is left on the queue may have to go: see next_stranded().
    placement start_failed(Job* job, std::int64_t now, bool waits) noexcept {
        const std::lock_guard held(lock_);
        machines_ = machines_ - 1;
        if (job == nullptr) { return {.queued = true}; }
        if (closed_) { return {.refused = true}; }
        if (Machine* idle = top_) { return assign(*idle, *job); }
        if (machines_ == 0) { return {.alone = true}; }
        return enqueue(*job, now, waits);
    }

    /// After start_failed(): a job that no machine is left for, and that is the caller's now; null
    /// if there is none (call again until then).
    Job* next_stranded() noexcept {
        const std::lock_guard held(lock_);
        return machines_ == 0 ? pop_front() : nullptr;
    }

    /// A machine that is not idle asks for work. Null: it is idle now, and sleeps on its word; or,
    /// if `ended` is set, the board is closed and the machine is to end.
    Job* take(Machine& machine, bool& ended) noexcept {
        const std::lock_guard held(lock_);
        if (Job* job = pop_front()) { return job; }
        ended = closed_;
        if (closed_) {
            machines_ = machines_ - 1;
        } else {
            push_idle(machine);
        }
        return nullptr;
    }

    /// An idle machine was woken, after it has cleared its word. Null: a false wake; or, if `ended`
    /// is set, the board is closed and the machine is to end.
    Job* woken(Machine& machine, bool& ended) noexcept {
        const std::lock_guard held(lock_);
        return leave_if(machine, closed_, ended);
    }

    /// An idle machine has been idle for long. The job it was assigned meanwhile, or null: it is to
    /// end.
    Job* give_up(Machine& machine) noexcept {
        const std::lock_guard held(lock_);
        bool ended = false;
        return leave_if(machine, true, ended);
    }

    /// A canceller: takes the job back. False: a machine has it.
    bool withdraw(Job& job) noexcept {
        const std::lock_guard held(lock_);
        if (!job.queued_) { return false; }
        remove_queued(job);
        return true;
    }

    /// No job is placed any more, and machines end when they find nothing to do.
    void close() noexcept {
        const std::lock_guard held(lock_);
        closed_ = true;
    }

    /// After close(): a machine that is to be woken, so that it ends; null when none is idle. Each
    /// is named once.
    Machine* next_to_wake() noexcept {
        const std::lock_guard held(lock_);
        Machine* idle = top_;
        if (idle != nullptr) { remove_idle(*idle); }
        return idle;
    }

    /// After close(): a job that nobody will run; null when none is left.
    Job* next_left() noexcept {
        const std::lock_guard held(lock_);
        return pop_front();
    }

    /// When the first queued job was placed; `now` if none is queued.
    std::int64_t oldest(std::int64_t now) noexcept {
        const std::lock_guard held(lock_);
        Job* first = first_;
        return first != nullptr ? static_cast<std::int64_t>(first->since_) : now;
    }

    /// How many machines exist or are being made, and how many jobs are queued.
    std::size_t machines() noexcept {
        const std::lock_guard held(lock_);
        return machines_;
    }
    std::size_t queued() noexcept {
        const std::lock_guard held(lock_);
        return queued_count_;
    }

private:
    placement assign(Machine& idle, Job& job) noexcept {
        remove_idle(idle);
        idle.assigned_ = &job;
        return {.wake = &idle};
    }

    placement enqueue(Job& job, std::int64_t now, bool waits) noexcept {
        if (!waits || queued_count_ >= most_queued_) { return {.full = true}; }
        job.since_ = now;
        push_back(job);
        return {.queued = true};
    }

    Job* leave_if(Machine& machine, bool leaves, bool& ended) noexcept {
        Job* job = machine.assigned_;
        machine.assigned_ = nullptr;
        if (job != nullptr || !leaves) { return job; }
        if (machine.idle_) { remove_idle(machine); }
        machines_ = machines_ - 1;
        ended = true;
        return nullptr;
    }

    void push_idle(Machine& machine) noexcept {
        machine.idle_ = true;
        machine.above_ = nullptr;
        machine.below_ = static_cast<Machine*>(top_);
        if (top_ != nullptr) { static_cast<Machine*>(top_)->above_ = &machine; }
        top_ = &machine;
    }

    void remove_idle(Machine& machine) noexcept {
        Machine* above = machine.above_;
        Machine* below = machine.below_;
        if (above != nullptr) {
            above->below_ = below;
        } else {
            top_ = below;
        }
        if (below != nullptr) { below->above_ = above; }
        machine.idle_ = false;
    }

    void push_back(Job& job) noexcept {
        job.queued_ = true;
        job.next_ = nullptr;
        job.previous_ = static_cast<Job*>(last_);
        if (last_ != nullptr) {
            static_cast<Job*>(last_)->next_ = &job;
        } else {
            first_ = &job;
        }
        last_ = &job;
        queued_count_ = queued_count_ + 1;
    }

    void remove_queued(Job& job) noexcept {
        Job* next = job.next_;
        Job* previous = job.previous_;
        if (previous != nullptr) {
            previous->next_ = next;
        } else {
            first_ = next;
        }
        if (next != nullptr) {
            next->previous_ = previous;
        } else {
            last_ = previous;
        }
        job.queued_ = false;
        queued_count_ = queued_count_ - 1;
    }

    Job* pop_front() noexcept {
        Job* job = first_;
        if (job != nullptr) { remove_queued(*job); }
        return job;
    }

    template <class T>
    using var = typename Layer::template var<T>;

    const std::size_t most_machines_;
    const std::size_t most_queued_;
    spin_lock<Layer> lock_;
    var<Machine*> top_{nullptr};  ///< The machine that went idle last.
    var<Job*> first_{nullptr};
    var<Job*> last_{nullptr};
    var<std::size_t> machines_{0};
    var<std::size_t> queued_count_{0};
    var<bool> closed_{false};
};

}  // namespace weft::detail
