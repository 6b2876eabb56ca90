// SPDX-License-Identifier: MIT
#pragma once

#include <weft/runtime.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace weft::test {

/// Aborts the process, with a text that tells where it stands, when nobody calls progress() for so
/// long, or for up to ten times as long while its threads wait for a CPU most of the time. For
/// tests that would otherwise hang when a wake-up is lost.
class watchdog {
public:
    explicit watchdog(std::chrono::seconds limit, std::function<std::string()> describe);
    ~watchdog();
    watchdog(const watchdog&) = delete;
    watchdog& operator=(const watchdog&) = delete;

    /// Any thread. Relaxed: only that it changes matters.
    void progress() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }

private:
    void watch();

    const std::chrono::seconds limit_;
    const std::function<std::string()> describe_;
    std::atomic<std::uint64_t> count_{0};
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ended_ = false;
    std::thread thread_;
};

/// All counters of a runtime, one processor a line.
std::string describe(const runtime_statistics& statistics);

/// How long the threads of this process have waited for a CPU, all together, since they exist. A
/// late reaction counts against weft only as far as the machine was not busy with something else.
std::chrono::nanoseconds waited_for_cpu();

}  // namespace weft::test
