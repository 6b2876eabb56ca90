// SPDX-License-Identifier: MIT
#include <weft/detail/task/cancel_scope.hpp>

#include <weft/detail/base/assert.hpp>
#include <weft/detail/sched/task_control.hpp>
#include <weft/detail/sched/worker.hpp>

namespace weft::detail {

namespace {

branch& running_branch() noexcept {
    worker* here = current_worker();
    if (here == nullptr || here->running() == nullptr) {
        fatal("a scope was opened where no task runs; co_await it inside a task");
    }
    return *here->running();
}

}  // namespace

cancel_scope::cancel_scope(scope_kind kind) : running_(running_branch()) {
    scope_.open(*running_.innermost, running_, child_branch::membership_of(running_), kind);
    running_.innermost = &scope_;
}

cancel_scope::~cancel_scope() {
    running_.innermost = scope_.parent();
    scope_.close(running_, running_.status == branch_status::running);
}

void cancel_scope::stop() noexcept {
    branch_list readied;
    stop_scope(scope_, false, readied);
    make_ready(readied);
}

}  // namespace weft::detail
