// SPDX-License-Identifier: MIT
#include <weft/detail/sync/task_waiter.hpp>

#include "lib/sched/runtime_core.hpp"

namespace weft::detail {

[[gnu::hot]]
void complete(task_waiter& waiter) noexcept {
    branch_list readied;
    complete_waiter(*waiter.waiting, readied);
    make_ready(readied);
}

void complete_all(task_waiter* first) noexcept {
    branch_list readied;
    while (first != nullptr) {
        // Its frame may be gone after its completion, so the link is read before.
        task_waiter& each = *first;
        first = each.next;
        complete_waiter(*each.waiting, readied);
    }
    make_ready(readied);
}

bool nobody_runs(const task_waiter* first) noexcept {
    for (; first != nullptr; first = first->next) {
        if (first->waiting->owner->runtime().phase() < runtime_phase::destroying) return false;
    }
    return true;
}

}  // namespace weft::detail
