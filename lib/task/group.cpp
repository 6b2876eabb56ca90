// SPDX-License-Identifier: MIT
#include <weft/detail/task/group.hpp>

#include "lib/sched/runtime_core.hpp"
#include "lib/sched/worker_thread.hpp"
#include "lib/task/suppressed.hpp"

#include <weft/detail/sched/frame_cache.hpp>
#include <weft/detail/sched/promise.hpp>

#include <utility>

namespace weft::detail {

void* group_child::operator new(std::size_t size) {
    return allocate_frame(size);
}

void group_child::operator delete(void* memory, std::size_t size) noexcept {
    deallocate_frame(memory, size);
}

[[gnu::hot]]
void group_child::finish(worker& on) noexcept {
    group_base& of = *of_;
    branch& parent = *this->parent();
    if (!never_started()) {
        if (auto failure = std::move(as_base(frame()).promise().exception_)) {
            of.child_failed(*this, std::move(failure));
        }
    }
    // What its arguments leave behind is the user's code, which may still spawn a sibling.
    release_frames();
    leave_scope();
    delete this;
    const auto decided = of.core_.end();
    if (decided.next != nullptr) { static_cast<worker_thread&>(on).ready_next(decided.next); }
    if (decided.last) { complete_parent(parent, on); }
}

void group_base::launch(std::coroutine_handle<> frame) {
    branch& parent = scope_.opener();
    if (parent.owner->runtime().phase() >= runtime_phase::destroying) {
        destroy_refused(frame);  // By a destructor, at the end of the runtime.
        return;
    }
    auto* const child = new group_child(*this);
    child->own(frame);
    child->prepare(parent, scope_.inside());
    // If it has to wait for its turn nobody but a sibling gives it that, which is to be known where
    // all tasks are asleep. Before the core has it, since a sibling may then make it ready at once.
    // Its word stays idle, so a stop only leaves its mark there.
    child->status = branch_status::parked;
    child->reason = wait_reason::turn;
    if (core_.add(*child)) { make_ready(child); }
}

bool group_base::take_failure(const std::exception_ptr& failure) noexcept {
    if (!core_.fail()) { return false; }
    failure_ = failure;
    scope_.stop();
    return true;
}

void group_base::fail(std::exception_ptr failure) noexcept {
    if (!take_failure(failure)) { report_suppressed_failure(scope_.opener(), std::move(failure)); }
}

void group_base::child_failed(const group_child& child, std::exception_ptr failure) noexcept {
    // Relaxed: the stop that it came from has passed through the scope's lock.
    if (stop_wanted_.load(std::memory_order_relaxed) && comes_from_stop(child, failure)) { return; }
    if (!take_failure(failure)) { report_suppressed_failure(child, std::move(failure)); }
}

void group_base::stop() noexcept {
    // Relaxed: see child_failed().
    stop_wanted_.store(true, std::memory_order_relaxed);
    scope_.stop();
}

bool group_operation::start(branch& waiter) noexcept {
    // A stop that is there already has reached the children, and does not end this wait.
    static_cast<void>(prepare_park(waiter, *this));
    return of_.core_.leave() || park(waiter, *this);
}

}  // namespace weft::detail
