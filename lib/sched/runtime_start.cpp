// SPDX-License-Identifier: MIT
#include "lib/base/environment.hpp"
#include "lib/base/signal_mask.hpp"
#include "lib/sched/fork_guard.hpp"
#include "lib/sched/runtime_core.hpp"
#include "lib/sched/runtime_registry.hpp"
#include "lib/sched/worker_thread.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/detail/sched/task_life.hpp>

#include <fmt/format.h>

#include <sys/prctl.h>
#include <cerrno>
#include <csignal>

// How a runtime starts: its options are checked, its workers, their threads and pollers are made,
// and whatever fails undoes what was made before.

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

void ignore_sigpipe_if_default() noexcept {
    struct sigaction current{};
    ::sigaction(SIGPIPE, nullptr, &current);
    if (current.sa_handler == SIG_DFL) {
        std::signal(SIGPIPE, SIG_IGN);
    }
}

}  // namespace

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
    unregister_runtime(*this);
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
        watch_forks();
        register_runtime(*this);
        registered = true;
        dog.start(signal_mask());
    } catch (...) {
        // The caller's thread goes on, and must not find a ring that is gone.
        run_start_round(caller_works, start_step::disable);
        if (registered) { unregister_runtime(*this); }
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

// Of a thread that the watchdog may wait for. A worker that only runs in the place of others keeps
// to no core: that of the one which is blocked is free, and which one that is changes.
void runtime_core::pin_worker(std::uint32_t index) noexcept {
    try {
        if (cores_.count() == 0) {
            return;
        }
        if (index >= processor_count()) {
            cores_.apply();  // Where this is refused, it keeps to the core that it has.
            return;
        }
        if (cores_.only(index).apply()) {
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

}  // namespace weft::detail
