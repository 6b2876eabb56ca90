// SPDX-License-Identifier: MIT
#include "lib/blocking/blocking_pool.hpp"

#include "lib/base/futex.hpp"
#include "lib/base/signal_mask.hpp"
#include "lib/blocking/stop_messenger.hpp"

#include <weft/detail/base/assert.hpp>

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace weft::detail {

namespace {

/// What a machine does, for the end of the pool.
enum class activity : std::uint32_t { waiting, runs_awaited, runs_detached, ended };

struct machine : machine_link<layer, blocking_job, machine> {
    std::thread thread;
    std::atomic<std::uint32_t> doing{static_cast<std::uint32_t>(activity::waiting)};

    void set(activity now) noexcept {
        // Release pairs with the acquire in settled(): what the machine did before is over.
        doing.store(static_cast<std::uint32_t>(now), std::memory_order_release);
    }
    activity get() const noexcept {
        return static_cast<activity>(doing.load(std::memory_order_acquire));
    }
};

}  // namespace

class blocking_pool::state : public std::enable_shared_from_this<state> {
public:
    state(std::size_t most_machines, std::size_t most_queued, std::chrono::nanoseconds idle_time,
          std::function<void()> begin_thread)
        : board(most_machines, most_queued),
          messenger(begin_thread, [this] { awaited_ended(); }),
          idle_time_(idle_time),
          begin_thread_(std::move(begin_thread)) {}

    bool start_machine(blocking_job* first) noexcept;
    void release() noexcept;

    void awaited_ended() noexcept {
        // The last touch on behalf of the call; this object is kept by the machine. seq_cst, with
        // the store and the load in close() and wait_for_awaited(): whoever ends last sees that
        // somebody waits, or is seen to have ended. Release in it: the branch was readied before.
        const std::uint32_t before = awaited.fetch_sub(1, std::memory_order_seq_cst);
        WEFT_ASSERT(before != 0);
        if (before == 1 && closing.load(std::memory_order_seq_cst)) { futex_wake(awaited); }
    }

    /// A job that nobody runs.
    void refuse(blocking_job& job, int error) noexcept {
        const bool is_awaited = job.kind() == job_kind::awaited;
        job.refuse(error);
        if (is_awaited) { awaited_ended(); }
    }

    void wake(machine& woken) noexcept {
        // Release: the job is under the lock of the board, so only the value matters; it pairs with
        // the exchange of the machine.
        woken.word.store(1, std::memory_order_release);
        futex_wake(woken.word);
    }

    job_board<layer, blocking_job, machine> board;
    /// Awaited jobs that were placed and have not ended, and stops that were posted.
    std::atomic<std::uint32_t> awaited{0};
    std::atomic<std::uint64_t> calls{0}, waited{0}, refused{0};
    std::atomic<bool> closing{false};
    stop_messenger messenger;

private:
    machine& free_place();
    void run(machine& self, blocking_job* job) noexcept;
    void end(machine& self) noexcept;
    void leave_or_wait_for(machine& ending) noexcept;
    blocking_job* sleep(machine& self, bool& ended) noexcept;
    void do_job(machine& self, blocking_job& job) noexcept;

    const std::chrono::nanoseconds idle_time_;
    const std::function<void()> begin_thread_;
    std::mutex places_;  ///< Of the two below, and of the thread of each machine.
    std::vector<std::unique_ptr<machine>> machines_;
    std::thread last_ended_;  ///< See end().
};

// ---------------------------------------------------------------------------------------------
// A machine.

// `job` is the one that it was made for, or null.
void blocking_pool::state::run(machine& self, blocking_job* job) noexcept {
    bool ended = false;
    if (job == nullptr) { job = board.take(self, ended); }
    while (!ended) {
        if (job == nullptr) {
            job = sleep(self, ended);
            continue;
        }
        do_job(self, *job);
        job = board.take(self, ended);
    }
    end(self);
}

// A thread that nobody joins keeps its stack. So each that ends leaves itself to the next one that
// does, and joins the one before: at most one is left, for release(). Who joins has nothing else to
// do, and waits for a thread that has only its exit before it, or such a wait; the chain is as old
// as its links, so there is no circle. The place is free from here on.
void blocking_pool::state::end(machine& self) noexcept {
    std::thread before;
    {
        const std::lock_guard held(places_);
        // Not one that release() has left behind: it may outlive those that wait for the others.
        if (self.thread.joinable()) {
            before = std::exchange(last_ended_, std::move(self.thread));
        }
        self.set(activity::ended);
    }
    futex_wake(self.doing);
    if (before.joinable()) { before.join(); }
}

blocking_job* blocking_pool::state::sleep(machine& self, bool& ended) noexcept {
    const monotonic_time deadline = after(monotonic_now(), idle_time_);
    for (;;) {
        futex_wait(self.word, 0, deadline);
        // Before the look at the board: a wake that comes later is seen by the next wait. Acquire
        // pairs with the release in wake().
        if (self.word.exchange(0, std::memory_order_acquire) != 0) {
            blocking_job* job = board.woken(self, ended);
            if (job != nullptr || ended) { return job; }
        } else if (monotonic_now() >= deadline) {
            blocking_job* job = board.give_up(self);
            ended = job == nullptr;
            return job;
        }
    }
}

void blocking_pool::state::do_job(machine& self, blocking_job& job) noexcept {
    const bool is_awaited = job.kind() == job_kind::awaited;
    self.set(is_awaited ? activity::runs_awaited : activity::runs_detached);
    // For release(), which leaves this thread behind then. Nobody sleeps on the word otherwise.
    if (!is_awaited) { futex_wake(self.doing); }
    job.run();
    self.set(activity::waiting);
    if (is_awaited) { awaited_ended(); }
}

// The place of a machine that has ended, or a new one. Under the lock of the places.
machine& blocking_pool::state::free_place() {
    for (auto& each : machines_) {
        if (each->get() == activity::ended) {
            each->set(activity::waiting);
            return *each;
        }
    }
    machines_.push_back(std::make_unique<machine>());
    return *machines_.back();
}

// False: the system refuses a thread.
bool blocking_pool::state::start_machine(blocking_job* first) noexcept {
    try {
        const std::lock_guard held(places_);
        machine& place = free_place();
        try {
            const block_signals blocked;
            place.thread = std::thread([self = shared_from_this(), &place, first] {
                ::prctl(PR_SET_NAME, "weft-blocking");
                self->begin_thread_();
                self->run(place, first);
            });
            return true;
        } catch (...) {
            place.set(activity::ended);
            throw;
        }
    } catch (const std::exception&) {
        return false;  // Out of threads or of memory.
    }
}

// No place is added any more. The lock is not held while we wait, since a machine takes it to end.
void blocking_pool::state::release() noexcept {
    messenger.end();
    for (auto& each : machines_) leave_or_wait_for(*each);
    std::thread last;
    {
        const std::lock_guard held(places_);
        last = std::move(last_ended_);
    }
    // It has joined the one before, and so on.
    if (last.joinable()) { last.join(); }
}

void blocking_pool::state::leave_or_wait_for(machine& ending) noexcept {
    for (;;) {
        const std::uint32_t doing = ending.doing.load(std::memory_order_acquire);
        if (static_cast<activity>(doing) == activity::ended) { return; }
        if (static_cast<activity>(doing) == activity::runs_detached) {
            const std::lock_guard held(places_);
            // It may have ended since we looked.
            if (ending.thread.joinable()) { ending.thread.detach(); }
            return;
        }
        // It is about to end, or to begin a detached call; both wake us.
        futex_wait(ending.doing, doing, no_deadline);
    }
}

// ---------------------------------------------------------------------------------------------
// The pool.

blocking_pool::blocking_pool(std::size_t most_machines, std::size_t most_queued,
                             std::chrono::nanoseconds idle_time,
                             std::function<void()> begin_thread)
    : state_(std::make_shared<state>(most_machines, most_queued, idle_time,
                                     std::move(begin_thread))) {}

blocking_pool::~blocking_pool() {
    close();
    release();
}

submission blocking_pool::submit(blocking_job& job, bool waits) noexcept {
    state& pool = *state_;
    // Relaxed: whoever waits for the count to fall has closed the board before.
    if (job.kind() == job_kind::awaited) { pool.awaited.fetch_add(1, std::memory_order_relaxed); }
    pool.calls.fetch_add(1, std::memory_order_relaxed);
    auto placed = pool.board.place(job, monotonic_now(), waits);
    // From here on a detached job may be gone, unless it was given back or has no machine yet.
    blocking_job* const first = placed.queued ? nullptr : &job;
    if (placed.start && !pool.start_machine(first)) {
        // The threads that there are share the calls.
        placed = pool.board.start_failed(first, monotonic_now(), waits);
        while (blocking_job* stranded = pool.board.next_stranded()) {
            pool.refuse(*stranded, EAGAIN);
        }
    }
    if (placed.wake != nullptr) { pool.wake(*placed.wake); }
    if (placed.refused) { pool.refuse(job, ECANCELED); }
    if (placed.alone) { return give_back_alone(job); }
    if (placed.full) { return give_back(job); }
    if (!placed.queued) { return submission::placed; }
    // Relaxed: a statistic.
    pool.waited.fetch_add(1, std::memory_order_relaxed);
    return submission::waits;
}

submission blocking_pool::give_back(blocking_job& job) noexcept {
    state_->refused.fetch_add(1, std::memory_order_relaxed);
    if (job.kind() == job_kind::awaited) { state_->refuse(job, EBUSY); }
    return submission::full;
}

submission blocking_pool::give_back_alone(blocking_job& job) noexcept {
    if (job.kind() == job_kind::awaited) { state_->refuse(job, EAGAIN); }
    return submission::no_thread;
}

bool blocking_pool::withdraw(blocking_job& job) noexcept {
    if (!state_->board.withdraw(job)) { return false; }
    state_->awaited_ended();
    return true;
}

bool blocking_pool::prepare_stops() noexcept {
    return state_->messenger.ensure();
}

void blocking_pool::request_stop(std::shared_ptr<stop_order> order) noexcept {
    // seq_cst: see stop_messenger.hpp.
    order->wanted.store(true, std::memory_order_seq_cst);
    if (!state_->messenger.exists()) { return; }
    // Relaxed: as in submit(); the call has not ended, or is let go by the canceller only later.
    state_->awaited.fetch_add(1, std::memory_order_relaxed);
    state_->messenger.post(std::move(order));
}

void blocking_pool::close() noexcept {
    // seq_cst pairs with awaited_ended(): the call that ends last sees it, or we see its count.
    state_->closing.store(true, std::memory_order_seq_cst);
    state_->board.close();
    while (machine* idle = state_->board.next_to_wake()) { state_->wake(*idle); }
    while (blocking_job* left = state_->board.next_left()) {
        state_->refuse(*left, ECANCELED);
    }
}

bool blocking_pool::wait_for_awaited(monotonic_time deadline) noexcept {
    for (;;) {
        const std::uint32_t left = state_->awaited.load(std::memory_order_seq_cst);
        if (left == 0) { return true; }
        if (monotonic_now() >= deadline) { return false; }
        futex_wait(state_->awaited, left, deadline);
    }
}

void blocking_pool::release() noexcept {
    state_->release();
}

std::uint64_t blocking_pool::calls() const noexcept {
    return state_->calls.load(std::memory_order_relaxed);
}
std::size_t blocking_pool::machines() const noexcept {
    return state_->board.machines();
}
std::size_t blocking_pool::queued() const noexcept {
    return state_->board.queued();
}

std::uint64_t blocking_pool::waited() const noexcept {
    return state_->waited.load(std::memory_order_relaxed);
}
std::uint64_t blocking_pool::refused() const noexcept {
    return state_->refused.load(std::memory_order_relaxed);
}
std::chrono::nanoseconds blocking_pool::longest_wait() const noexcept {
    const monotonic_time now = monotonic_now();
    // Placed since the clock was read, it has not waited at all.
    return std::chrono::nanoseconds(std::max(now - state_->board.oldest(now), monotonic_time{0}));
}

}  // namespace weft::detail
