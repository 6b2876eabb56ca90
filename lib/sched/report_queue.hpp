// SPDX-License-Identifier: MIT
//
// Lines for the log that are written by a thread of their own.
//
// runtime_options::log is the user's code, and the standard error stream may be a pipe that nobody
// reads: either may keep whoever writes a line, for as long as it likes. A task that writes one
// keeps its worker, as with any other call that blocks, and others are seen to. The watchdog must
// not be kept, since all rely on it: it asks tasks to yield, rescues sockets, starts compensating
// workers, and wakes whoever sleeps over an unverified wait. Nor must whoever fires timers, since
// the others of the batch wait for him, and those that end their operations wait for these. So both
// leave their lines here.
//
//     say()      puts the line into a ring of fixed size, and starts the thread with the first one
//     thread     takes the lines out, in order, and logs them with nothing locked
//     stop()     ends the thread when the ring is empty; so the end of a runtime writes all
//
// A runtime that has nothing to say has no such thread. While the log does not return, the ring
// fills up; what finds it full is left out, and counted in the last line that did not: that one is
// followed by another that tells how many were. Whoever says something only once has not said it
// then, and says it again. A log that does not return at the end is reported as what else keeps the
// end (runtime_options::on_hang).
//
// Where the system refuses the thread, the next line tries again; meanwhile the watchdog writes
// what is there itself, between two looks, and a log that blocks then blocks it. It does not rest
// while a line is unserved: it stores that it rests and then asks for such lines, whoever says one
// stores that it is there and then looks whether the watchdog rests, and wakes it; all of that is
// sequentially consistent, so one of them sees the other (rest_word.hpp has the same for workers).
// Without a watchdog whoever says something writes it, since nobody else would.
//
// Who may touch what: everything under the mutex, which nobody holds while he logs.
//
// Rejected: to have the watchdog say that it does not look while it logs, so that nobody relies on
// it: what was noted before would wait all the same, as would the tasks behind one that keeps its
// worker. A machine of the blocking pool: that all of them are busy is one of the lines.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace weft::detail {

class runtime_core;

class report_queue {
public:
    explicit report_queue(runtime_core& runtime) noexcept : runtime_(runtime) {}
    ~report_queue() { stop(); }
    report_queue(const report_queue&) = delete;
    report_queue& operator=(const report_queue&) = delete;

    /// Any thread that holds no lock of weft but that of the controllers. Does not wait for the
    /// log, unless there is neither a thread for it nor a watchdog. Needs no memory but for the
    /// thread. False: there was no room, or the runtime has ended, and nobody will read the line.
    bool say(std::string line) noexcept { return put({std::move(line), {}}); }
    /// The same for a text that is never destroyed, where there is no memory for another.
    bool say_in_short(std::string_view literal) noexcept { return put({{}, literal}); }

    /// Watchdog: writes what is there if the thread could not be started.
    void write_unserved() noexcept;
    /// Watchdog, about to rest: are there such lines? seq_cst: see the head of this file.
    bool any_unserved() const noexcept { return unserved_.load(std::memory_order_seq_cst); }
    /// Starter: there is no watchdog, and will be none.
    void go_unwatched() noexcept;

    /// Whoever ends the runtime, or its start, when no worker and no watchdog runs any more:
    /// returns when all is written. If the log does not return for shutdown_timeout, says so; see
    /// runtime_options::on_hang. What is said afterwards is left out.
    void stop() noexcept;

private:
    struct entry {
        std::string line;
        std::string_view literal;
        std::uint64_t left_out = 0;  ///< Lines that found no room behind this one.
    };

    bool put(entry said) noexcept;
    bool start_thread() noexcept;
    void run() noexcept;
    void write(const entry& said) noexcept;
    void write_first(std::unique_lock<std::mutex>& held) noexcept;
    void write_all(std::unique_lock<std::mutex>& held) noexcept;
    void await_thread(std::unique_lock<std::mutex>& held) noexcept;
    void tell_left_out(std::uint64_t count) noexcept;

    runtime_core& runtime_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::array<entry, 32> ring_;
    std::size_t first_ = 0;
    std::size_t count_ = 0;
    std::uint64_t written_ = 0;
    bool unwatched_ = false;
    bool ending_ = false;
    bool ended_ = false;  ///< The thread, as far as it needs the runtime.
    /// Lines are there, and no thread. Relaxed but for who is about to rest, and who wakes him: the
    /// mutex orders the rest.
    std::atomic<bool> unserved_{false};
    std::thread thread_;
};

}  // namespace weft::detail
