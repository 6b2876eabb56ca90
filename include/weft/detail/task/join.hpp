// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/task/awaiter.hpp>
#include <weft/detail/task/task_control.hpp>
#include <weft/task.hpp>

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

[[noreturn]] void throw_empty_handle();
[[noreturn]] void throw_stopped_by_runtime();

/// Moves the result of an ended task out and cleans up; the handle is empty afterwards.
template <class T>
T take_result(task_control*& control, bool& refused) {
    if (refused) {
        refused = false;
        throw_stopped_by_runtime();
    }
    if (control == nullptr) [[unlikely]] {
        throw_empty_handle();  // It was moved to another handle while it was awaited.
    }
    struct cleanup {
        task_control* ended;
        ~cleanup() { dispose_joined(ended); }
    } at_end{std::exchange(control, nullptr)};
    const std::coroutine_handle<> frame = at_end.ended->main_branch.handle;
    if (frame == nullptr) [[unlikely]] {
        throw_stopped_by_runtime();  // The runtime has ended and destroyed it where it waited.
    }
    return std::coroutine_handle<task_promise<T>>::from_address(frame.address()).promise().take();
}

/// The wait for the end of a task.
class join_operation : public operation {
public:
    explicit join_operation(task_control* joined) noexcept
        : operation(false, wait_reason::join), joined_(joined) {}

    bool start(branch& waiter) noexcept final;
    bool unlink() noexcept final;

protected:
    ~join_operation() = default;

private:
    task_control* joined_;
};

template <class T>
class [[nodiscard]] join_awaiter final : public awaiter<join_operation> {
public:
    join_awaiter(task_control*& control, bool& refused)
        : awaiter<join_operation>(control), control_(control), refused_(refused) {
        if (control == nullptr && !refused) { throw_empty_handle(); }
    }

    T await_resume() {
        if (!refused_) { throw_unless_completed(); }
        return take_result<T>(control_, refused_);
    }

private:
    task_control*& control_;
    bool& refused_;
};

}  // namespace weft::detail
