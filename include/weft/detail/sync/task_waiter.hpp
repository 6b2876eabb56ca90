// SPDX-License-Identifier: MIT
//
// What all waits of tasks for an object of weft have in common: a lock, an event, a count.
//
// Such an object has an internal lock (spin_lock.hpp), and a wait_list of task_waiters under it.
// Each waiter lies in its operation, which lies in the awaiting frame:
//
//     start()      begin_wait(); under the lock: done at once, or line up; lock free; park()
//     the object   under the lock: takes waiters off its list; lock free; complete() for each
//     unlink()     under the lock: wait_list::remove()
//
// Whoever has taken a waiter off the list completes it, exactly once, and does so with the lock
// free, since that readies its task. A canceller that comes too late finds it off the list, so a
// completion beats a stop (operation_word.hpp). From its completion on a waiter may be gone.
#pragma once

#include <weft/detail/base/layer.hpp>
#include <weft/detail/branch/operation.hpp>
#include <weft/detail/sync/wait_list.hpp>

namespace weft::detail {

/// Who waits. Its links belong to whoever holds the lock of the object.
struct task_waiter : wait_links<layer, task_waiter> {
    branch* waiting = nullptr;
};

/// Ready: what it waited for has happened, and its task goes on. The task goes into this worker's
/// runnext, elsewhere to the global queue of its runtime. Any thread, with no lock held; tasks of
/// different runtimes may share an object.
void complete(task_waiter& waiter) noexcept;

/// The same for all of them, as wait_list::take_all() gives them: in order, so the last one ends in
/// runnext.
void complete_all(task_waiter* first) noexcept;

/// For the assertion of an object that is destroyed while `first`, and who is linked to it through
/// `next`, wait: that is allowed only at the end of a runtime, where frames are destroyed in any
/// order. Null: nobody waits.
bool nobody_runs(const task_waiter* first) noexcept;

/// The operation of such a wait. A class derived from it, and from nothing that waits otherwise,
/// adds start() and unlink(), and is made an awaiter (awaiter.hpp).
class task_operation : public operation {
public:
    /// Only tasks serve it, and threads outside that hold a guard.
    bool completed_by_tasks() const noexcept final { return true; }

protected:
    explicit task_operation(wait_reason reason, bool restarts = false) noexcept
        : operation(restarts, reason) {}
    /// Only of one that has not started, as of all awaitables.
    task_operation(const task_operation& other) noexcept : operation(other) {}
    ~task_operation() = default;

    /// First step of start(), before the object is looked at. False: its scope is stopped, which
    /// comes first, so that a loop that never waits can be stopped as well; start() returns true.
    bool begin_wait(branch& waiter) noexcept {
        self_.waiting = &waiter;
        return prepare_park(waiter, *this);
    }

    task_waiter self_;
};

}  // namespace weft::detail
