// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>

#include <sys/types.h>
#include <time.h>

namespace weft::detail {

/// A thread, as others ask for what it does.
struct thread_name {
    ::pid_t id = 0;  ///< As the kernel calls it; 0: none.
    ::clockid_t clock = 0;

    static thread_name of_this_thread() noexcept;
};

/// How much of a time a thread has used. While the process is stopped, or the thread waits for a
/// processor that others have, it uses none, and nobody can blame it.
class thread_usage {
public:
    enum class kind : std::uint8_t { none, computed, blocked };
    struct used {
        std::chrono::nanoseconds time{0};
        kind how = kind::none;
    };

    /// Measures from now on.
    void begin(thread_name measured) noexcept;

    /// Of the last `elapsed`: how long it computed (its CPU clock tells), or was blocked in a call
    /// of the kernel (its state tells, which is asked only if the clock stands).
    used take(std::chrono::nanoseconds elapsed) noexcept;

private:
    thread_name measured_;
    std::chrono::nanoseconds clock_{0};
};

}  // namespace weft::detail
