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
T take_result(held_task& awaited) {
    if (awaited.take_refusal()) { throw_stopped_by_runtime(); }
    if (awaited.control() == nullptr) [[unlikely]] {
        throw_empty_handle();  // It was moved to another handle while it was awaited.
    }
    struct cleanup {
        task_control* ended;
        ~cleanup() { dispose_joined(ended); }
    } at_end{awaited.take()};
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
    bool completed_by_tasks() const noexcept final;

protected:
    ~join_operation() = default;

private:
    task_control* joined_;
};

template <class T>
class [[nodiscard]] join_awaiter final : public awaiter<join_operation> {
public:
    explicit join_awaiter(held_task& awaited)
        : awaiter<join_operation>(awaited.control()), awaited_(awaited) {
        if (awaited.empty()) { throw_empty_handle(); }
    }

    T await_resume() {
        if (awaited_.refused()) {
            this->await_is_over();
        } else {
            throw_unless_completed();
        }
        return take_result<T>(awaited_);
    }

private:
    held_task& awaited_;
};

}  // namespace weft::detail
