// SPDX-License-Identifier: MIT
#include <weft/detail/sync/once_operation.hpp>

#include "lib/sched/runtime_core.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/detail/sync/destroyed.hpp>

namespace weft::detail {

namespace {

// Each is ours, and its frame may be gone after its completion, so the link is read before.
void complete_all(once_caller* first) noexcept {
    branch_list readied;
    while (first != nullptr) {
        once_caller& each = *first;
        first = each.next;
        complete_waiter(*each.waiting, readied);
    }
    make_ready(readied);
}

[[maybe_unused]] bool runs(const once_caller& caller) noexcept {
    return caller.waiting->owner->runtime().phase() < runtime_phase::destroying;
}

[[maybe_unused]] bool nobody_runs(const once_caller* first) noexcept {
    for (; first != nullptr; first = first->next) {
        if (runs(*first)) return false;
    }
    return true;
}

}  // namespace

once_base::~once_base() {
    const auto gone = core.end();
    // A call must not outlive what it is made on. At the end of a runtime frames are destroyed in
    // any order, those with the object before those that use it.
    WEFT_EXPECT(gone.holder == nullptr || !runs(*gone.holder),
                "a weft::once was destroyed while a call does what it is for; join the tasks that "
                "use it before");
    WEFT_EXPECT(nobody_runs(gone.waiting),
                "a weft::once was destroyed while tasks wait for it; join them before");
    complete_all(gone.waiting);
}

once_call::~once_call() {
    if (!self.has_turn || self.orphaned) return;
    if (once_caller* const next = on->core.fail(self)) {
        next->next = nullptr;
        complete_all(next);
    }
}

void once_call::succeed() noexcept {
    if (!self.orphaned) complete_all(on->core.succeed(self));
}

bool once_operation::start(branch& waiter) noexcept {
    if (!prepare_park(waiter, *this)) return true;
    of_->self.waiting = &waiter;
    return of_->on->core.begin(of_->self) != once_step::waits || park(waiter, *this);
}

bool once_operation::has_turn() const {
    if (of_->self.has_turn) return true;
    if (of_->self.orphaned) [[unlikely]] { throw_destroyed(); }
    return false;
}

}  // namespace weft::detail
