// SPDX-License-Identifier: MIT
#include "lib/sched/runtime_core.hpp"

#include "lib/base/environment.hpp"
#include "lib/base/signal_mask.hpp"
#include "lib/sched/end_watch.hpp"
#include "lib/sched/fork_guard.hpp"
#include "lib/sched/worker_thread.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/detail/sched/parking_loop.hpp>
#include <weft/detail/sched/promise.hpp>
#include <weft/detail/sched/task_life.hpp>

#include <fmt/format.h>

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>

namespace weft::detail {

namespace {

backend_choice to_choice(netpoll_backend backend) noexcept {
    switch (backend) {
        case netpoll_backend::io_uring:
            return backend_choice::io_uring;
        case netpoll_backend::epoll:
            return backend_choice::epoll;
        case netpoll_backend::automatic:
            break;
    }
    return backend_choice::automatic;
}

/// Longer waits have no end: added to a time they would overflow.
constexpr std::chrono::hours longest_wait{24 * 365};

/// What a wait for workers counts at once; see await_workers().
constexpr std::chrono::nanoseconds wait_slice = std::chrono::milliseconds(200);

/// A call that queues for longer is reported, not more often than this.
constexpr std::chrono::nanoseconds saturation_period = std::chrono::seconds(1);
constexpr std::chrono::nanoseconds saturation_report_period = std::chrono::minutes(1);

void check_durations(const runtime_options& options) {
    using std::chrono::nanoseconds;
    if (options.shutdown_grace < nanoseconds::zero()) {
        throw std::invalid_argument(
            fmt::format("weft: runtime_options::shutdown_grace is {} ns; it must not be negative",
                        options.shutdown_grace.count()));
    }
    if (options.shutdown_timeout <= nanoseconds::zero()) {
        throw std::invalid_argument(
            fmt::format("weft: runtime_options::shutdown_timeout is {} ns; it must be positive",
                        options.shutdown_timeout.count()));
    }
}

void check_hog_report(const runtime_options& options) {
    if (options.hog_report < run_watch::slice) {
        throw std::invalid_argument(
            fmt::format("weft: runtime_options::hog_report is {} ns; give at least 10 ms",
                        options.hog_report.count()));
    }
}

void check_blocking(const runtime_options& options) {
    constexpr unsigned most = 65'536;
    if (options.blocking_threads == 0 || options.blocking_threads > most) {
        throw std::invalid_argument(
            fmt::format("weft: runtime_options::blocking_threads is {}; give 1 to {}",
                        options.blocking_threads, most));
    }
    if (options.blocking_idle_time <= std::chrono::nanoseconds::zero()) {
        throw std::invalid_argument(
            fmt::format("weft: runtime_options::blocking_idle_time is {} ns; it must be positive",
                        options.blocking_idle_time.count()));
    }
}

/// Empty if workers are not pinned.
affinity_mask cores_to_pin(const runtime_options& options) {
    return resolve_pin(options.pin) ? affinity_mask::of_this_thread() : affinity_mask();
}

processor_state public_state(worker_state state) noexcept {
    switch (state) {
        case worker_state::running:
            return processor_state::running;
        case worker_state::asked:
        case worker_state::leaving:
            return processor_state::retiring;
        case worker_state::retired:
            break;
    }
    return processor_state::retired;
}

void ignore_sigpipe_if_default() noexcept {
    struct sigaction current{};
    ::sigaction(SIGPIPE, nullptr, &current);
    if (current.sa_handler == SIG_DFL) {
        std::signal(SIGPIPE, SIG_IGN);
    }
}

}  // namespace

// ---------------------------------------------------------------------------------------------
// Start.

runtime_core::runtime_core(runtime_options options, bool caller_works)
    : runtime_core(std::move(options), caller_works, resolve_processors(options)) {}

runtime_core::runtime_core(runtime_options&& options, bool caller_works, processor_choice choice)
    : idle(choice.count),
      blocking(options.blocking_threads, options.blocking_queue, options.blocking_idle_time,
               [mask = signal_mask(), cores = cores_to_pin(options)] {
                   restore_signals_in_fork(mask);
                   if (cores.count() != 0) { cores.apply(); }
               }),
      machine_count(!choice.by_hand, choice.count, monotonic_now()),
      options_(std::move(options)),
      cores_(cores_to_pin(options_)) {
    options_.processors = choice.count;
    options_.netpoll = resolve_backend(options_.netpoll);
    options_.deadlock = resolve_deadlock(options_.deadlock);
    check_durations(options_);
    check_blocking(options_);
    check_hog_report(options_);
    if (options_.ignore_sigpipe) {
        ignore_sigpipe_if_default();
    }
    wanted_.set_processors(options_.processors);
    workers_.reserve(options_.processors);
    for (std::uint32_t i = 0; i < options_.processors; ++i) {
        workers_.add(std::make_unique<worker_thread>(*this, i));
    }
    start_workers(caller_works);
}

runtime_core::~runtime_core() {
    unregister_for_fork(*this);
    WEFT_ASSERT(threads_.empty());
}

void runtime_core::start_workers(bool caller_works) {
    // Whatever fails, the threads that wait for the start are told and joined.
    struct undo_start {
        runtime_core* started;
        ~undo_start() {
            if (started != nullptr) {
                started->give_up_start();
            }
        }
    } undo{this};
    start_threads(caller_works);
    start_pollers(caller_works);
    bool registered = false;
    try {
        register_for_fork(*this);
        registered = true;
        dog.start(signal_mask());
    } catch (...) {
        // The caller's thread goes on, and must not find a ring that is gone.
        run_start_round(caller_works, start_step::disable);
        if (registered) { unregister_for_fork(*this); }
        throw;
    }
    undo.started = nullptr;
    const std::lock_guard held(mutex_);
    workers_released_ = true;
    changed_.notify_all();
}

// Where the system refuses a thread, the runtime has as many workers as could be started.
void runtime_core::start_threads(bool caller_works) {
    const block_signals blocked;
    mask_in_fork_ = blocked.before();
    const std::uint32_t wanted = worker_count();
    std::uint32_t started = caller_works ? 1 : 0;
    threads_.reserve(wanted - started);
    try {
        for (; started < wanted; ++started) {
            threads_.emplace_back([this, i = started] {
                restore_signals_in_fork(mask_in_fork_);
                thread_main(i);
            });
        }
    } catch (const std::system_error& error) {
        if (started == 0) {
            throw std::system_error(error.code(),
                                    "weft: cannot start a worker thread; raise the limit on "
                                    "threads (ulimit -u), or call weft::run");
        }
        // The threads that run know nothing of the workers before start_pollers().
        workers_.shrink(started);
        options_.processors = started;
        wanted_.set_processors(started);
        idle.limit_processors(started);
        log(fmt::format("weft: runs with {} workers instead of {}, since a thread cannot start "
                        "({}); lower runtime_options::processors or raise the limit on threads "
                        "(ulimit -u)",
                        started, wanted, error.code().message()));
    }
}

// Every worker enables its poller on its own thread, then all wait for the verdict: when one of
// them failed, all give up what they have enabled, since a ring would stay for as long as its
// thread does; if the choice is free, the pollers of the other backend are made for all of them.
void runtime_core::start_pollers(bool caller_works) {
    const auto log_line = [this](std::string_view line) { log(line); };
    netpoller_ = make_netpoller(to_choice(options_.netpoll), worker_count(), log_line);
    for (int round = 0;; ++round) {
        const start_result failure = run_start_round(caller_works, start_step::enable);
        if (failure.error == 0) {
            return;
        }
        run_start_round(caller_works, start_step::disable);
        if (options_.netpoll != netpoll_backend::automatic || round != 0) {
            throw std::system_error(
                failure.error, std::system_category(),
                fmt::format("weft: {} cannot start ({})", netpoller_->name(), failure.step));
        }
        log(fmt::format("weft: io_uring cannot start ({}: {}); using epoll", failure.step,
                        std::system_category().message(failure.error)));
        netpoller_ = make_netpoller(backend_choice::epoll, worker_count(), log_line);
    }
}

// All workers take a step; the first failure, or success.
start_result runtime_core::run_start_round(bool caller_works, start_step step) {
    std::unique_lock held(mutex_);
    workers_ready_ = 0;
    first_failure_ = {};
    start_step_ = step;
    ++start_round_;
    changed_.notify_all();
    if (caller_works) {
        held.unlock();
        take_start_step(0, step);
        held.lock();
    }
    changed_.wait(held, [this] { return workers_ready_ == worker_count(); });
    return first_failure_;
}

void runtime_core::take_start_step(std::uint32_t index, start_step step) {
    poller& io = netpoller_->worker_poller(index);
    start_result result;
    switch (step) {
        case start_step::enable:
            workers_[index].set_poller(io);
            result = io.enable_on_this_thread();
            break;
        case start_step::disable:
            io.disable_on_this_thread();
            break;
    }
    const std::lock_guard held(mutex_);
    if (result.error != 0 && first_failure_.error == 0) {
        first_failure_ = result;
    }
    ++workers_ready_;
    changed_.notify_all();
}

void runtime_core::give_up_start() {
    {
        const std::lock_guard held(mutex_);
        start_cancelled_ = true;
        changed_.notify_all();
    }
    for (std::thread& each : threads_) {
        each.join();
    }
    threads_.clear();
    reports.stop();
}

// Of a thread that the watchdog may wait for.
void runtime_core::pin_worker(std::uint32_t index) noexcept {
    try {
        if (cores_.count() == 0 || cores_.only(index).apply()) {
            return;
        }
        const int error = errno;
        reports.say(
            fmt::format("weft: worker {} cannot be pinned to a core ({}); it runs on all of them",
                        index, std::system_category().message(error)));
    } catch (const std::bad_alloc&) {
        reports.say_in_short("weft: there is no memory to pin a worker to a core; it runs on all");
    }
}

void runtime_core::prepare_thread(std::uint32_t index) noexcept {
    // Short enough to need no memory.
    ::prctl(PR_SET_NAME, fmt::format("weft-{}", index).c_str());
    pin_worker(index);
    // Timed sleeps of this thread are not rounded up by the kernel's 50 us.
    ::prctl(PR_SET_TIMERSLACK, 1UL);
}

void runtime_core::thread_main(std::uint32_t index) {
    prepare_thread(index);
    std::uint32_t round = 0;
    for (;;) {
        start_step step = start_step::enable;
        {
            std::unique_lock held(mutex_);
            changed_.wait(held, [&] {
                return start_round_ != round || workers_released_ || start_cancelled_;
            });
            if (start_cancelled_) {
                return;
            }
            if (start_round_ == round) {
                break;
            }
            round = start_round_;
            step = start_step_;
        }
        take_start_step(index, step);
    }
    if (index == 0) {
        serve_worker_zero();
    } else {
        serve_other_worker(workers_[index]);
    }
}

void runtime_core::run_caller() {
    const long slack = ::prctl(PR_GET_TIMERSLACK);
    ::prctl(PR_SET_TIMERSLACK, 1UL);
    pin_worker(0);
    serve_worker_zero();
    if (cores_.count() != 0) {
        cores_.apply();
    }
    if (slack > 0) {
        ::prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack));
    }
    join();
}

