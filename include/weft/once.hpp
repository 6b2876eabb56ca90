// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sync/once_operation.hpp>
#include <weft/spawn.hpp>
#include <weft/task.hpp>

#include <functional>
#include <utility>

namespace weft {

/// Has something done once, by the first task that needs it, while others wait for that
/// (std::call_once; Go's sync.Once). Where it fails, the next task tries.
///
/// It must outlive those who use it: destroying it while a call has not ended is an assertion in
/// debug builds; in others those who wait get errc::closed.
class once : private detail::once_base {
public:
    once() noexcept = default;
    once(const once&) = delete;
    once& operator=(const once&) = delete;
    ~once() = default;

    /// `co_await call_once(function, arguments...)` awaits the task that `function(arguments...)`
    /// gives, unless one has ended well before, and gives true if this call has done so. Both are
    /// moved into the frame, as co_spawn() does it.
    ///
    /// While another call does it, this one waits, and resumes on that one's worker, as far as that
    /// belongs to its runtime. What was done is seen by all whose calls have returned. An exception
    /// leaves the call that it comes from, and the one that has waited longest is the next to try:
    /// also where a task is stopped while it does it, or destroyed at the end of its runtime.
    /// Throws operation_canceled (or timed_out) when the scope of this task is stopped while it
    /// waits. A function that calls the same object waits for itself.
    template <class Function, class... Arguments>
        requires detail::task_function<Function, Arguments...>
    task<bool> call_once(Function function, Arguments... arguments) {
        if (is_done()) co_return false;
        detail::once_call call(*this);
        detail::once_awaiter turn(call);
        const bool has_turn = co_await turn;
        if (!has_turn) co_return false;
        co_await std::invoke(std::move(function), std::move(arguments)...);
        call.succeed();
        co_return true;
    }

    /// Has it been done? Then what it did is visible. Any thread.
    bool is_done() const noexcept { return core.is_done(); }
};

}  // namespace weft
