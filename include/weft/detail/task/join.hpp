// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sched/task_life.hpp>
#include <weft/detail/task/awaiter.hpp>
#include <weft/task.hpp>

#include <coroutine>
#include <utility>

namespace weft::detail {

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
