// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/clock.hpp>
#include <weft/detail/base/layer.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace weft::detail {

/// For how long the kernel has refused to let a ring be entered. What lies between two attempts
/// that were refused counts, but not more of it than `longest_gap`: a worker that was kept by a
/// task, or had nothing to ask for, has not been refused meanwhile. So it takes a number of
/// attempts to fill any time, however rarely they are made.
class refusal_time {
public:
    using nanoseconds = std::chrono::nanoseconds;
    static constexpr nanoseconds longest_gap = std::chrono::milliseconds(100);

    /// The kernel has let somebody enter: the owner, or a signal handler on its thread. Relaxed,
    /// all of these: there is no other thread, and the handler only needs them not to be torn.
    void admitted() noexcept { last_.store(no_deadline, std::memory_order_relaxed); }

    /// Owner: an attempt was refused. Gives the time so far.
    nanoseconds refused(monotonic_time now) noexcept {
        const monotonic_time last = last_.exchange(now, std::memory_order_relaxed);
        so_far_ = last == no_deadline
                      ? nanoseconds::zero()
                      : so_far_ + std::min(nanoseconds(now - last), longest_gap);
        return so_far_;
    }

    /// Was the last attempt refused?
    bool lasts() const noexcept { return last_.load(std::memory_order_relaxed) != no_deadline; }

private:
    layer::atomic<monotonic_time> last_{no_deadline};  ///< The last refusal.
    nanoseconds so_far_{0};
};

}  // namespace weft::detail
