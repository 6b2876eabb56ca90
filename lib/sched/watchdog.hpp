// SPDX-License-Identifier: MIT
//
// The watchdog: a thread without a processor that watches the progress of all workers (Go's
// sysmon).
//
// Coroutines cannot be preempted: only the branch itself can let others in, at an await, and it
// does so when the attention word of its worker asks for it. Branches and the loop of the worker
// bound what they can count. What needs a clock is the watchdog's: reading one at every switch
// would cost more than the switch.
//
//     what it sees                                what it does
//     a branch has run for 5 ms, others wait      slice_over: what the branch leaves in runnext
//                                                 goes behind the ring
//     for 10 ms, others wait                      yield_wanted: it goes behind the global queue at
//                                                 its next await
//     for 10 ms in which its thread had a         counts an overrun (processor_statistics)
//     processor, or was blocked
//     likewise for runtime_options::hog_report    reports task, spawn site, last await and what to
//                                                 do
//     a due timer of the worker's heap, or work   timer_due, ring_has_work: the worker looks at its
//     in its poller, while one branch runs on     next await, not only when the branch is over
//     the same at two looks, while the worker     the same: the loop looks there each 8th turn only
//     runs one branch after the other
//     what was in the global queue at one look    global_waits, for workers that run one branch
//     is not all gone at the next                 after the other: they take a batch of it next
//     work in the poller of a worker that runs    interrupts the thread, so that it posts its
//     one branch on and on, and somebody is       completions, and wakes who waits for them
//     idle, or 10 ms have passed
//     due timers and branches of a worker that    fires the timers, and moves the branches to the
//     has run one branch for 10 ms, nobody idle   global queue
//     something waits, and all workers have       has another worker run in the place of one of
//     run one branch for 10 ms, or one of them    them until that one is back
//     is blocked in a call
//     waits of the worker that are unverified     waits_noted: it asks the kernel about the old
//                                                 ones; wakes it if it has not run anything for a
//                                                 look
//     the runtime ends, and a worker does not     calls runtime_options::on_hang
//     come back for shutdown_timeout
//     the machine gives more or fewer processors  changes the number of processors, unless that was
//     (once a second)                             chosen by hand
//
// How it looks. Every worker publishes which branch it runs and how many it has run (run_mark.hpp).
// The same count at two looks is one branch that goes on. The looks are 1 ms apart while there is
// such a branch, or they take half a millisecond each, or something waits in the global queue,
// 0.5 ms if somebody is idle besides, and up to 4 ms otherwise, so an overrun is seen after 10 to
// 15 ms. A look costs a few loads for each worker; the clock and the state of a thread are asked
// for only when its branch goes on.
//
// When it sleeps. After 100 ms in which nothing has run, and when no wait is unverified, it rests
// until a worker begins to work again (rest_word.hpp). Sleeps are never longer than a few
// milliseconds otherwise, so nobody has to wake it while it watches.
//
// What time counts. A look counts at most twice the sleep that came before it, however late it is:
// when the process was stopped, or the whole machine, the tasks had no time either. And a task is
// blamed only for time that its thread has used (thread_usage.hpp). Time slices go by the slice
// clock, which tests hold; while it stands, nothing overruns.
//
// Who may touch what. The watchdog's own state belongs to its thread. Of workers it reads the mark,
// sizes of queues, the earliest timer, flags of the poller and the count of unverified waits, all
// of them atomic, and writes attention bits and the counters of overruns; it may wake any worker.
// The name of a task is read under the protocol of run_mark.hpp. It does not log: what it has to
// say is written by another thread (report_queue.hpp), since a log may block, and all rely on the
// watchdog while it is awake. It calls on_hang itself: nothing is left then that relies on it but
// the task that the report is about.
//
// Compensating workers. While all workers are kept, moving their work to the global queue helps
// nobody, and with one processor there is nobody else in any case. So one worker more than there
// are processors runs, in the place of one that is kept: until the watchdog sees that one run
// something else. It is made when it is needed for the first time, gives its processor up by the
// protocol of retirement.hpp, and is recalled the next time, which costs no more than a wake-up.
// There are at most as many as processors. None is started while anybody is idle, or runs one
// branch after another: that one would share its core with the new one, and takes what waits in any
// case. A worker that is blocked in a call uses no core, so that is no reason against it; the one
// in its place goes when it computes again, unless tasks keep all processors then. A thread that
// was only short of a core does not keep its worker (run_watch.hpp). What a kept worker has
// gathered to send is handed over by the rescue signal, and its tasks go on with the others.
//
// Its life. It starts when all workers are ready and ends when all have left their loops. Where the
// system refuses the thread, the runtime says so in one line and works without: slices of chains
// still end by count and clock, but nobody asks a single long branch for anything.
//
// Rejected: a timer signal for each worker (it costs an interrupt for each slice, and its handler
// may do no more than set the same bit); the sentinel as the watchdog (while all are busy there is
// none, and that is when it is needed).
#pragma once

#include "lib/sched/run_watch.hpp"

#include <weft/detail/base/layer.hpp>
#include <weft/detail/sched/local_queue.hpp>
#include <weft/detail/sched/rest_word.hpp>
#include <weft/detail/sched/run_mark.hpp>
#include <weft/detail/sched/task_control.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace weft::detail {

