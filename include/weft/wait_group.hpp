// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/assert.hpp>
#include <weft/detail/sync/event_operation.hpp>

#include <cstddef>

namespace weft {

/// Waits for a number of things that is not known from the start (Go's sync.WaitGroup): add() says
/// that more are to be done, done() that one is, and wait() waits until none is left. It can be
/// used again. A task_group waits for tasks, and knows their failures; a latch counts once.
///
/// What was done before the last done() is seen by whoever has waited. Call add() before what it
/// counts can be done: before the spawn, not inside the task. Who waits takes no memory.
///
/// It must outlive those who use it: destroying it while a task waits is an assertion in debug
/// builds, and in others the wait throws errc::closed. Whoever has waited may destroy it at once,
/// although the last done() has not returned yet.
class wait_group : private detail::event_base {
public:
    explicit wait_group(std::size_t count = 0) noexcept : event_base(count) {}
    wait_group(const wait_group&) = delete;
    wait_group& operator=(const wait_group&) = delete;
    ~wait_group() = default;

    /// So many more are to be done. Whoever was let through by a done() before does not wait again.
    /// Any thread.
    void add(std::size_t n = 1) noexcept {
        [[maybe_unused]] const bool fits = core.raise(n);
        WEFT_EXPECT(fits,
                    "the count of a weft::wait_group is too high; add what is to be done, and call "
                    "done() for it");
    }

    /// One of them is done. After the last one all who wait go on, in the order in which they came;
    /// never resumes one of them inline: on a worker they go into its queue, the last one into
    /// runnext. Never waits. Any thread; one that is no worker holds a runtime::guard while tasks
    /// wait. More than were added is an assertion in debug builds, and has no effect in others.
    void done() noexcept {
        [[maybe_unused]] const bool was_added = lower(1);
        WEFT_EXPECT(was_added,
                    "more was done than was added to a weft::wait_group; call add() before what it "
                    "counts is spawned, and done() once for each");
    }

    /// How many are left. Others may change that at any time.
    std::size_t count() const noexcept { return core.count(); }

    /// `co_await wait()` suspends until none is left, and resumes on the worker that called the
    /// last done(), as far as that belongs to the task's runtime. Goes on at once where none is
    /// left. Throws operation_canceled (or timed_out) when the scope is stopped before that.
    [[nodiscard]] detail::event_awaiter wait() noexcept {
        return detail::event_awaiter(*this, detail::wait_reason::wait_group);
    }
};

}  // namespace weft
