// SPDX-License-Identifier: MIT
#include "lib/sched/end_watch.hpp"
#include "lib/sched/runtime_core.hpp"
#include "lib/sched/runtime_registry.hpp"
#include "lib/sched/worker_thread.hpp"

#include <weft/detail/branch/child_branch.hpp>
#include <weft/detail/sched/promise.hpp>
#include <weft/detail/sched/task_life.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include <fcntl.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

// How a runtime ends: tasks get a grace period, are stopped, and what is left of them is destroyed
// when no worker runs any more.

namespace weft::detail {

namespace {

/// Longer waits have no end: added to a time they would overflow.
constexpr std::chrono::hours longest_wait{24 * 365};

/// For the last line of a process, on a stream that may be blocked: waits so long for it. Where it
/// does not take the line by then, it would not take either what std::terminate writes there by
/// default, and so keep the process for ever; then nobody gets that.
void write_last_line(std::string_view line, std::chrono::milliseconds patience) noexcept {
    pollfd stream{STDERR_FILENO, POLLOUT, 0};
    int ready = 0;
    // A slice that a signal ends counts as one that is over.
    for (int slices = 10; slices != 0 && ready != 1; --slices) {
        ready = ::poll(&stream, 1, static_cast<int>(patience.count() / 10));
    }
    if (ready == 1 && (stream.revents & POLLOUT) != 0) {
        char end = '\n';
        const iovec parts[] = {{const_cast<char*>(line.data()), line.size()}, {&end, 1}};
        [[maybe_unused]] const auto written = ::writev(STDERR_FILENO, parts, 2);
        return;
    }
    // Of this process alone: what the stream is for others stays as it is.
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) { ::dup2(nowhere, STDERR_FILENO); }
}

/// Destroys the children of a task where they wait, those of a child before itself, since they may
/// lie in its frames. Without recursion: children have children a million deep.
void destroy_children(task_control& of) noexcept {
    branch_list all;
    of.root_scope.for_each_branch([&all](branch& each) {
        if (each.is_child) { all.push_back(&each); }
    });
    for (branch* each = all.front(); each != nullptr; each = each->next) {
        branch* const parent = static_cast<child_branch*>(each)->parent();
        if (parent->is_child) { ++static_cast<child_branch*>(parent)->children_left; }
    }
    branch_list childless;
    while (branch* each = all.pop_front()) {
        if (static_cast<child_branch*>(each)->children_left == 0) { childless.push_back(each); }
    }
    while (branch* each = childless.pop_front()) {
        auto& destroyed = static_cast<child_branch&>(*each);
        branch* const parent = destroyed.parent();
        destroyed.destroy_where_it_waits();
        destroyed.discard();
        if (parent->is_child && --static_cast<child_branch*>(parent)->children_left == 0) {
            childless.push_back(parent);
        }
    }
}

/// What a wait for workers counts at once; see await_workers().
constexpr std::chrono::nanoseconds wait_slice = std::chrono::milliseconds(200);

}  // namespace

void runtime_core::serve_worker_zero() {
    worker_thread& self = workers_[0];
    self.enter_thread();
    self.run();
    wait_until_all_stopped();
    dog.stop();
    reports.stop();
    shared_guards->detach();
    dismiss_waiting_threads();
    await_blocking_calls();
    enter_phase(runtime_phase::destroying);
    destroy_suspended();
    // Before anybody learns of the end, who may then make another runtime, or end the process.
    end_life(*this);
    enter_phase(runtime_phase::ended);
    self.io_->shut_down();
    self.leave_thread();
}

void runtime_core::serve_other_worker(worker_thread& self) {
    self.enter_thread();
    self.run();
    wait_until_all_stopped();
    {
        std::unique_lock held(mutex_);
        changed_.wait(held, [this] { return phase() == runtime_phase::ended; });
    }
    self.io_->shut_down();
    self.leave_thread();
}