class runtime_core;
class worker_thread;

class watchdog {
public:
    explicit watchdog(runtime_core& runtime) noexcept : runtime_(runtime) {}
    ~watchdog();
    watchdog(const watchdog&) = delete;
    watchdog& operator=(const watchdog&) = delete;

    /// Starter, when every worker is there and none has begun. Without a thread it says so in the
    /// log. Throws std::bad_alloc, and has then started nothing.
    void start(const sigset_t& mask_in_fork);
    /// Worker 0, when all workers have left their loops: returns when the thread has ended.
    void stop() noexcept;
    /// Has there been a thread? Constant from start() on.
    bool watches() const noexcept { return watches_; }

    /// A worker that is not parked: does it look around, also after that worker has parked with
    /// something that it has to be asked for?
    bool is_awake() const noexcept { return watches_ && rest_.is_watching(); }

    /// A worker that has found work after it was without: see rest_word.hpp.
    void work_begins() noexcept {
        if (rest_.begin_work()) [[unlikely]] { wake(); }
    }

    /// Whoever gives a control block back: see run_mark.hpp.
    examination<layer, task_control> examined;

    /// For tests: how often it has looked. Release and acquire: what a look does comes before.
    std::uint64_t looks() const noexcept { return looks_.load(std::memory_order_acquire); }
    bool rests() const noexcept { return rest_.value() == rest_.resting; }

private:
    using nanoseconds = std::chrono::nanoseconds;

    static constexpr nanoseconds shortest_sleep = std::chrono::milliseconds(1);
    static constexpr nanoseconds longest_sleep = std::chrono::milliseconds(4);
    /// How long a thread that has a processor may take to answer a signal; others are seen to at
    /// the next look.
    static constexpr nanoseconds answer_time = std::chrono::microseconds(50);
    /// Looks at the longest distance that see nothing, before it rests.
    static constexpr int quiet_looks = 25;

    struct watched {
        run_watch watch;
        thread_usage usage;
        bool measured = false;
        bool interrupted = false;
        bool awaited = false;         ///< Something waits for it, or for anybody.
        bool timer_waits = false;     ///< At the last look a timer of its heap was due.
        bool poller_waits = false;    ///< At the last look its poller had something for it.
        bool compensated = false;     ///< Another worker runs in its place.
        bool was_blocked = false;     ///< This one has been blocked since then.
        branch* seen_next = nullptr;  ///< In its runnext, at the last look.
    };
    enum class activity : std::uint8_t { none, some, lasting };

    void wake() noexcept;
    void run() noexcept;
    void rest() noexcept;
    bool any_wait_noted() noexcept;
    activity look_around(nanoseconds elapsed) noexcept;
    void look_at_global(nanoseconds elapsed) noexcept;
    void look_at(worker_thread& worker, watched& of, nanoseconds elapsed) noexcept;
    void let_in(worker_thread& worker, watched& of, nanoseconds elapsed) noexcept;
    void remind_of_waits() noexcept;
    bool runs_alone(const worker_thread& worker) noexcept;
    void relieve(worker_thread& worker, watched& of) noexcept;
    void take_queue(worker_thread& of, branch*& seen_next) noexcept;
    void take_timers(worker_thread& of) noexcept;
    bool take_for_owners() noexcept;
    void compensate() noexcept;
    void end_for_unblocked() noexcept;
    void start_compensating(watched& of) noexcept;
    void put_off(monotonic_time now, bool short_of_memory, std::string_view why) noexcept;
    void report_no_worker(std::string_view why) noexcept;
    void report_used_up() noexcept;
    void act(worker_thread& worker, const run_watch& watch, const watch_verdict& verdict) noexcept;
    void report(const worker_thread& worker, const run_watch& watch) noexcept;
    void watch_end(nanoseconds elapsed) noexcept;
    /// False: it has ended meanwhile, or there is no room for the line.
    bool report_task(const worker_thread& worker, const run_watch& watch, std::uint64_t left_out);
    std::string describe(const run_sight<branch>& seen);

    runtime_core& runtime_;
    rest_word<layer> rest_;
    std::atomic<std::uint64_t> looks_{0};
    std::vector<watched> watched_;
    /// Where branches lie on their way from one worker's queue to the global one.
    local_queue<layer, branch> in_passing_;
    bool global_waits_ = false;       ///< At the last look something was in the global queue.
    bool global_stands_ = false;      ///< Some of what was there a look ago still is.
    std::uint64_t global_until_ = 0;  ///< When so many were taken, none of that is there any more.
    report_limit limit_;
    monotonic_time next_attempt_ = 0;  ///< No compensating worker before.
    int short_attempts_ = 0;           ///< In a row, for which there was no memory.
    bool used_up_reported_ = false;
    monotonic_time next_used_up_ = 0;  ///< That is not reported before.
    bool failure_reported_ = false;
    nanoseconds ending_{0};    ///< Since the runtime was asked to end.
    nanoseconds stopping_{0};  ///< Since its workers were told to leave their loops.
    bool hang_reported_ = false;
    std::thread thread_;
    bool watches_ = false;
};

}  // namespace weft::detail
