// SPDX-License-Identifier: MIT
#include <weft/detail/task/deadline_scope.hpp>

#include <weft/detail/base/assert.hpp>
#include <weft/detail/branch/child_branch.hpp>
#include <weft/detail/sched/worker.hpp>

namespace weft::detail {

namespace {

branch& running_branch() noexcept {
    worker* here = current_worker();
    if (here == nullptr || here->running() == nullptr) {
        fatal("a deadline was set where no task runs; co_await with_timeout inside a task");
    }
    return *here->running();
}

}  // namespace

deadline_scope::deadline_scope(monotonic_time deadline) : running_(running_branch()) {
    worker& here = *running_.current;
    scope& parent = *running_.innermost;
    const bool late_already = deadline <= monotonic_now();
    // The scope is open before the timer is set, since the timer may fire at once. A failure of
    // add() closes it again.
    scope_.open(parent, running_, child_branch::membership_of(running_));
    running_.innermost = &scope_;
    if (late_already) {
        branch_list none;  // The branch runs, so nothing is parked inside.
        stop_scope(scope_, true, none);
        WEFT_ASSERT(none.empty());
        return;
    }
    if (deadline == no_deadline) {
        return;
    }
    try {
        here.timers().add(*this, deadline);
    } catch (...) {
        running_.innermost = scope_.parent();
        scope_.close(running_);
        throw;
    }
    timed_ = true;
    here.timer_added();
}

deadline_scope::~deadline_scope() {
    if (timed_ && !timer_heap::remove(*this)) {
        // Acquire pairs with the release in fire().
        while (!fired_.load(std::memory_order_acquire)) {
            layer::yield_thread();
        }
    }
    running_.innermost = scope_.parent();
    scope_.close(running_, running_.status == branch_status::running);
}

void deadline_scope::fire(branch_list& readied) noexcept {
    stop_scope(scope_, true, readied);
    // Release publishes that this thread is done with the scope; nothing is touched afterwards.
    fired_.store(true, std::memory_order_release);
}

}  // namespace weft::detail
