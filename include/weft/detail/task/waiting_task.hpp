// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sched/promise.hpp>
#include <weft/task.hpp>

#include <utility>

namespace weft::detail {

/// A task on its way to be awaited. It does not have to be started.
template <class T>
class waiting_task {
public:
    explicit waiting_task(task<T>&& waiting) noexcept : task_(std::move(waiting)) {}
    waiting_task(waiting_task&&) noexcept = default;
    waiting_task& operator=(waiting_task&&) = delete;
    ~waiting_task() {
        if (task_) { destroy_refused(task_.release_frame()); }
    }
    task<T> take() noexcept { return std::move(task_); }

private:
    task<T> task_;
};

}  // namespace weft::detail
