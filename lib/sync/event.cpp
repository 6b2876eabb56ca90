// SPDX-License-Identifier: MIT
#include <weft/detail/sync/event_operation.hpp>

#include <weft/detail/base/assert.hpp>

namespace weft::detail {

event_base::~event_base() {
    task_waiter* const waiting = core.end();
    // A task that waits must not outlive what it waits for. At the end of a runtime frames are
    // destroyed in any order, those with the event before those that wait for it.
    WEFT_EXPECT(nobody_runs(waiting),
                "a weft::event, wait_group or latch was destroyed while tasks wait for it; join "
                "them before");
    complete_all(waiting);
}

bool event_base::lower(std::size_t by) noexcept {
    // The object may be gone when the first of them is complete.
    const lowered<task_waiter> done = core.lower(by);
    complete_all(done.gone);
    return done.enough;
}

[[gnu::hot]]
bool event_operation::start(branch& waiter) noexcept {
    return !begin_wait(waiter) || on_->core.wait(&self_) || park(waiter, *this);
}

// It has arrived also where its scope is stopped: the others must not wait for it in vain.
bool arrive_operation::start(branch& waiter) noexcept {
    const bool waits = begin_wait(waiter);
    const lowered<task_waiter> done = on_->core.lower(count_, waits ? &self_ : nullptr);
    WEFT_EXPECT(done.enough,
                "more have arrived at a weft::latch than it expects; make it for as many as "
                "arrive, or use a barrier, which is used again");
    complete_all(done.gone);
    return !waits || done.open || park(waiter, *this);
}

}  // namespace weft::detail
