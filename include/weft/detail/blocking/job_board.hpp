// SPDX-License-Identifier: MIT
//
// The board of the blocking pool: which job waits, which machine is idle, and whether one more
// machine is to be made. A machine (Go's M without a P) is a thread that runs one job after another.
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
//     queued     no machine was idle; one more is being made, or can't be; first in, first out
//     returned   it would have been queued behind what all machines run, and the queue is full or
//                whoever placed it does not wait; it is the placer's again
//     taken      a machine runs it, or is assigned to run it; it cannot be taken back
//     withdrawn  a canceller took it off the queue; it will not run
//
// A job is never lost. Placing a job and going idle happen under the same lock: a machine goes idle
// only if it sees an empty queue under it, and a job is queued only if no machine is idle then. So
// never is a job queued while a machine is idle. An idle machine leaves the list in one of two ways,
// and each is a step under the lock as well: whoever places a job assigns it, or the machine itself
// gives up after its time is over. One that gives up and finds that it was assigned has the job.
//
// The wake is outside the lock and may come late: the machine may have found its job by its own
// clock, run it, and be idle again. Such a wake is false: the machine looks under the lock, finds
// nothing, and sleeps again. The word is cleared before that look, so a wake that is not false is
// never cleared unseen. Places of machines are type-stable as long as the pool, so a late wake
// never touches freed memory.
//
// The last in goes out first: the machine that has been idle for the shortest time gets the job, so
// that the others grow old, and a burst shrinks back.
//
// Rejected: a condition variable for all (wakes in any order, so that no machine grows old); a
// queue without a lock (the lock is held for a few instructions, beside a call that blocks); a wake
// under the lock (a system call under a spin lock).
#pragma once

#include <weft/detail/base/spin_lock.hpp>

#include <cstddef>
#include <cstdint>
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

    /// What the caller of place() is to do.
    struct placement {
        Machine* wake = nullptr;  ///< This machine has the job: set its word and wake it.
        bool start = false;       ///< Make one more machine; it is counted already.
        bool refused = false;     ///< The board is closed; the job is the caller's.
        bool full = false;        ///< It would have to wait; the job is the caller's.
        bool waits = false;       ///< It is queued, and no machine is being made for it.
    };

    /// Any thread, at the time `now`: gives the job to an idle machine, or queues it. With `waits`
    /// false it is queued only for a machine that is being made.
    placement place(Job& job, std::int64_t now, bool waits) noexcept {
        const std::lock_guard held(lock_);
        if (closed_) { return {.refused = true}; }
        if (Machine* idle = top_) {
            remove_idle(*idle);
            idle->assigned_ = &job;
            return {.wake = idle};
        }
        const bool saturated = machines_ == most_machines_;
        if (saturated && (!waits || queued_count_ >= most_queued_)) { return {.full = true}; }
        job.since_ = now;
        push_back(job);
        if (saturated) { return {.waits = true}; }
        machines_ = machines_ + 1;
        return {.start = true};
    }

    /// Whoever was told to make a machine could not. The first queued job if no machine is left to
    /// run it (call again until null), else null.
    Job* start_failed(bool counted) noexcept {
        const std::lock_guard held(lock_);
        if (counted) { machines_ = machines_ - 1; }
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

    /// How many machines exist, and how many jobs are queued.
    std::size_t machines() noexcept {
        const std::lock_guard held(lock_);
        return machines_;
    }
    std::size_t queued() noexcept {
        const std::lock_guard held(lock_);
        return queued_count_;
    }

private:
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
