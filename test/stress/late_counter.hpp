// SPDX-License-Identifier: MIT
#pragma once

#include "support/watchdog.hpp"

#include <atomic>
#include <chrono>
#include <thread>

namespace weft::test {

/// Counts reactions that took longer than the limit although the machine had a CPU for them.
///
/// What the threads of this process have waited for a CPU is sampled every 20 ms. From a late
/// reaction all is taken off that they have waited since the last sample before it began: on an
/// overloaded machine a thread that was woken in time may still run late.
class late_counter {
public:
    static constexpr std::chrono::milliseconds limit{100};

    late_counter() : sampler_([this] { sample(); }) {}
    ~late_counter() {
        ended_ = true;
        sampler_.join();
    }
    late_counter(const late_counter&) = delete;
    late_counter& operator=(const late_counter&) = delete;

    /// Any thread: something that began at that point was observed now.
    void observed(std::chrono::steady_clock::time_point began) {
        const auto took = std::chrono::steady_clock::now() - began;
        if (took <= limit) return;
        // The sample before the last may be older than the beginning; the last one need not be.
        const std::chrono::nanoseconds waited(waited_for_cpu().count() - older_.load());
        if (took - waited > limit) ++late_;
    }
    unsigned late() const { return late_; }

private:
    void sample() {
        std::int64_t last = waited_for_cpu().count();
        int rounds = 0;
        while (!ended_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            // Kept for 200 ms, which is older than the beginning of what is just late.
            if (++rounds % 10 == 0) {
                older_ = last;
                last = waited_for_cpu().count();
            }
        }
    }

    std::atomic<unsigned> late_{0};
    std::atomic<std::int64_t> older_{waited_for_cpu().count()};
    std::atomic<bool> ended_{false};
    std::thread sampler_;
};

}  // namespace weft::test
