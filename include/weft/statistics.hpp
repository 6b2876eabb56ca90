// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/compiler.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// Whether a processor runs tasks.
enum class processor_state : unsigned char {
    running,
    retiring,  ///< It was taken out of use, and its task, or its ring, has not ended yet.
    retired,   ///< It is out of use, and costs memory only.
};

/// What one processor has done since the start of its runtime.
struct processor_statistics {
    processor_state state = processor_state::running;  ///< Now.
    std::uint64_t tasks_run = 0;  ///< Resumes of a branch, each from one wait to the next.
    std::uint64_t spawned = 0;    ///< Tasks spawned by what ran here.
    std::uint64_t ended = 0;      ///< Tasks that ended here.
    std::uint64_t steals = 0;     ///< Branches taken from other processors.
    std::uint64_t parks = 0;      ///< Times the worker went to sleep.
    std::uint64_t wakes = 0;      ///< Times it woke another worker.
    std::uint64_t overflows = 0;  ///< Half rings moved to the global queue.
    std::uint64_t timers = 0;     ///< Timers fired here.
    /// Branches that kept the worker for 10 ms or more without an await that let others in.
    std::uint64_t overruns = 0;
};

/// A snapshot of the counters of a runtime. Each number is exact for some moment during the call;
/// they need not be of the same moment.
struct runtime_statistics {
    /// All that have ever been in use; those that set_processors() took out of use stay, and so do
    /// those that ran in the place of one that was kept (runtime_options::compensate).
    std::vector<processor_statistics> processors;
    std::uint64_t compensations = 0;    ///< How often another worker ran in the place of one.
    std::uint64_t spawned_outside = 0;  ///< Tasks spawned by threads outside the runtime.
    std::uint64_t blocking_calls = 0;   ///< Calls given to blocking() and blocking_detached().
    std::uint64_t blocking_threads = 0; ///< Threads for them that exist now.
    std::uint64_t blocking_queued = 0;  ///< Calls that wait for a thread now.
    std::chrono::nanoseconds blocking_longest_wait{0};  ///< How long the first of them has waited.
    std::uint64_t blocking_waited = 0;  ///< Calls that had to wait, since all threads were busy.
    std::uint64_t blocking_refused = 0;  ///< Calls that were refused for that reason.
    std::string netpoller;              ///< "io_uring" or "epoll"

    std::uint64_t tasks_spawned() const noexcept {
        std::uint64_t sum = spawned_outside;
        for (const auto& each : processors) {
            sum += each.spawned;
        }
        return sum;
    }
    /// Tasks that have been spawned and have not ended.
    std::uint64_t tasks_alive() const noexcept {
        std::uint64_t sum = tasks_spawned();
        for (const auto& each : processors) {
            sum -= each.ended;
        }
        return sum;
    }
};

}  // namespace weft
