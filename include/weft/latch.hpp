// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/assert.hpp>
#include <weft/detail/sync/event_operation.hpp>

#include <cstddef>

namespace weft {

/// Counts down once: tasks wait until so many things have happened as were expected (std::latch).
/// See barrier for one that is used again, and wait_group for a count that may rise.
///
/// What was done before each count_down() is seen by whoever has waited. Who waits takes no memory.
///
/// It must outlive those who wait at it: destroying it while a task waits is an assertion in debug
/// builds, and in others the wait throws errc::closed. Whoever has waited may destroy it at once,
/// although the last count_down() has not returned yet.
class latch : private detail::event_base {
public:
    explicit latch(std::size_t expected) noexcept : event_base(expected) {}
    latch(const latch&) = delete;
    latch& operator=(const latch&) = delete;
    ~latch() = default;

    /// So many more have happened. At zero all who wait go on, in the order in which they came;
    /// never resumes one of them inline: on a worker they go into its queue, the last one into
    /// runnext. Never waits. Any thread; one that is no worker holds a runtime::guard while tasks
    /// wait. More than were expected is an assertion in debug builds, and zero in others.
    void count_down(std::size_t n = 1) noexcept {
        [[maybe_unused]] const bool was_expected = lower(n);
        WEFT_EXPECT(was_expected,
                    "a weft::latch was counted down below zero; make it for as many as count down");
    }

    /// Has everything happened? Any thread.
    bool try_wait() const noexcept { return core.count() == 0; }

    /// `co_await wait()` suspends until everything has happened, and resumes on the worker that
    /// counted down to zero, as far as that belongs to the task's runtime. Goes on at once after
    /// that. Throws operation_canceled (or timed_out) when the scope is stopped before.
    [[nodiscard]] detail::event_awaiter wait() noexcept {
        return detail::event_awaiter(*this, detail::wait_reason::latch);
    }

    /// `co_await arrive_and_wait()` counts down by n, in one step with the wait that follows. It
    /// has counted down also where it throws, so that nobody waits in vain for a task that is
    /// stopped.
    [[nodiscard]] detail::arrive_awaiter arrive_and_wait(std::size_t n = 1) noexcept {
        return detail::arrive_awaiter(*this, n, detail::wait_reason::latch);
    }
};

}  // namespace weft
