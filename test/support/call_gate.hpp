// SPDX-License-Identifier: MIT
#pragma once

#include <weft/sleep.hpp>
#include <weft/task.hpp>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace weft::test {

/// Holds calls that block until it is opened.
class call_gate {
public:
    void open() {
        const std::lock_guard held(mutex_);
        open_ = true;
        changed_.notify_all();
    }
    void pass() {
        std::unique_lock held(mutex_);
        ++inside_;
        changed_.wait(held, [this] { return open_; });
    }
    /// How many calls have come so far.
    int inside() {
        const std::lock_guard held(mutex_);
        return inside_;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = false;
    int inside_ = 0;
};

/// Looks again and again, in a task that lets the others run. A test that waits so has a watchdog.
inline task<> until(std::function<bool()> condition) {
    while (!condition()) co_await sleep_for(std::chrono::microseconds(100));
}

}  // namespace weft::test