void runtime_core::run_main(task_control& main, std::coroutine_handle<> frame) {
    main_task_ = &main;
    // Relaxed: launch() publishes it to the other workers.
    watches_for_sleep_.store(options_.deadlock != deadlock_action::ignore,
                             std::memory_order_relaxed);
    workers_[0].enter_thread();
    launch(main, frame);
    run_caller();
}

// ---------------------------------------------------------------------------------------------
// End.

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
    slabs.for_each_alive([&](task_control& each) { stop_scope(each.root_scope, false, readied); });
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

void runtime_core::watch_blocking(worker& on) noexcept {
    saturation_timer_.start(on);
}

void runtime_core::saturation_timer::start(worker& on) noexcept {
    // seq_cst, with the store and the look at the queue in fire(): either that finds the call, or
    // we find that the timer stands.
    if (running_.exchange(true, std::memory_order_seq_cst)) {
        return;
    }
    try {
        on.timers().add(*this, after(monotonic_now(), saturation_period));
        on.timer_added();
    } catch (const std::bad_alloc&) {
        running_.store(false, std::memory_order_seq_cst);  // The next call tries again.
    }
}

void runtime_core::saturation_timer::fire(branch_list&) noexcept {
    report();
    running_.store(false, std::memory_order_seq_cst);
    if (owner_.blocking.queued() == 0) {
        return;
    }
    if (worker* here = current_worker_of(owner_)) {
        start(*here);
        return;
    }
    // The watchdog, which has no heap. Any worker may be kept, so the first one that is back.
    owner_.workers_.for_each([](worker_thread& each) {
        each.set_attention(attention::calls_wait);
        each.wake();
    });
}