void runtime_core::begin_drain() noexcept {
    runtime_phase expected = runtime_phase::running;
    // Acquire and release: whoever reads the phase after this thread comes after what it did. The
    // one that makes the change goes on. seq_cst: the number of workers is read later, see
    // set_processors.cpp.
    if (!phase_.compare_exchange_strong(expected, runtime_phase::draining,
                                        std::memory_order_seq_cst, std::memory_order_acquire)) {
        return;
    }
    // A task that is spawned beside this is either found alive below, or its spawner sees the phase
    // and stops it: see launch().
    workers_.for_each([](worker_thread& each) { each.p.queue.meet_owner(); });
    global.meet_pushers();
    branch_list readied;
    stop_all(readied);
    if (worker_thread* here = current_worker_of(*this)) {
        here->ready_batch(readied);
        start_grace_timer(*here);
    } else {
        if (!readied.empty()) {
            inject(readied);
        }
        // All of them, since any may be held by a task that does not come back.
        workers_.for_each([](worker_thread& each) {
            each.set_attention(attention::drain);
            each.wake();
        });
    }
    // As in task_ended().
    drain_word_.fetch_add(1, std::memory_order_seq_cst);
    if (tasks_alive() == 0) {
        begin_stop();
    }
}

// What the stops have found parked is taken off what it waits for when nothing is locked, since
// that may ready others, those behind it in a line; until then it stays where it is (scope.hpp).
void runtime_core::stop_all(branch_list& readied) noexcept {
    branch_list parked;
    slabs.for_each_alive([&parked](task_control& each) {
        for (branch* found = each.root_scope.stop(false); found != nullptr;) {
            branch* const stopped = found;
            found = stopped->next;
            parked.push_back(stopped);
        }
    });
    cancel_parked(parked.front(), false, readied);
}

void runtime_core::start_grace_timer(worker_thread& on) noexcept {
    // Relaxed: whoever is first starts it, the others have nothing to look at.
    if (grace_started_.exchange(true, std::memory_order_relaxed)) {
        return;
    }
    try {
        on.p.timers.add(grace_timer_, after(monotonic_now(), options_.shutdown_grace));
        on.timer_added();
    } catch (const std::bad_alloc&) {
        begin_stop();  // No memory for a timer: end without grace rather than never.
    }
}

void runtime_core::drain_timer::fire(branch_list&) noexcept {
    owner_.begin_stop();
}

void runtime_core::begin_stop() noexcept {
    runtime_phase expected = runtime_phase::draining;
    // As in begin_drain(). Workers learn of it by their attention words.
    if (!phase_.compare_exchange_strong(expected, runtime_phase::stopping,
                                        std::memory_order_seq_cst, std::memory_order_acquire)) {
        return;
    }
    workers_.for_each([](worker_thread& each) {
        each.set_attention(attention::stopping);
        each.wake();
    });
}

std::uint64_t runtime_core::tasks_alive() const noexcept {
    // What has ended is read first: a task that is missing among the spawned is missing here too.
    std::uint64_t ended = 0;
    workers_.for_each([&](worker_thread& each) { ended += each.p.ended.read_acquire(); });
    // Acquire pairs with launch(), as the counts of the processors do.
    std::uint64_t spawned = spawned_outside.load(std::memory_order_acquire);
    workers_.for_each([&](worker_thread& each) { spawned += each.p.spawned.read_acquire(); });
    return spawned - ended;
}

[[gnu::hot]]
void runtime_core::task_ended(worker_thread& on, bool ended_main) noexcept {
    on.p.ended.add_release();
    if (ended_main) {
        begin_drain();
    }
    if (phase() == runtime_phase::running) [[likely]] {
        return;
    }
    // seq_cst read-modify-write: see the essay on who decides that no task is left.
    drain_word_.fetch_add(1, std::memory_order_seq_cst);
    if (tasks_alive() == 0) {
        begin_stop();
    }
}

void runtime_core::wait_until_all_stopped() {
    std::unique_lock held(mutex_);
    ++workers_stopped_;
    changed_.notify_all();
    await_workers(held, options_.shutdown_timeout);
}

