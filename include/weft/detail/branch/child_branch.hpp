// SPDX-License-Identifier: MIT
//
// The branches of a task beside its first one: children that run while the branch that has forked
// them runs on, or waits for them (when_all, task_group and their kind).
//
//     prepared   set up, and in a scope; nobody else knows it       fork: queued
//     queued     not started. The worker that takes it asks first   start: runs, or ends unstarted
//                whether its scope has been stopped meanwhile
//     runs,      as any branch
//     waits
//     ended      its first frame is at its end, or it was never     finish, on the worker that it
//                started                                            ended on
//
// What finish() does, in this order: it keeps the result, or the failure, where the parent will
// look for it, and stops the siblings if that is called for; leaves its scope; and counts down
// what the parent waits for (child_join.hpp). After that it is the parent's, which may destroy it
// at once on another worker.
//
// Why the memory of a child may lie in a frame, whereas that of the first branch of a task is
// type-stable. Each party that touches a branch without running it is held by something that keeps
// the child from its end:
//
//     a completer      took the operation off its object. The branch waits for complete(), or for
//                      let_go() if a canceller is under way too (operation_word.hpp): both are last
//                      touches, and the branch runs only afterwards. Of another runtime it is
//                      inside the gate, or touches nothing after complete() (complete_waiter())
//     a canceller      finds the branch in a scope, under the lock of that, which finish() takes
//                      to leave. What it has found parked is `cancelling` until its last touch
//     a queue, thief   owns what it takes; it compares pointers of what it did not take, and reads
//                      nothing through them
//     the watchdog     reads a task through the run mark, which names the first branch; never a
//                      child
//     a report that    holds the lock without which no worker runs anything (all_asleep.hpp)
//     all are asleep
//     a late stop by   names a task and its life; a child has no handle, and needs no lives
//     a handle
//     the worker       after finish() it knows the child no more (worker_thread::execute())
//
// So a stale pointer to a child is never followed. An operation that is kept outside of the child
// that has awaited it would hold one (operation::unlink_if_parked()), so it forgets its branch when
// the await is over.
//
// Rejected: children in type-stable slabs (two lists more on the way of a fork that is to cost a
// call, and AddressSanitizer would not see who comes late); a control block for each child (the
// same, and identity, name and limits are the task's).
#pragma once

#include <weft/detail/branch/branch.hpp>
#include <weft/detail/branch/child_join.hpp>
#include <weft/detail/branch/operation.hpp>
#include <weft/detail/branch/scope.hpp>

#include <coroutine>
#include <cstdint>

namespace weft::detail {

/// See the head of this file. It owns the frames that run on it.
class child_branch : public branch, public operation {
public:
    child_branch(const child_branch&) = delete;
    child_branch& operator=(const child_branch&) = delete;

    /// Whose membership in its innermost scope it is; null for the first branch of a task.
    static scope_member* membership_of(branch& of) noexcept {
        return of.is_child ? &static_cast<child_branch&>(of).member_ : nullptr;
    }

    /// Gives it the first frame of a task, which is not started.
    void own(std::coroutine_handle<> frame) noexcept { frame_ = frame; }
    std::coroutine_handle<> frame() const noexcept { return frame_; }

    /// By the branch that forks it, or by a sibling: makes it a branch of the task of `parent` in
    /// `in`, which stays until it has left. The caller queues it.
    void prepare(branch& parent, scope& in) noexcept;

    /// By the worker that takes it from a queue, see above.
    bool start(branch& self) noexcept final;
    /// Nobody calls this: no stop finds it parked on itself.
    bool unlink() noexcept final { return false; }
    /// Where it waits for its turn: a sibling gives that to it.
    bool completed_by_tasks() const noexcept final { return true; }

    /// Has it ended without having started, since its scope had been stopped?
    bool never_started() const noexcept { return outcome() != operation_outcome::completed; }

    /// By its worker, when it has ended. Not under a lock.
    virtual void finish(worker& on) noexcept = 0;

    branch* parent() const noexcept { return parent_; }

    /// At the end of a runtime: destroys the frames where they wait, unless the branch has ended.
    void destroy_where_it_waits() noexcept;
    /// The same walk, afterwards: one that lies in no frame frees itself.
    virtual void discard() noexcept {}

    /// For the walk at the end of a runtime: how many children of its own are left.
    std::size_t children_left = 0;

protected:
    child_branch() noexcept : operation(true, wait_reason::not_started), member_(*this) {
        is_child = true;
        status = branch_status::ended;  // Until it is prepared.
    }
    ~child_branch() { release_frames(); }

    /// For finish(), in the end: see child_join.hpp.
    void leave_and_count_down(child_join<layer>& join, worker& on) noexcept;
    /// For finish(), where something else is counted.
    void leave_scope() noexcept { innermost->leave(member_); }
    /// Destroys the frames: what the arguments of the child leave behind is the user's code.
    void release_frames() noexcept;

private:
    scope_member member_;
    branch* parent_ = nullptr;
    std::coroutine_handle<> frame_;
};

/// For finish(): the last child has ended, and the branch that waits for all of them goes on.
void complete_parent(branch& parent, worker& on) noexcept;

}  // namespace weft::detail
