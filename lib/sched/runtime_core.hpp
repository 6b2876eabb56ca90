// SPDX-License-Identifier: MIT
//
// A runtime: its workers, the queue and the protocols that they share, its tasks, and its end.
//
// The phases of a runtime, each entered once and in this order:
//
//     running    tasks run and may spawn
//     draining   the main task has returned (or shutdown() was called): every task was asked to
//                stop, spawning is refused, workers go on until no task is left or the grace
//                period is over
//     stopping   workers leave their loops; who left stays away from everything shared; then
//                worker 0 waits for blocking calls that a frame waits for
//     destroying worker 0, alone, destroys what is still suspended; ready is a no-op
//     ended      pollers are emptied by their owners; threads end
//     forked     this process is the child of a fork: nothing works, and every use says so
//
// Who decides that no task is left: each processor counts what it spawned and what ended on it. In
// the draining phase nothing is spawned any more, so the sum only falls. Whoever ends a task
// publishes its count by a read-modify-write of drain_word_ and then adds all counts up; of the
// last ones to end a task, the one whose read-modify-write comes last sees all counts, and begins
// the stop.
#pragma once

#include "lib/base/affinity.hpp"
#include "lib/base/environment.hpp"
#include "lib/base/processor_count.hpp"
#include "lib/blocking/blocking_pool.hpp"
#include "lib/sched/global_queue.hpp"
#include "lib/sched/guard_count.hpp"
#include "lib/sched/held_lock_reports.hpp"
#include "lib/sched/report_queue.hpp"
#include "lib/sched/sleep_report.hpp"
#include "lib/sched/task_slabs.hpp"
#include "lib/sched/watchdog.hpp"
#include "lib/sched/worker_registry.hpp"

#include <weft/detail/netpoll/netpoller.hpp>
#include <weft/detail/sched/all_asleep.hpp>
#include <weft/detail/sched/foreign_gate.hpp>
#include <weft/detail/sched/idle_protocol.hpp>
#include <weft/detail/sched/running_workers.hpp>
#include <weft/detail/sched/sentinel.hpp>
#include <weft/detail/time/timer_heap.hpp>
#include <weft/runtime_options.hpp>
#include <weft/statistics.hpp>

#include <condition_variable>
#include <csignal>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace weft::detail {

class worker_thread;

enum class runtime_phase : std::uint32_t { running, draining, stopping, destroying, ended, forked };

class runtime_core {
public:
    /// Checks the options, makes the pollers and the threads of all workers, and returns when every
    /// worker is ready. With `caller_works`, the calling thread is worker 0 and must call
    /// run_caller(). Throws std::invalid_argument for nonsense, std::system_error where a forced
    /// backend or the first thread cannot start; nothing is left behind then.
    runtime_core(runtime_options options, bool caller_works);
    runtime_core(const runtime_core&) = delete;
    runtime_core& operator=(const runtime_core&) = delete;

    /// Worker 0 on the calling thread: returns when the runtime has ended.
    void run_caller();
    /// The same with a main task, which is queued on the first processor and whose end is the end
    /// of the runtime.
    void run_main(task_control& main, std::coroutine_handle<> frame);

    /// Any thread: no more spawning; every task is asked to stop. Later calls do nothing.
    void begin_drain() noexcept;
    /// Any thread outside: waits until the runtime has ended and its threads are joined. Several
    /// threads may do so.
    void join();

    /// Gives the runtime up after join(). A handle of one of its tasks may outlive it; the last of
    /// them then destroys what is left of the runtime.
    static void dispose(runtime_core* ended) noexcept;
    /// Gives a control block back from a thread that is no worker.
    void release_from_outside(task_control* released) noexcept;

    /// Acquire pairs with whoever entered it.
    runtime_phase phase() const noexcept { return phase_.load(std::memory_order_acquire); }
    bool spawning_allowed() const noexcept { return phase() == runtime_phase::running; }
    /// Ends the process with a message in the child of a fork.
    void check_not_forked() const noexcept;

    // Shared by the workers. Each member has its own protocol.
    const runtime_options& options() const noexcept { return options_; }
    /// The cores to pin workers to; empty if they are not pinned.
    const affinity_mask& cores() const noexcept { return cores_; }
    /// Of the thread that made the runtime; see fork_guard.hpp.
    const sigset_t& mask_in_fork() const noexcept { return mask_in_fork_; }
    /// How many processors are wanted now. Relaxed: it may change at any time.
    std::uint32_t processor_count() const noexcept { return wanted_.processors(); }
    /// All workers that exist, also those without a processor; see worker_registry.hpp.
    std::uint32_t worker_count() const noexcept { return workers_.size(); }
    worker_thread& worker_at(std::uint32_t index) noexcept { return workers_[index]; }
    global_queue global;
    idle_protocol<layer, worker_thread> idle;
    sentinel_role<layer> sentinel;
    task_slabs slabs{*this};
    /// Tasks spawned from outside.
    std::atomic<std::uint64_t> spawned_outside{0};
    /// Threads that are no workers of this runtime pass through it before they touch a task.
    foreign_gate gate;
    netpoller& net() noexcept { return *netpoller_; }
    /// Spare machines for calls that block.
    blocking_pool blocking;
    /// A call has to wait for a machine: from now on somebody looks for how long. On a worker.
    void watch_blocking(worker& on) noexcept;
    /// Whether the machine gives this process more or fewer processors than before.
    processor_count_watch machine_count;
    /// Lines of whoever must not wait for the log.
    report_queue reports{*this};
    /// Tasks that suspend with a lock of threads.
    held_lock_reports lock_reports{*this};
    watchdog dog{*this};

