// SPDX-License-Identifier: MIT
#include <weft/detail/sync/select_end.hpp>

#include <weft/detail/base/assert.hpp>
#include <weft/detail/sched/task_control.hpp>

namespace weft::detail {

bool select_end::look(select_clock&) noexcept {
    return joined_ == nullptr || joined_->join.finished();
}

void select_end::arm(worker&) noexcept {
    if (join_.publish(joined_->join, as_waiter())) return;
    check_finished(*joined_);
    branch_list readied;
    ended(readied);
    WEFT_ASSERT(readied.empty());  // The branch has not parked yet.
}

void select_end::ended(branch_list& readied) noexcept {
    branch& waiting = this->waiting();  // The frame may be gone after the last touch.
    if (join_.happen(word(), index())) complete_waiter(waiting, readied);
}

void select_end::leave() noexcept {
    if (joined_ != nullptr) join_.leave(joined_->join, as_waiter(), word(), index());
}

bool select_end::made_by_tasks() const noexcept {
    return &joined_->runtime() == &waiting().owner->runtime();
}

}  // namespace weft::detail
