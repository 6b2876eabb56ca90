// SPDX-License-Identifier: MIT
#include <weft/detail/branch/child_branch.hpp>

#include "lib/sched/worker_thread.hpp"

#include <weft/detail/sched/promise.hpp>

#include <utility>

namespace weft::detail {

[[gnu::hot]]
void child_branch::prepare(branch& parent, scope& in) noexcept {
    parent_ = &parent;
    owner = parent.owner;
    handle = frame_;
    waiting_for = this;
    reason = wait_reason::not_started;
    status = branch_status::queued;
    restart = true;
    innermost = &in;
    as_base(frame_).promise().branch_ = this;
    in.enter(member_);
}

[[gnu::hot]]
bool child_branch::start(branch& self) noexcept {
    const operation_outcome stopped = stop_outcome(self);
    if (stopped == operation_outcome::completed) [[likely]] { return true; }
    cancel_with(stopped);
    status = branch_status::ended;
    finish(*current);
    return false;
}

void child_branch::leave_and_count_down(child_join<layer>& join, worker& on) noexcept {
    end_child(*innermost, member_, join, *parent_,
              [&on](branch& waiting) noexcept { complete_parent(waiting, on); });
}

void child_branch::release_frames() noexcept {
    destroy_where_it_waits();
    if (frame_ == nullptr) { return; }
    const auto frame = std::exchange(frame_, nullptr);
    if (never_started()) {
        destroy_refused(frame);
    } else {
        frame.destroy();
    }
}

void child_branch::destroy_where_it_waits() noexcept {
    if (status == branch_status::ended) { return; }
    frame_ = nullptr;
    destroy_chain(std::exchange(handle, nullptr));
    // One that lies in a frame further out; those in the frames just destroyed have seen to it. It
    // may have been completed, and then its branch is only queued.
    if (waiting_for != nullptr && waiting_for != this) { waiting_for->forget_branch(); }
    status = branch_status::ended;
    leave_scope();
}

[[gnu::hot]]
void complete_parent(branch& parent, worker& on) noexcept {
    if (parent.word.complete()) { static_cast<worker_thread&>(on).ready_last(&parent); }
}

}  // namespace weft::detail