    /// After a publication: wakes a parked worker if nobody searches. True if it woke one.
    bool wake_if_needed() noexcept;

    // What parking_loop.hpp asks of what all workers share.

    /// The recheck of idle_protocol.hpp: its loads are seq_cst.
    bool anything_published() const noexcept;
    bool unwatched() const noexcept { return netpoller_->needs_watcher(); }
    void count_wake() noexcept;
    /// Is everything asleep for good? True at most once, and the caller reports it then.
    bool all_asleep() noexcept;
    void report_all_asleep() noexcept;

    // What all_asleep.hpp asks of what all workers share.

    bool watches_for_sleep() const noexcept {
        // Relaxed: set before any task runs; after a report one more look does no harm.
        return watches_for_sleep_.load(std::memory_order_relaxed);
    }
    bool sleeps_for_good() noexcept;
    void reconsider_sleep() noexcept;
    const std::shared_ptr<guard_count> shared_guards = std::make_shared<guard_count>(*this);
    const guard_count& guards = *shared_guards;

    /// After the end: the report, if run() is to throw it; else empty.
    const std::string& deadlock() const noexcept { return deadlock_; }

    /// Any thread: as runtime::set_processors().
    void set_processors(unsigned wanted);
    /// One thread at a time, the watchdog: as many processors as the machine gives now, if
    /// `watched` tells of a change. Does nothing once the number was chosen by hand, or the runtime
    /// ends. What fails is said in the log; the number stays as it is until the machine's changes
    /// again, or there is memory. Does not wait where that is short, nor for others.
    void follow_machine(processor_count_watch& watched, monotonic_time now) noexcept;

    enum class compensation : std::uint8_t {
        started,
        none_left,  ///< There are as many of them as processors, or the runtime ends.
        later,      ///< Somebody changes the number of processors; ask again.
    };
    /// One thread at a time, the watchdog: one worker more than there are processors, in the place
    /// of one that its task holds. Throws as set_processors() where it cannot be made; does not
    /// wait where memory is short, nor for others. Blocks while a thread is started.
    compensation start_compensating_worker();
    /// The same thread: one of them less. Which worker that is does not matter. It may go on while
    /// somebody changes the number of processors, until end_compensations().
    void retire_compensating_worker() noexcept;
    /// The same thread, now and then: those that could not be told to go yet. False: some are left.
    bool end_compensations() noexcept;

    /// A task has ended on `on`: counts, and begins the stop after the last one of the draining
    /// phase.
    void task_ended(worker_thread& on, bool ended_main) noexcept;
    bool is_main(const task_control& task) const noexcept { return &task == main_task_; }

    /// Puts branches into the global queue from a thread that is no worker of this runtime.
    void inject(branch_list& readied) noexcept;

    /// The watchdog: do workers still run tasks so long after the runtime was asked to end, or its
    /// workers to stop? If so, says so, with a text about them, and ends the process by default.
    bool has_hung(std::chrono::nanoseconds ending, std::chrono::nanoseconds stopping);
    void report_hang(std::string_view tasks);
    /// A thread outside that has begun to wait for a task: are those who wait sent away already?
    /// The lock orders it: one that does not learn it has published itself before the walk over the
    /// tasks, which finds it.
    bool dismisses_threads() {
        const std::lock_guard held(mutex_);
        return dismisses_threads_;
    }
    /// The same for a destructor of what a task has left behind (end_watch.hpp).
    void report_destructor(std::string_view task);
    /// The same for a log that does not return from a line (report_queue.hpp).
    void report_log();

    /// Calls the user's code: with nothing locked, and not where others rely on the caller; there
    /// `reports` takes the line.
    void log(std::string_view line) const noexcept;
    void report_failure(const task_failure& failure) const noexcept;
    runtime_statistics statistics() const;

    /// Ids of tasks, in blocks of 16 for each worker. All runtimes of the process take them from
    /// one counter, since a lock that tasks of several share knows its holder by its id.
    static std::uint64_t next_id_block() noexcept {
        // Relaxed: only uniqueness is wanted.
        return next_id_.fetch_add(16, std::memory_order_relaxed);
    }

    /// In the child of a fork: every use of the runtime ends the process from now on.
    void mark_forked() noexcept;

private:
    friend class worker_thread;
    friend struct std::default_delete<runtime_core>;
    runtime_core(runtime_options&& options, bool caller_works, processor_choice choice);
    ~runtime_core();

    /// What every worker does with its poller in a round of the start.
    enum class start_step : std::uint8_t { enable, disable };

