// SPDX-License-Identifier: MIT
#include <weft/detail/sync/barrier_operation.hpp>

#include <weft/detail/base/assert.hpp>
#include <weft/detail/sync/destroyed.hpp>

namespace weft::detail {

barrier_base::~barrier_base() {
    task_waiter* const waiting = core.end();
    // A task that waits must not outlive what it waits at. At the end of a runtime frames are
    // destroyed in any order, those with the barrier before those that wait at it.
    WEFT_EXPECT(nobody_runs(waiting),
                "a weft::barrier was destroyed while tasks wait at it; join them before");
    complete_all(waiting);
}

void barrier_base::end_phase(task_waiter* others) noexcept {
    complete_phase();
    complete_all(others);
}

void barrier_base::drop() noexcept {
    const arrival<task_waiter> dropped = core.drop();
    WEFT_EXPECT(dropped.expected,
                "more dropped out of a weft::barrier than it expects; each task that it was made "
                "for drops out once, and does not arrive after that");
    if (dropped.ends_phase) end_phase(dropped.others);
}

bool barrier_operation::start(branch& waiter) noexcept {
    if (!begin_wait(waiter)) return true;
    const arrival<task_waiter> arrived = at_->core.arrive(self_);
    if (!arrived.ends_phase) return park(waiter, *this);
    if (arrived.expected) at_->end_phase(arrived.others);
    return true;
}

void barrier_operation::check_alive() const {
    if (self_.orphaned) [[unlikely]] { throw_destroyed(); }
}

}  // namespace weft::detail
