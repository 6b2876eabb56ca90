// SPDX-License-Identifier: MIT
#pragma once

#include <weft/deadlock.hpp>
#include <weft/detail/base/compiler.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <source_location>
#include <string_view>

namespace weft {

/// Which netpoller a runtime uses. The environment variable WEFT_NETPOLL (auto, io_uring, epoll)
/// comes before the option.
enum class netpoll_backend : unsigned char {
    automatic,  ///< io_uring, or epoll where io_uring cannot start; one log line tells.
    io_uring,   ///< io_uring, or an error that names the step and the errno.
    epoll,
};

/// An exception that left a task which nobody awaits, or a child of a task.
struct task_failure {
    std::uint64_t task_id = 0;
    std::string_view task_name;  ///< Empty if it has none.
    std::source_location spawn_site;
    std::exception_ptr exception;
    /// It has left a child of that task (when_all, task_group and their kind), after another child
    /// had failed, whose exception is the one that the task gets.
    bool suppressed = false;
};

/// How a runtime is made. Every member has a default that suits a server.
struct runtime_options {
    /// How many workers run tasks, from 1 to 1024. 0: as many as the machine gives this process,
    /// which is the smaller of the number of cores in its affinity mask and of the quota of its
    /// control group and of all groups above that (cgroup v1 and v2), rounded up. The environment
    /// variable WEFT_MAXPROCS comes before the option. Where the system refuses a thread there are
    /// fewer, and a line in the log says so.
    ///
    /// With 0 and without the variable the number follows the machine: mask and quota are read
    /// again once a second while tasks run, as if by runtime::set_processors(), until that is
    /// called. The mask is that of the thread which made the runtime, unless it was changed for all
    /// threads.
    unsigned processors = 0;

    /// Another worker runs in the place of one whose task does not come back: where each worker has
    /// run one task for 10 ms without an await that lets others in, or one is blocked in a call,
    /// and something waits that nobody else can take. It goes when that one is back. There are at
    /// most as many of them as processors, and they are kept for the next time; where one cannot be
    /// made, the log says so.
    ///
    /// What only the kept one could find out waits for it all the same: that a socket still has
    /// data although the read before got less than it asked for, which is so after an urgent byte
    /// (net/tcp.hpp).
    ///
    /// It is on by default because weft promises that one greedy task does not stop the others, and
    /// with one processor, or with all of them kept, nothing else could hold that promise. So one
    /// processor keeps two tasks from running at the same time, and all of them on the thread that
    /// called run(), only while none of them keeps it for 10 ms: a program whose tasks share data
    /// without locks, or rely on that thread, turns it off, and then what waits goes on waiting.
    bool compensate = true;

    /// Each worker keeps to one core: worker i to core i of the affinity mask of the thread that
    /// makes the runtime, counted from the first again where there are more workers than cores. A
    /// worker that only runs in the place of others (`compensate`) has all cores of that mask,
    /// until set_processors() makes it one of those that are wanted for good. The environment
    /// variable WEFT_PIN (0, 1) comes before the option. A thread or process that a task starts
    /// inherits the core of its worker, as it inherits every affinity; the threads of blocking()
    /// have all cores. The thread that calls run() gets its mask back at the end.
    bool pin = false;

    netpoll_backend netpoll = netpoll_backend::automatic;

    /// When the main task has returned, the tasks still alive are asked to stop and get this long
    /// to end by themselves; then they are destroyed where they wait. Not negative.
    std::chrono::nanoseconds shutdown_grace = std::chrono::seconds(1);

    /// How long the end of a runtime waits for a worker whose task does not come back from its own
    /// code, then for the log to return from each line that is left, and then for calls of
    /// blocking() that tasks wait for. Then on_hang is called. Time in which the whole process is
    /// stopped does not count. Positive.
    std::chrono::nanoseconds shutdown_timeout = std::chrono::seconds(10);

    /// A task that has kept its worker for so long without an await that lets others in (any that
    /// waits, yield(), or checkpoint()) is reported to the log, with its spawn site and its last
    /// await: at most one report a second, of one task again when it has lasted twice as long. Only
    /// time counts in which the thread computed or was blocked in a call. At least 10 ms; the
    /// longest duration turns reports off, though not processor_statistics::overruns.
    std::chrono::nanoseconds hog_report = std::chrono::milliseconds(100);

