// SPDX-License-Identifier: MIT
//
// The life of a task's control block, from its spawn to its last owner, without the type of the
// task's result.
#pragma once

#include <weft/detail/sched/task_control.hpp>

#include <coroutine>
#include <source_location>
#include <stop_token>
#include <string_view>

namespace weft::detail {

/// What spawn() needs to know, without the type of the task.
struct spawn_request {
    runtime_core* runtime;  ///< Null: that of the calling worker.
    std::string_view name;
    std::stop_token stop_token;
    std::source_location where;
};

/// Makes the control block. Null: the runtime is ending. Throws std::logic_error on a thread that
/// is no worker when no runtime is given, std::bad_alloc when there is no memory; nothing is
/// registered then.
task_control* prepare_spawn(const spawn_request& request);

/// Makes the task runnable; `frame` is its first frame, not started, whose promise is a
/// promise_base.
void launch(task_control& control, std::coroutine_handle<> frame) noexcept;

/// Any thread, while a handle keeps the control block: stops the root scope.
void request_stop(task_control& control) noexcept;

/// Gives a handle up: the task, or the caller if it has ended, cleans up.
void abandon(task_control* control) noexcept;
/// The same, where the handle was dropped instead of detached: reported in debug builds.
void abandon_silently(task_control* control) noexcept;

/// Destroys the first frame of a task that has ended and whose handle the caller holds, and gives
/// the control block back.
void dispose_joined(task_control* control) noexcept;

/// Blocks a thread that is no worker until the task has ended.
void wait_blocking(task_control* control, bool refused);

/// A wait for the end of a task could not be published: ends the process unless that is because the
/// task has ended meanwhile.
void check_finished(const task_control& joined) noexcept;

[[noreturn]] void throw_empty_handle();

}  // namespace weft::detail
