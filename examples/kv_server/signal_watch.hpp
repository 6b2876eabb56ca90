// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

namespace kv {

/// Turns the first SIGINT or SIGTERM into a request to stop, and the second into the end of the
/// process, by a thread that waits for them. To be made before any other thread, since it blocks
/// both signals and new threads inherit that; its end unblocks them for the calling thread.
class signal_watch {
public:
    signal_watch();
    signal_watch(const signal_watch&) = delete;
    signal_watch& operator=(const signal_watch&) = delete;
    ~signal_watch();

    std::stop_token stop_token() const { return stop_.get_token(); }

private:
    void watch();

    std::stop_source stop_;
    std::atomic<bool> ending_{false};
    std::thread thread_;
};

}  // namespace kv
