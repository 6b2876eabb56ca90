// SPDX-License-Identifier: MIT
//
// What suspended and ending coroutines call: see include/weft/detail/sched/worker.hpp.
#include "lib/sched/fork_guard.hpp"
#include "lib/sched/runtime_core.hpp"
#include "lib/sched/worker_thread.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/detail/branch/operation.hpp>

namespace weft::detail {

// Slow path of take_budget().
[[gnu::hot]]
bool worker::needs_no_requeue() noexcept {
    auto& self = static_cast<worker_thread&>(*this);
    constexpr auto timer_changed = static_cast<std::uint32_t>(attention::timer_changed);
    constexpr auto slice_over = static_cast<std::uint32_t>(attention::slice_over);
    if (budget_ == 0) {
        return false;
    }
    const std::uint32_t seen = attention_.load(std::memory_order_relaxed);
    // The end of the slice is about what comes from runnext next, not about this branch.
    if ((seen & ~(timer_changed | slice_over)) != 0) {
        return false;
    }
    if ((seen & timer_changed) != 0) {
        // Only the sentinel has to know; the branch need not go through the queue for that. Another
        // reason that arrives meanwhile is found by the next await.
        attention_.fetch_and(~timer_changed, std::memory_order_relaxed);
        self.tell_sentinel();
    }
    --budget_;
    return true;
}

[[gnu::hot]]
void worker::requeue_running(branch& running) noexcept {
    auto& self = static_cast<worker_thread&>(*this);
    constexpr auto yield_wanted = static_cast<std::uint32_t>(attention::yield_wanted);
    running.reason = wait_reason::yield;
    if (forked()) [[unlikely]] {
        used_in_fork();
    }
    self.check_held_locks(running);
    if ((attention_.load(std::memory_order_relaxed) & yield_wanted) != 0) {
        // It has overrun its slice: behind everybody.
        attention_.fetch_and(~yield_wanted, std::memory_order_relaxed);
        running.status = branch_status::queued;
        runtime_->global.push_back(&running);
        runtime_->wake_if_needed();
        return;
    }
    self.ready_back(&running);
}

[[gnu::hot]]
std::coroutine_handle<> worker::requeue(branch& running, std::coroutine_handle<> next) noexcept {
    running.handle = next;
    running.restart = false;
    requeue_running(running);
    return std::noop_coroutine();
}

[[gnu::hot]]
void worker::requeue(branch& running, operation& next) noexcept {
    running.waiting_for = &next;
    running.restart = true;
    requeue_running(running);
}

[[gnu::hot]]
std::coroutine_handle<> worker::end_task(branch& running, std::coroutine_handle<> frame) noexcept {
    // The frame is suspended only when this has returned; the loop does the rest.
    running.handle = frame;
    static_cast<worker_thread*>(this)->finished_ = &running;
    static_cast<worker_thread*>(this)->check_held_locks(running, true);
    return std::noop_coroutine();
}

branch* worker::running() const noexcept {
    // Relaxed: it is its own store.
    return static_cast<const worker_thread&>(*this).running_.load(std::memory_order_relaxed);
}

std::uint32_t worker::random_below(std::uint32_t limit) noexcept {
    return static_cast<worker_thread&>(*this).random_.below(limit);
}

[[gnu::hot]]
bool worker::may_ask_later() const noexcept {
    return runtime_->idle.parked_hint() == 0 && runtime_->dog.is_awake();
}

[[gnu::hot]]
bool worker::gather_send(io_operation& sending, int fd, const void* data,
                         std::size_t size) noexcept {
    auto& self = static_cast<worker_thread&>(*this);
    // With a processor idle, this worker must not keep to itself what is to be sent.
    if (runtime_->idle.parked_hint() != 0 || !self.gathering_.admits(self.p.queue.size()) ||
        !io_->gather_send(sending, fd, data, size)) {
        return false;
    }
    // Nobody readies it before it is published as gathered.
    if (const branch* const sender = running()) {
        self.check_held_locks(*sender);
    }
    if (!self.gathering_.open()) {
        self.gathering_.begin(self.turns_, slice_tick(), monotonic_now());
    }
    return true;
}

void worker::timer_added() noexcept {
    const std::uint32_t holder = runtime_->sentinel.to_be_woken(timers_->earliest());
    // Vacant and nobody is parked: whoever parks next takes the role, and looks at every heap.
    if (holder == sentinel_role<layer>::none ||
        (holder == sentinel_role<layer>::vacant_role && !runtime_->idle.anybody_parked())) {
        return;
    }
    // Now is too early for a wake-up that costs twenty microseconds: the branch may be about to
    // suspend anyway. The loop, or the next transfer, tells the sentinel.
    set_attention(attention::timer_changed);
}

// ---------------------------------------------------------------------------------------------
// Parking and readying.

[[gnu::hot]]
bool prepare_park(branch& waiter, operation& next) noexcept {
    if (waiter.current->forked()) [[unlikely]] {
        used_in_fork();  // Before the object's lock, which another thread may have held.
    }
    WEFT_ASSERT(next.waiter_ == &waiter);
    waiter.waiting_for = &next;
    waiter.reason = next.reason_;
    waiter.restart = next.restarts_;
    if (!waiter.word.stop_requested()) [[likely]] {
        return true;
    }
    next.outcome_ = stop_outcome(waiter);
    return false;
}

[[gnu::hot]]
bool finish_inline(branch& waiter, operation& ready) noexcept {
    if (waiter.current->take_budget()) [[likely]] {
        ready.paid_ = true;
        return true;
    }
    waiter.current->requeue(waiter, ready);
    return false;
}

bool operation::pay_now(branch& waiter) noexcept {
    if (waiter.current->take_budget()) [[likely]] {
        return true;
    }
    waiter.current->requeue(waiter, waiter.handle);
    return false;
}

[[gnu::hot]]
bool park(branch& waiter, operation& published) noexcept {
    // It is published, but nobody resumes it before it is suspended, so its frame is still there.
    static_cast<worker_thread*>(waiter.current)->check_held_locks(waiter);
    waiter.status = branch_status::parked;
    switch (waiter.word.suspend()) {
        case suspend_outcome::suspended:
            return false;
        case suspend_outcome::completed:
            break;
        case suspend_outcome::stopped:
            if (published.unlink()) {
                published.outcome_ = stop_outcome(waiter);
                waiter.word.withdrawn();
            } else if (!waiter.word.let_go()) {
                return false;  // The completer holds it and readies the branch.
            }
            break;
    }
    waiter.status = branch_status::running;
    return true;
}

void resumed_by_hand() noexcept {
    fatal(
        "a coroutine was resumed by hand (std::coroutine_handle::resume) while its task was queued "
        "or parked; only weft resumes its tasks: wake them through what they await");
}

void awaited_twice() noexcept {
    fatal(
        "an operation was awaited a second time: an awaiter that is kept in a variable stands for "
        "one operation; call the function that gives it (read_some, sleep_for, ...) for each "
        "await");
}

void stop_scope(scope& stopped, bool late, branch_list& readied) noexcept {
    cancel_parked(stopped.stop(late), late, readied);
}

void cancel_parked(branch* parked, bool late, branch_list& readied) noexcept {
    while (parked != nullptr) {
        branch* cancelled = parked;
        parked = cancelled->next;  // Before let_go(), after which the branch may run.
        operation& op = *cancelled->waiting_for;
        // What a completer has taken has happened: a completion beats the stop that races it.
        if (op.unlink()) {
            op.cancel_with(late ? operation_outcome::late : operation_outcome::cancelled);
            cancelled->word.withdrawn();
            readied.push_back(cancelled);
        } else if (cancelled->word.let_go()) {
            readied.push_back(cancelled);
        }
    }
}

[[gnu::hot]]
void make_ready(branch* readied) noexcept {
    branch_list one;
    one.push_back(readied);
    make_ready(one);
}

[[gnu::hot]]
void make_ready(branch_list& readied) noexcept {
    if (readied.empty()) {
        return;
    }
    runtime_core& home = readied.front()->owner->runtime();
    if (home.phase() >= runtime_phase::destroying) {
        return;  // Everything is being destroyed.
    }
    if (worker_thread* here = current_worker_of(home)) {
        here->ready_batch(readied);
    } else {
        home.inject(readied);
    }
}

// The other runtime stands still for us until the word is completed: a frame that is destroyed
// waits for that (operation::unlink_if_parked). From then on only the gate keeps it.
[[gnu::hot]]
void complete_waiter(branch& waiter, branch_list& readied) noexcept {
    runtime_core& home = waiter.owner->runtime();
    if (current_worker_of(home) != nullptr) {
        if (waiter.word.complete()) {
            readied.push_back(&waiter);
        }
        return;
    }
    const gate_pass pass(home.gate, true);
    if (waiter.word.complete() && pass) {
        make_ready(&waiter);
    }
}

}  // namespace weft::detail