    class drain_timer final : public timer {
    public:
        explicit drain_timer(runtime_core& owner) noexcept : owner_(owner) {}
        void fire(branch_list& readied) noexcept override;

    private:
        runtime_core& owner_;
    };

    /// Looks once a second whether calls wait for long for a machine.
    class saturation_timer final : public timer {
    public:
        explicit saturation_timer(runtime_core& owner) noexcept : owner_(owner) {}
        void start(worker& on) noexcept;
        void fire(branch_list& readied) noexcept override;

    private:
        void report() noexcept;

        runtime_core& owner_;
        std::atomic<bool> running_{false};
        monotonic_time next_report_ = 0;  ///< Not before; used while it runs.
    };

    struct late_start;
    /// What a failed start_more_workers() takes back.
    struct late_undo {
        runtime_core& on;
        late_start& round;
        std::size_t threads_before;
        std::uint32_t pollers;
        bool give_up = true;
        ~late_undo();
    };

    void change_processors(unsigned wanted, short_memory when_short);
    void end_solitude() noexcept;
    void report_unfollowed(std::optional<std::uint32_t> found, std::string_view why) noexcept;
    bool say_unfollowed(bool seen, std::string_view why) noexcept;
    void start_more_workers(std::uint32_t count, unsigned entries, short_memory when_short);
    void start_late_threads(std::vector<std::unique_ptr<worker_thread>>& made,
                            const std::shared_ptr<late_start>& round);
    [[noreturn]] void throw_late_failure(const start_result& failure) const;
    void late_thread_main(worker_thread& self, late_start& round);
    void end_late_start(late_start& round, bool runs) noexcept;
    void prepare_thread(std::uint32_t index) noexcept;

    void start_workers(bool caller_works);
    void start_threads(bool caller_works);
    void start_pollers(bool caller_works);
    start_result run_start_round(bool caller_works, start_step step);
    void take_start_step(std::uint32_t index, start_step step);
    void give_up_start();
    void stop_all(branch_list& readied) noexcept;
    void start_grace_timer(worker_thread& on) noexcept;
    void begin_stop() noexcept;
    void wait_until_all_stopped();
    void await_blocking_calls();
    void report_calls();
    void dismiss_waiting_threads();
    template <class Format>
    void tell_hang(std::string_view in_short, Format&& format, bool log_returns = true);
    std::string log_all_asleep();
    void log_failure(const task_failure& failure) const;
    void await_workers(std::unique_lock<std::mutex>& held, std::chrono::nanoseconds limit);
    std::chrono::nanoseconds longest_end() const noexcept;
    void destroy_suspended() noexcept;
    void pin_worker(std::uint32_t index) noexcept;
    void repin(std::uint32_t first, std::uint32_t end) noexcept;
    void thread_main(std::uint32_t index);
    void serve_worker_zero();
    void serve_other_worker(worker_thread& self);
    std::uint64_t tasks_alive() const noexcept;
    void enter_phase(runtime_phase entered);

    runtime_options options_;
    const affinity_mask cores_;
    worker_registry workers_;
    std::unique_ptr<netpoller> netpoller_;
    std::vector<std::thread> threads_;  ///< Under control_mutex_ once the workers run.
    sigset_t mask_in_fork_{};
    // The number of processors: changed under control_mutex_, which is locked before mutex_.
    std::mutex control_mutex_;
    wanted_workers<layer> wanted_;
    std::atomic<std::uint64_t> compensations_{0};
    std::uint32_t compensations_over_ = 0;  ///< Of the watchdog: of these a worker is left.
    static constexpr std::uint32_t nothing_reported = UINT32_MAX;
    /// Of the watchdog: which number it has said that it cannot follow; 0: that it cannot read it.
    std::uint32_t unfollowed_ = nothing_reported;
    /// In vain, a second apart. The watchdog's.
    static constexpr std::uint32_t patient_attempts = 3;
    std::uint32_t attempts_to_follow_ = 0;
    std::atomic<runtime_phase> phase_{runtime_phase::running};
    std::atomic<std::uint64_t> drain_word_{0};
    /// Set before the main task starts; read by the worker that ends a task.
    task_control* main_task_ = nullptr;
    static std::atomic<std::uint64_t> next_id_;
    drain_timer grace_timer_{*this};
    std::atomic<bool> watches_for_sleep_{false};
    sleep_survey survey_;  ///< Guarded by the lock of the list of parked workers.
    std::string deadlock_;
    std::atomic<bool> grace_started_{false};
    saturation_timer saturation_timer_{*this};

    // Start and end of the workers; not used while tasks run.
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint32_t workers_ready_ = 0;
    std::uint32_t workers_stopped_ = 0;
    bool hang_reported_ = false;
    bool dismisses_threads_ = false;
    std::uint32_t start_round_ = 0;
    start_step start_step_ = start_step::enable;
    bool workers_released_ = false;
    bool start_cancelled_ = false;
    start_result first_failure_{};
    std::mutex join_mutex_;
    // After the end: control blocks that handles still hold.
    bool disposed_ = false;
    std::size_t handles_left_ = 0;
};

}  // namespace weft::detail
