// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/layer.hpp>
#include <weft/detail/branch/operation_word.hpp>

#include <coroutine>
#include <cstddef>
#include <cstdint>

namespace weft::detail {

class operation;
class task_control;
class worker;
struct branch;

template <class Layer, class Branch>
class basic_scope;
template <class Layer, class Branch>
class basic_nested_scope;
template <class Layer, class Branch>
class basic_scope_member;

/// The cancel scopes of weft's branches: the root of a task, and those that a branch opens.
using scope = basic_scope<layer, branch>;
using nested_scope = basic_nested_scope<layer, branch>;
using scope_member = basic_scope_member<layer, branch>;

/// Why a branch is parked, as a dump shows it.
enum class wait_reason : std::uint8_t {
    none,
    not_started,
    turn,
    yield,
    sleep,
    join,
    children,
    io_read,
    io_write,
    io_close,
    blocking,
    send,
    receive,
    select,
    lock,
    lock_shared,
    condition,
    event,
    semaphore,
    wait_group,
    latch,
    barrier,
    once,
};

/// Where a branch is. Written by whoever owns it at that moment: the worker that runs it, or the
/// party that readies it. It exists to detect misuse (a handle resumed by hand), not to decide.
enum class branch_status : std::uint8_t { queued, running, parked, ended };

/// A strand of execution of a task: what run queues, wait words and wait lists hold. It never runs
/// on two threads at once. The first one of a task lies in its control block, whose memory is
/// type-stable: a stale pointer always points to a branch, though perhaps of another task. Others
/// lie in frames (child_branch.hpp).
struct branch {
    /// Link in a run queue, or in a list of branches about to be readied. Owned by whoever holds
    /// the branch; only a parked branch has no holder.
    branch* next = nullptr;
    /// The innermost suspended frame: what the worker resumes.
    std::coroutine_handle<> handle;
    /// The worker that runs the branch, rewritten before each resume. Valid while it runs.
    worker* current = nullptr;
    /// The operation the branch is parked on. Stored before the operation is published.
    operation* waiting_for = nullptr;
    /// The innermost cancel scope. Changed only by the branch itself, under the scope's lock.
    scope* innermost = nullptr;
    /// The task this branch belongs to.
    task_control* owner = nullptr;
    /// Who finishes the operation that the branch is parked on.
    operation_word<layer> word;
    wait_reason reason = wait_reason::not_started;
    branch_status status = branch_status::queued;
    /// The worker calls waiting_for->start() before it resumes the handle.
    bool restart = false;
    /// It is a child_branch.
    bool is_child = false;

    /// Whoever runs it soon, and has something else to do before: fetches what that touches first,
    /// the operation and the head of the frame, neither of which is in a cache after a long wait.
    void prefetch() const noexcept {
        const auto* const awaited = reinterpret_cast<const char*>(waiting_for);
        __builtin_prefetch(awaited);
        __builtin_prefetch(awaited + 64);
        __builtin_prefetch(handle.address());
    }
};

/// Ends the process with a message: a handle was resumed by hand.
[[noreturn]] void resumed_by_hand() noexcept;

/// Ends the process with a message: what was awaited has been awaited before.
[[noreturn]] void awaited_twice() noexcept;

/// A coroutine goes on after a suspension: was it resumed by a worker, which marks the branch as
/// running before? Plain loads of a line that the worker has just written.
inline void check_running(const branch& resumed) noexcept {
    if (resumed.status != branch_status::running) [[unlikely]] {
        resumed_by_hand();
    }
}

/// A list of branches, linked through branch::next, first in, first out.
class branch_list {
public:
    void push_back(branch* added) noexcept {
        added->next = nullptr;
        if (last_ == nullptr) {
            first_ = added;
        } else {
            last_->next = added;
        }
        last_ = added;
        ++count_;
    }
    /// Branches that are linked already, from `first` to `last`.
    void append(branch* first, branch* last, std::size_t count) noexcept {
        last->next = nullptr;
        if (last_ == nullptr) {
            first_ = first;
        } else {
            last_->next = first;
        }
        last_ = last;
        count_ += count;
    }
    /// Another list before this one; it is empty then.
    void prepend(branch_list& before) noexcept {
        if (before.empty()) {
            return;
        }
        before.last_->next = first_;
        first_ = before.first_;
        if (last_ == nullptr) {
            last_ = before.last_;
        }
        count_ += before.count_;
        before = {};
    }
    branch* pop_front() noexcept {
        branch* taken = first_;
        if (taken != nullptr) {
            first_ = taken->next;
            if (first_ == nullptr) {
                last_ = nullptr;
            }
            --count_;
        }
        return taken;
    }
    bool empty() const noexcept { return first_ == nullptr; }
    std::size_t size() const noexcept { return count_; }
    branch* front() const noexcept { return first_; }
    branch* back() const noexcept { return last_; }

private:
    branch* first_ = nullptr;
    branch* last_ = nullptr;
    std::size_t count_ = 0;
};

/// Makes a branch runnable: on a worker of its runtime into that worker's runnext, elsewhere into
/// the global queue of its runtime. Wakes an idle worker if nobody searches. Never called while an
/// internal lock is held. The caller owns the wake-up and touches the branch no more.
void make_ready(branch* readied) noexcept;

/// The same for a batch: in order, the last one ends in runnext. Wakes one searcher.
void make_ready(branch_list& readied) noexcept;

/// Completes the operation of a waiter, for an object that several runtimes may share. A branch of
/// the calling worker's runtime is appended to `readied` if it becomes runnable; one of another
/// runtime, which may be ending beside this, is readied at once. Not under a lock.
void complete_waiter(branch& waiter, branch_list& readied) noexcept;

}  // namespace weft::detail
