// SPDX-License-Identifier: MIT
#include <weft/detail/task/children.hpp>

#include "lib/sched/runtime_core.hpp"
#include "lib/task/suppressed.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/detail/task/awaiter.hpp>
#include <weft/detail/task/first_awaiter.hpp>

#include <stdexcept>

namespace weft::detail {

[[gnu::hot]]
void awaited_child::finish(worker& on) noexcept {
    children_operation& of = *of_;
    of.decide(*this);
    leave_and_count_down(of.left_, on);
}

std::exception_ptr awaited_child::failure() const noexcept {
    return never_started() ? nullptr : as_base(frame()).promise().exception_;
}

[[gnu::hot]]
bool awaited_child::gave_value() const noexcept {
    return !never_started() && as_base(frame()).promise().exception_ == nullptr;
}

void awaited_child::rethrow() const {
    if (never_started()) { throw_stopped(outcome()); }
    if (const std::exception_ptr thrown = failure()) { std::rethrow_exception(thrown); }
}

[[gnu::hot]]
bool children_operation::start(branch& waiter) noexcept {
    // A stop that is there already ends the children, unstarted, and not this wait.
    static_cast<void>(prepare_park(waiter, *this));
    if (children_.empty()) { return true; }
    left_.begin(children_.size());
    branch_list started;
    for (awaited_child& each : children_) {
        each.of_ = this;
        each.prepare(waiter, *waiter.innermost);
    }
    for (awaited_child& each : children_.subspan(1)) { started.push_back(&each); }
    // Into runnext: it is what runs next on this worker.
    started.push_back(&children_.front());
    make_ready(started);
    return park(waiter, *this);
}

[[gnu::hot]]
void children_operation::decide(awaited_child& ended) noexcept {
    if (!first_.decide(ended)) [[likely]] { return; }
    branch_list readied;
    stop_scope(*ended.innermost, false, readied);
    make_ready(readied);
}

void children_operation::report_suppressed(const awaited_child* thrown) const noexcept {
    for (const awaited_child& each : children_) {
        if (&each == thrown) { continue; }
        if (std::exception_ptr failure = each.failure()) {
            report_suppressed_failure(each, std::move(failure));
        }
    }
}

void throw_no_children() {
    throw std::invalid_argument("weft: when_any or race of an empty range would wait for ever");
}

void children_operation::rethrow_first() const {
    const awaited_child* const failed = first();
    if (failed == nullptr) [[likely]] { return; }
    report_suppressed(failed);
    failed->rethrow();
}

}  // namespace weft::detail
