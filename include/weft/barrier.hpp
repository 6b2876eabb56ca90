// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sync/barrier_operation.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

namespace weft {

/// What a barrier does at the end of a phase where nothing else was asked for.
struct no_completion {
    void operator()() const noexcept {}
};

/// Where a fixed number of tasks wait for each other, phase by phase (std::barrier): nobody goes on
/// with the next phase before all have arrived at the end of this one. See latch for a single
/// phase.
///
/// At the end of each phase the last one to arrive calls `completion`, before anybody goes on. It
/// must not throw, and must not destroy the barrier; it runs on the worker of that task, with no
/// lock held. What was done before each arrival is seen by it, and by all who go on.
///
/// Who waits takes no memory. A barrier must outlive those who wait at it: destroying it while a
/// task waits is an assertion in debug builds, and in others the wait throws errc::closed. Whoever
/// has passed the last phase may destroy it at once.
template <class Completion = no_completion>
class barrier final : private detail::barrier_base {
    static_assert(std::is_nothrow_invocable_v<Completion&>,
                  "weft: the completion of a barrier must be callable without arguments, and "
                  "noexcept, since all others wait for it");

public:
    explicit barrier(std::size_t expected, Completion completion = Completion())
        : barrier_base(expected), completion_(std::move(completion)) {}
    barrier(const barrier&) = delete;
    barrier& operator=(const barrier&) = delete;
    ~barrier() = default;

    /// `co_await arrive_and_wait()` suspends until as many have arrived as are expected, and
    /// resumes on the worker of the last one, as far as that belongs to the task's runtime. The
    /// last one goes on at once. Throws operation_canceled (or timed_out) when the scope is stopped
    /// before the phase is over; it has not arrived then, and the others go on waiting until
    /// somebody arrives, or drops, in its place. More who arrive than are expected belong to the
    /// next phase; if nobody is expected any more, they do not wait.
    [[nodiscard]] detail::barrier_awaiter arrive_and_wait() noexcept {
        return detail::barrier_awaiter(*this);
    }

    /// One fewer is expected, in this phase and from then on: for a task that leaves. If all others
    /// have arrived it ends the phase. Never waits, and resumes nobody inline. Any thread; one that
    /// is no worker holds a runtime::guard while tasks wait. If nobody is expected any more it is
    /// an assertion in debug builds, and has no effect in others.
    void arrive_and_drop() noexcept { drop(); }

private:
    void complete_phase() noexcept final { completion_(); }

    [[no_unique_address]] Completion completion_;
};

}  // namespace weft
