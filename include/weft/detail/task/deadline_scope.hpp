// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/clock.hpp>
#include <weft/detail/base/layer.hpp>
#include <weft/detail/sched/task_control.hpp>
#include <weft/detail/time/timer_heap.hpp>

namespace weft::detail {

/// A cancel scope of the running branch, from construction to destruction, that is stopped at a
/// deadline. It lies in the frame of the coroutine that opens it.
///
/// The end waits for a timer that was collected at that moment: fire() touches the scope, and its
/// last touch is the store to `fired_`. What it does in between is setting words and taking
/// operations off their objects, and no other timer of its batch, which may be fired before, blocks
/// or runs code of the user (timer::fire). So the wait is as short as that for a spin lock, unless
/// the system takes the processor from the thread that fires; hence it yields its own.
class deadline_scope final : private timer {
public:
    /// Opens the scope. A deadline in the past stops it from the start. Throws std::bad_alloc, and
    /// has then opened nothing.
    explicit deadline_scope(monotonic_time deadline);
    ~deadline_scope();
    deadline_scope(const deadline_scope&) = delete;
    deadline_scope& operator=(const deadline_scope&) = delete;

private:
    void fire(branch_list& readied) noexcept override;

    branch& running_;
    nested_scope scope_;
    bool timed_ = false;
    layer::atomic<bool> fired_{false};
};

}  // namespace weft::detail