    /// A task that suspends, or ends, while it holds a lock of threads (a std::mutex, a
    /// std::shared_mutex or another lock of pthreads) is reported to the log, with its spawn site
    /// and the first await that the lock is held over; each place once. Only where weft was built
    /// to count locks, which replaces pthread_mutex_lock and its kind for the whole program: the
    /// build option held_locks, by default on in a debug build of weft itself without sanitizers.
    /// Elsewhere nothing is looked for, and nothing costs.
    bool report_held_locks = true;

    /// How many threads make the calls that are given to blocking(), from 1 to 65536. They are made
    /// when they are needed; calls beyond that queue, in order. A call that has queued for a second
    /// is reported to the log, once a minute at most while that lasts.
    unsigned blocking_threads = 512;

    /// How many calls may queue while all threads are busy. One more is refused: blocking() and
    /// blocking_detached() throw device_or_resource_busy.
    unsigned blocking_queue = 1'000'000;

    /// A thread that has made no call for so long ends. Positive.
    std::chrono::nanoseconds blocking_idle_time = std::chrono::seconds(10);

    /// What run() does when no task can ever go on.
    deadlock_action deadlock = deadlock_action::report;

    /// Called with an exception that left a task which nobody awaits, on whichever thread learns of
    /// it: the worker that ran the task, where it was detached before; else the thread that drops
    /// the handle, which may be one outside the runtime. Called as well with one that left a child
    /// after another child had failed (task_failure::suppressed), on a worker; and with the error
    /// of a queued call of blocking_detached() that no thread is left for, as one of the task that
    /// has made it, which may have ended. It must not throw: an exception ends the process.
    /// Default: reports task, spawn site and what() to the log, then calls std::terminate, but for
    /// a suppressed one.
    std::function<void(const task_failure&)> on_failure = nullptr;

    /// Called with a report when a task does not come back for shutdown_timeout while the runtime
    /// ends, or a call that was given to blocking() does not, or a destructor of what a task has
    /// left behind, or the log; once for each of the four. If it returns, the runtime goes on
    /// waiting. It runs on a thread of weft, or on the one that has called run() or made the
    /// runtime, and must not throw. Default: writes the report to the log, or, where it is about
    /// the log, to the standard error stream if that takes it at once, and calls std::terminate.
    /// Where the log is that stream and does not take the report for a second, the process ends
    /// without it, and without what the handler of std::terminate writes there.
    std::function<void(std::string_view)> on_hang = nullptr;

    /// Called with each line that weft reports, without a line feed, from any thread, also from
    /// several at a time. It must not throw: an exception ends the process. Default: writes it to
    /// the standard error stream. There also goes, whatever the log, the line by which weft ends
    /// the process after a misuse, and in debug builds the report of a task that is destroyed
    /// without having run on a thread that is no worker, since no runtime is known there.
    ///
    /// It must not block. What it keeps waiting then is whoever has something to say of its own:
    /// the start of a runtime, a task that drops a handle or fails, and the end of the runtime,
    /// which comes when all is written (see shutdown_timeout). Lines about tasks that run for long,
    /// about processors and about calls that wait come from a thread for such lines alone, so no
    /// other task is kept; up to 32 of them wait for that thread, more are left out, and how many
    /// were is told afterwards.
    /// Where the system refuses that thread, the one that watches over the tasks waits: until it
    /// can go on, no task is asked to yield, none runs in the place of one that keeps its worker, a
    /// wait for a socket may be late, and nothing is said about what keeps the end. Where it
    /// refuses both, the worker waits that has something to say.
    std::function<void(std::string_view)> log = nullptr;

    /// Ignore SIGPIPE while its disposition is the default one, so that writing to a pipe or socket
    /// whose reader has gone gives an error instead of ending the process. A program that this
    /// process executes inherits that: where it counts on SIGPIPE, restore the default action first
    /// (signal(2) in the child of a fork, posix_spawnattr_setsigdefault).
    bool ignore_sigpipe = true;
};

}  // namespace weft
