// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sched/task_life.hpp>
#include <weft/detail/sync/select_join.hpp>
#include <weft/detail/sync/select_operation.hpp>

namespace weft::detail {

/// A case that waits for the end of a task; null: one that the runtime has refused.
class select_end final : public select_happening, private end_listener {
public:
    explicit select_end(task_control* joined) noexcept : joined_(joined) {}
    /// Only of one that has not begun, as of all awaitables.
    select_end(const select_end& other) noexcept
        : select_happening(other), end_listener(), joined_(other.joined_) {}

    bool look(select_clock& clock) noexcept final;
    void arm(worker& here) noexcept final;
    void leave() noexcept final;
    bool made_by_tasks() const noexcept final;

private:
    void ended(branch_list& readied) noexcept final;

    task_control* joined_;
    select_join<layer, branch> join_;
};

}  // namespace weft::detail