void runtime_core::saturation_timer::report() noexcept {
    const monotonic_time now = monotonic_now();
    const auto waited = owner_.blocking.longest_wait();
    if (waited < saturation_period || now < next_report_) {
        return;
    }
    next_report_ = after(now, saturation_report_period);
    try {
        owner_.reports.say(fmt::format(
            "weft: {} calls that were given to blocking() wait, the first one for {} ms, since all "
            "{} threads for them are busy; raise runtime_options::blocking_threads (or the limit "
            "on threads, ulimit -u), or use try_blocking()",
            owner_.blocking.queued(),
            std::chrono::duration_cast<std::chrono::milliseconds>(waited).count(),
            owner_.blocking.machines()));
    } catch (const std::bad_alloc&) {
        owner_.reports.say_in_short(
            "weft: calls that were given to blocking() wait, since all threads for them are busy, "
            "and there is no memory to say more");
    }
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
// Returns only if the handler does.
template <class Format>
void runtime_core::tell_hang(std::string_view in_short, Format&& format) {
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
    log(report);
    std::terminate();
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
    slabs.for_each_alive([&](task_control& each) {
        // Relaxed: no other thread looks any more.
        each.alive.store(false, std::memory_order_relaxed);
        workers_[0].p.ended.add_release();
        if (watch) { watch->destroys(&each); }
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

// ---------------------------------------------------------------------------------------------
// Waking and readying from outside.

[[gnu::hot]]
bool runtime_core::wake_if_needed() noexcept {
    return wake_searcher(*this);
}

void runtime_core::count_wake() noexcept {
    if (worker_thread* here = current_worker_of(*this)) {
        here->p.wakes.add();
    }
}

[[gnu::hot]]
bool runtime_core::anything_published() const noexcept {
    if (global.size() != 0) {
        return true;
    }
    for (std::uint32_t i = 0, count = workers_.size(); i < count; ++i) {
        if (!workers_[i].p.queue.empty()) {
            return true;
        }
    }
    return false;
}

void runtime_core::inject(branch_list& readied) noexcept {
    for (branch* each = readied.front(); each != nullptr; each = each->next) {
        // Relaxed: who looks for sleeping tasks (sleep_report.cpp) may read it meanwhile.
        std::atomic_ref<branch_status>(each->status)
            .store(branch_status::queued, std::memory_order_relaxed);
    }
    global.push_batch(readied.front(), readied.back(), readied.size());
    wake_if_needed();
}

void runtime_core::check_not_forked() const noexcept {
    if (phase() == runtime_phase::forked) [[unlikely]] {
        used_in_fork();
    }
}

void runtime_core::mark_forked() noexcept {
    // There is one thread in this process.
    phase_.store(runtime_phase::forked, std::memory_order_release);
    workers_.for_each([](worker_thread& each) { each.set_attention(attention::forked); });
}

// ---------------------------------------------------------------------------------------------
// Reports.

void runtime_core::log(std::string_view line) const noexcept {
    if (options_.log) {
        options_.log(line);
        return;
    }
    // One call, so that lines of several threads do not mix, and no copy, since it may be memory
    // that is missing. There is nobody to whom a failed write could be told.
    char end = '\n';
    const iovec parts[] = {{const_cast<char*>(line.data()), line.size()}, {&end, 1}};
    [[maybe_unused]] const auto written = ::writev(STDERR_FILENO, parts, 2);
}

bool runtime_core::sleeps_for_good() noexcept {
    for (std::uint32_t i = 0, count = workers_.size(); i < count; ++i) {
        if (workers_[i].p.timers.earliest() != no_deadline) {
            return false;
        }
    }
    return phase() == runtime_phase::running && survey_.all_asleep(slabs);
}

// The second look, with room for the list, finds the same: nothing is left that could change it.
// Only a thread that wakes tasks without a guard could; its tasks are not reported then.
[[gnu::hot]]
bool runtime_core::all_asleep() noexcept {
    if (!detail::all_asleep(*this)) {
        return false;
    }
    std::size_t found = 0;
    std::vector<sleeping_task> room;
    idle.with_list_held([&] { return (found = survey_.found()) != 0; });
    try {
        room.resize(std::min(found, sleep_survey::most_listed));
    } catch (const std::bad_alloc&) {
        // The report lists none, then.
    }
    idle.with_list_held([&] { return survey_.give_room(room), true; });
    // Relaxed: the first one to come here reports.
    return detail::all_asleep(*this) &&
           watches_for_sleep_.exchange(false, std::memory_order_relaxed);
}

void runtime_core::report_all_asleep() noexcept {
    std::string report;
    try {
        report = log_all_asleep();
    } catch (const std::bad_alloc&) {
        log("weft: all tasks are asleep, and there is no memory to name them");
        report = "weft: asleep";  // Short enough to be kept without memory.
    }
    if (options_.deadlock == deadlock_action::throw_exception) {
        deadlock_ = std::move(report);
        begin_drain();
    }
}

std::string runtime_core::log_all_asleep() {
    sleep_report found;
    idle.with_list_held([&] { return found = survey_.take(), true; });
    std::string report;
    for (const std::string& line : found.lines()) {
        log(line);
        report += (report.empty() ? "" : "\n") + line;
    }
    return report;
}

void runtime_core::report_failure(const task_failure& failure) const noexcept {
    if (options_.on_failure) {
        options_.on_failure(failure);
        return;
    }
    try {
        log_failure(failure);
    } catch (const std::bad_alloc&) {
        log("weft: a task ended by an exception that nobody awaits, and there is no memory to name "
            "it");
    }
    std::terminate();
}

void runtime_core::log_failure(const task_failure& failure) const {
    std::string what = "an exception that is no std::exception";
    try {
        std::rethrow_exception(failure.exception);
    } catch (const std::exception& error) {
        what = error.what();
    } catch (...) {
    }
    log(fmt::format("weft: task {} ({}), spawned at {}:{}, ended by an exception that nobody "
                    "awaits: {}; catch it in the task, await its handle, or set "
                    "runtime_options::on_failure",
                    failure.task_id, failure.task_name.empty() ? "unnamed" : failure.task_name,
                    failure.spawn_site.file_name(), failure.spawn_site.line(), what));
}

runtime_statistics runtime_core::statistics() const {
    runtime_statistics result;
    // What has ended is read before what was spawned, so that the difference is never negative.
    workers_.for_each([&](worker_thread& each) {
        result.processors.push_back(each.p.statistics());
        result.processors.back().state = public_state(each.state.state());
    });
    for (std::uint32_t i = 0; i < result.processors.size(); ++i) {
        result.processors[i].spawned = workers_[i].p.spawned.read();
    }
    // Relaxed: statistics.
    result.compensations = compensations_.load(std::memory_order_relaxed);
    result.spawned_outside = spawned_outside.load(std::memory_order_relaxed);
    result.blocking_calls = blocking.calls();
    result.blocking_threads = blocking.machines();
    result.blocking_queued = blocking.queued();
    result.blocking_longest_wait = blocking.longest_wait();
    result.blocking_waited = blocking.waited();
    result.blocking_refused = blocking.refused();
    result.netpoller = netpoller_->name();
    return result;
}

}  // namespace weft::detail
