// SPDX-License-Identifier: MIT
#pragma once

#include "lib/sched/runtime_core.hpp"

#include <weft/detail/sched/task_control.hpp>
#include <weft/detail/sched/worker.hpp>

#include <cstdint>

// Who holds a lock, and may unlock it.

namespace weft::detail {

/// The id of the task that the calling thread runs; 0: none.
inline std::uint64_t running_task() noexcept {
    worker* const here = current_worker();
    const branch* const running = here != nullptr ? here->running() : nullptr;
    return running != nullptr ? running->owner->id : 0;
}

/// Does the calling worker destroy what is left of its runtime's tasks? Then frames go in any
/// order.
inline bool destroys_frames() noexcept {
    worker* const here = current_worker();
    return here != nullptr && here->runtime().phase() >= runtime_phase::destroying;
}

/// May the caller unlock what this task holds? What it is not known of it may: of a thread outside,
/// and of frames that are destroyed at the end of a runtime.
inline bool may_unlock(std::uint64_t holder) noexcept {
    const std::uint64_t caller = running_task();
    return caller == 0 || holder == 0 || caller == holder;
}

/// For the assertion of a lock that is destroyed while these, linked through `next`, wait.
template <class Waiter>
bool only_leftovers_wait(const Waiter* first) noexcept {
    for (; first != nullptr; first = first->next) {
        if (first->waiting->owner->runtime().phase() < runtime_phase::destroying) return false;
    }
    return true;
}

/// The waiter is off its list, with its result set: its task goes on. With no lock held.
template <class Waiter>
void complete_holder(Waiter& waiter) noexcept {
    branch_list readied;
    complete_waiter(*waiter.waiting, readied);
    make_ready(readied);
}

}  // namespace weft::detail
