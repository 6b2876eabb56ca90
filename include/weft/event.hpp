// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sync/event_operation.hpp>

namespace weft {

/// Something that happens, and has happened from then on: tasks wait for it, and all of them go on
/// once it is set (a manual reset event). It stays set until it is reset, so those who come later
/// do not wait. See auto_reset_event for one that lets one task through for each set().
///
/// What was done before set() is seen by whoever has waited. Who waits takes no memory.
///
/// It must outlive those who wait for it: destroying it while a task waits is an assertion in debug
/// builds, and in others the wait throws errc::closed. Whoever has waited may destroy it at once,
/// although the set() that woke it has not returned yet.
class event : private detail::event_base {
public:
    explicit event(bool set = false) noexcept : event_base(set ? 0 : 1) {}
    event(const event&) = delete;
    event& operator=(const event&) = delete;
    ~event() = default;

    /// All who wait go on, in the order in which they came; never resumes one of them inline: on a
    /// worker they go into its queue, the last one into runnext. Has no effect on an event that is
    /// set. Never waits. Any thread; one that is no worker holds a runtime::guard while tasks wait.
    void set() noexcept { open(); }

    /// From now on tasks wait again. Whoever waited when it was set goes on all the same, also
    /// where it has not run yet. Any thread.
    void reset() noexcept { core.close(); }

    /// Others may change that at any time. Any thread.
    bool is_set() const noexcept { return core.count() == 0; }

    /// `co_await wait()` suspends until the event is set, and resumes on the worker that set it, as
    /// far as that belongs to the task's runtime. Goes on at once where it is set. Throws
    /// operation_canceled (or timed_out) when the scope is stopped before it was set.
    [[nodiscard]] detail::event_awaiter wait() noexcept {
        return detail::event_awaiter(*this, detail::wait_reason::event);
    }
};

}  // namespace weft
