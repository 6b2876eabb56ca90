// SPDX-License-Identifier: MIT
#include <weft/detail/task/local_values.hpp>

#include <weft/detail/base/assert.hpp>
#include <weft/detail/branch/child_branch.hpp>
#include <weft/detail/sched/task_control.hpp>
#include <weft/detail/sched/worker.hpp>

#include <stdexcept>

namespace weft::detail {

namespace {

/// Null where no task runs.
branch* running_branch() noexcept {
    worker* const here = current_worker();
    return here != nullptr ? here->running() : nullptr;
}

branch& branch_that_binds() {
    branch* const running = running_branch();
    if (running == nullptr) {
        throw std::logic_error(
            "weft: a value was bound to a task_local where no task runs; bind it inside a task");
    }
    return *running;
}

}  // namespace

local_scope::local_scope(bound_values values)
    : running_(branch_that_binds()), scope_(std::move(values)) {
    scope_.open(*running_.innermost, running_, child_branch::membership_of(running_),
                scope_kind::binding);
    running_.innermost = &scope_;
}

local_scope::~local_scope() {
    WEFT_EXPECT(running_.innermost == &scope_,
                "a binding of a task_local ended before one that was made after it, or in another "
                "task; keep it in a variable of the coroutine that has made it");
    running_.innermost = scope_.parent();
    scope_.close(running_, running_.status == branch_status::running);
}

bound_value* local_scope::values_in(scope& inside, const scope& root) noexcept {
    scope* at = &inside;
    while (at != &root) {
        auto& nested = static_cast<nested_scope&>(*at);
        if (nested.binds()) { return static_cast<binding_scope&>(nested).values.first(); }
        at = nested.parent();
    }
    return nullptr;
}

bound_value* values_of_running_branch() noexcept {
    const branch* const running = running_branch();
    if (running == nullptr) { return nullptr; }
    return local_scope::values_in(*running->innermost, running->owner->root_scope);
}

bound_value* values_to_hand_on(const branch& of, scope& in) noexcept {
    bound_value* const here = values_of_running_branch();
    const bound_value* const there = local_scope::values_in(in, of.owner->root_scope);
    return here == there ? nullptr : here;
}

}  // namespace weft::detail
