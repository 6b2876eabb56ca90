// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sync/permit_operation.hpp>

namespace weft {

/// An event that lets one task through for each set(): the one that has waited longest, or, if none
/// waits, the next one that does. See event for one that lets all of them through until it is
/// reset, and semaphore for one that counts.
///
/// It remembers one set(): further ones, until a task has been let through, have no effect. What
/// was done before set() is seen by the task that it lets through. Who waits takes no memory. A
/// task that is destroyed at the end of its runtime, after it was let through and before it could
/// run, lets the next one through instead.
///
/// It must outlive those who use it: destroying it while a task waits is an assertion in debug
/// builds, and in others the wait throws errc::closed. Whoever has been let through last may
/// destroy it at once, although that set() has not returned yet.
class auto_reset_event : private detail::semaphore_base {
public:
    explicit auto_reset_event(bool set = false) : semaphore_base(set ? 1 : 0, 1) {}
    auto_reset_event(const auto_reset_event&) = delete;
    auto_reset_event& operator=(const auto_reset_event&) = delete;
    ~auto_reset_event() = default;

    /// Lets one task through; never resumes it inline: on a worker it goes into its runnext. Never
    /// waits. Any thread; one that is no worker holds a runtime::guard while tasks wait.
    void set() noexcept { static_cast<void>(release(1)); }

    /// Takes a set() back that has let nobody through yet. False: there was none. Any thread.
    bool reset() noexcept { return core.acquire(1, nullptr); }

    /// Would the next wait() go on at once? Others may change that at any time. Any thread.
    bool is_set() const noexcept { return core.permits() != 0; }

    /// `co_await wait()` suspends until a set() lets this task through, and resumes on the worker
    /// that did it, as far as that belongs to the task's runtime. Goes on at once where it is set,
    /// and resets it. Throws operation_canceled (or timed_out) when the scope is stopped, and has
    /// used up no set() then: a task that had been let through before goes on without a throw.
    [[nodiscard]] detail::permit_awaiter wait() noexcept {
        return detail::permit_awaiter(*this, 1, detail::wait_reason::event);
    }
};

}  // namespace weft