bool runtime_core::has_hung(std::chrono::nanoseconds ending, std::chrono::nanoseconds stopping) {
    if (ending < longest_end() && stopping < options_.shutdown_timeout) { return false; }
    const std::lock_guard held(mutex_);
    return workers_stopped_ != worker_count();
}

std::chrono::nanoseconds runtime_core::longest_end() const noexcept {
    const std::chrono::nanoseconds longest = longest_wait;
    return std::min(options_.shutdown_grace, longest) +
           std::min(options_.shutdown_timeout, longest);
}

// Without the lock: what is called is the user's code. `format` gets shutdown_timeout in
// milliseconds; where there is no memory for what it says, `in_short` is better than no report.
// Returns only if the handler does. By default the process ends in any case, unless it is a log of
// the user's that keeps it: what is to end is often what has filled the standard error stream.
template <class Format>
void runtime_core::tell_hang(std::string_view in_short, Format&& format, bool log_returns) {
    std::string text;
    std::string_view report = in_short;
    try {
        text = format(std::chrono::duration_cast<std::chrono::milliseconds>(
                          options_.shutdown_timeout)
                          .count());
        report = text;
    } catch (const std::bad_alloc&) {}
    if (options_.on_hang) {
        options_.on_hang(report);
        return;
    }
    if (log_returns && options_.log) {
        log(report);
    } else {
        write_last_line(report, std::chrono::milliseconds(log_returns ? 1'000 : 0));
    }
    std::terminate();
}

void runtime_core::report_log() {
    const auto format = [](auto waited) {
        return fmt::format(
            "weft: for {} ms the end of the runtime waits for the log to return from a line; "
            "runtime_options::log, or whoever reads the standard error stream, must not block",
            waited);
    };
    tell_hang("weft: the end of the runtime waits for the log to return", format, false);
}

void runtime_core::report_hang(std::string_view tasks) {
    const std::uint32_t count = worker_count();
    std::uint32_t stopped = 0;
    {
        const std::lock_guard held(mutex_);
        stopped = workers_stopped_;
    }
    tell_hang("weft: workers still run a task although the runtime has to end", [&](auto waited) {
        return fmt::format(
            "weft: {} of {} workers still run a task {} ms after the runtime was asked to end; a "
            "task must co_await, or call blocking code through blocking(){}",
            count - stopped, count, waited, tasks);
    });
}

void runtime_core::report_destructor(std::string_view task) {
    tell_hang("weft: the destructor of what a task has left behind does not end", [&](auto waited) {
        return fmt::format(
            "weft: for {} ms the end of the runtime waits for the destructor of what a task has "
            "left behind where it waited; a destructor must not wait{}",
            waited, task);
    });
}

// Each worker that has left its loop waits here for the others, and so does a thread outside that
// ends the runtime. A task that does not come back is the watchdog's case, whichever worker it
// holds. Only where there is no watchdog do those who wait count themselves, and one of them
// reports.
void runtime_core::await_workers(std::unique_lock<std::mutex>& held,
                                 std::chrono::nanoseconds limit) {
    const auto all_stopped = [this] { return workers_stopped_ == worker_count(); };
    // A slice counts as its own length, however late it ends: while the process is stopped
    // (SIGSTOP, a debugger, a suspended machine) the tasks get no time either.
    std::chrono::nanoseconds counted{0};
    while (!dog.watches() && limit < longest_wait && counted < limit) {
        const std::chrono::nanoseconds slice = std::min(limit - counted, wait_slice);
        if (changed_.wait_for(held, slice, all_stopped)) return;
        counted += slice;
    }
    if (!dog.watches() && limit < longest_wait && !std::exchange(hang_reported_, true)) {
        held.unlock();
        report_hang({});
        held.lock();
    }
    changed_.wait(held, all_stopped);
}

// A thread outside that waits for a task may be a call of blocking() that is waited for next, while
// the task is destroyed only after that. No task ends any more, so it waits in vain.
void runtime_core::dismiss_waiting_threads() {
    {
        const std::lock_guard held(mutex_);
        dismisses_threads_ = true;
    }
    slabs.for_each_alive([](task_control& each) { dismiss_waiting_thread(each); });
}

// A call that a frame waits for may use what lies in the frame, so the frame stays until it
// returns. Slices as in await_workers(), but on the one thread that waits: it needs no watchdog.
void runtime_core::await_blocking_calls() {
    blocking.close();
    const std::chrono::nanoseconds limit = options_.shutdown_timeout;
    for (std::chrono::nanoseconds counted{0}; counted < limit;) {
        const std::chrono::nanoseconds slice = std::min(limit - counted, wait_slice);
        if (blocking.wait_for_awaited(after(monotonic_now(), slice))) { return; }
        if (limit < longest_wait) { counted += slice; }
    }
    report_calls();
    blocking.wait_for_awaited(no_deadline);
}

void runtime_core::report_calls() {
    tell_hang("weft: a call that was given to blocking() does not return", [&](auto waited) {
        return fmt::format(
            "weft: a call that was given to blocking(), or a callback on its stop token, still "
            "runs {} ms after the workers have ended; give it a stop token to listen to, or use "
            "blocking_detached() for a call that may be left behind{}",
            waited, tasks_in_calls(slabs));
    });
}

// Alone: every other worker has left its loop. Ready is a no-op and spawning is refused, so what
// destructors do here ends in nothing.
void runtime_core::destroy_suspended() noexcept {
    std::optional<end_watch> watch;
    if (tasks_alive() != 0) { watch.emplace(*this); }
    // First nobody from outside may touch a task any more: the destructor of a stop callback waits
    // for one that runs, and the gate for everybody else.
    slabs.for_each_alive([](task_control& each) {
        if (each.extras != nullptr) {
            each.extras->stop_callback.reset();
        }
    });
    gate.close();
    slabs.for_each_alive_alone([&](task_control& each) {
        // Relaxed: no other thread looks any more.
        each.alive.store(false, std::memory_order_relaxed);
        workers_[0].p.ended.add_release();
        if (watch) { watch->destroys(&each); }
        destroy_children(each);
        destroy_chain(std::exchange(each.main_branch.handle, nullptr));
        if (watch) { watch->destroys(nullptr); }
        end_unfinished(each);
    });
}

void runtime_core::dispose(runtime_core* ended) noexcept {
    ended->netpoller_.reset();
    ended->blocking.release();
    {
        const std::lock_guard held(ended->mutex_);
        ended->disposed_ = true;
        ended->slabs.for_each_slot([&](task_control& each) {
            if (each.in_use) {
                ++ended->handles_left_;
            }
        });
        if (ended->handles_left_ != 0) {
            return;
        }
    }
    delete ended;
}

void runtime_core::release_from_outside(task_control* released) noexcept {
    {
        const std::lock_guard held(mutex_);
        released->in_use = false;
        released->set_next_free(nullptr);
        slabs.release({released, 1});
        if (!disposed_ || --handles_left_ != 0) {
            return;
        }
    }
    delete this;
}

void runtime_core::enter_phase(runtime_phase entered) {
    const std::lock_guard held(mutex_);
    // Release pairs with phase(): what belongs to the phase is ready.
    phase_.store(entered, std::memory_order_release);
    changed_.notify_all();
}

void runtime_core::join() {
    // Two threads may end a runtime at the same time; both return when it has ended.
    const std::lock_guard held(join_mutex_);
    {
        std::unique_lock watching(mutex_);
        await_workers(watching, longest_end());
    }
    std::vector<std::thread> ended;
    {
        // Whoever is starting more of them has finished; nobody starts any after the end began.
        const std::lock_guard controlled(control_mutex_);
        ended.swap(threads_);
    }
    for (std::thread& each : ended) {
        each.join();
    }
}

}  // namespace weft::detail
