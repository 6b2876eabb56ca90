// SPDX-License-Identifier: MIT
//
// "All tasks are asleep": how the last worker that parks finds out that nothing inside the program
// will ever wake a task again.
//
// What could wake one, and who knows of it:
//
//     a worker that runs or searches    it is not on the list of parked workers
//     a branch in a queue               the recheck of the parking protocol
//     a timer                           the heaps
//     the kernel, a call of blocking()  the operation that the branch is parked on: an operation
//     says
//                                       itself whether only tasks complete it, and says no unless
//                                       it knows (operation::completed_by_tasks())
//     another runtime                   the same: a join of a task of another runtime says no. Of
//                                       what else its tasks may share with others nobody knows, so
//                                       it holds a guard of each other runtime, from its start to
//                                       its end (lib/sched/runtime_registry.hpp)
//     a stop token given to co_spawn    the token: as long as a source of it exists, somebody
//                                       outside may ask the task to stop
//     a thread outside                  the guard that it holds (runtime::guard). A call of
//                                       blocking_detached() holds one as well
//
// The steps:
//
//     parker   park (seq_cst, under the lock of the list); then, if all are parked and no guard is
//              held: take the lock of the list again, and look at all of the above
//     guard    do whatever may wake a task; then release the guard (seq_cst); if it was the last
//              one and all workers are parked, wake one, which looks, parks and decides
//
// Why the decision is never wrong. It is made with the lock of the list held and every worker on
// the list. To run a branch, a worker must leave the list first, and takes the lock for it, whether
// it was woken, rechecked, or came out of its ring with completions. So while we look nobody inside
// resumes a branch, fires a timer, or makes, copies or releases a guard; what a worker brings along
// from its ring is still parked on its I/O as far as we see, and says no. What each worker did
// before it parked is visible, since it took the same lock then. Outside, one that holds a guard
// keeps us from deciding; one that has released its last guard published before that, and so we
// find the branch in a queue, or its worker off the list. A new guard is made by a task or copied
// from another guard, hence not now; or it is that of a runtime that begins. What made that is a
// task of another runtime, which holds one for it, or a thread outside, which has to hold one until
// then if a task is to be woken by what it makes.
//
// The watchdog is outside as well: it takes due timers from a worker that is kept, and from the
// heap to the queue nobody sees them. So it adds a guard, and then looks whether all are parked
// (seq_cst): if the decider has not seen the guard, the watchdog sees that, and leaves the timers
// to the sentinel.
//
// Why it is always made. Store then load on both sides, seq_cst: the last guard is released before
// a load of the parked count, a worker parks before its load of the guards. So the parker sees no
// guard, or the releaser sees it parked. Of several workers that park at the same time the last one
// sees that all are. And each way back from the list leads through park() again.
//
// Why the report may read frames. It names for each task where it awaits, which is in its frames,
// and reads that under the same lock. A frame is resumed or destroyed by a worker, and none can; a
// task that is parked on an operation has its frames, all of them suspended. What is not parked is
// not read, and the decision is "not asleep" then. The text is put together later, from the copy. A
// thread outside that breaks the rule, and wakes a task without a guard, makes the report wrong but
// can do no harm: what it readies waits in the queue until the lock is free.
//
// Rejected: counting what is armed in each poller (a worker that sleeps in its ring changes the
// count while we look, and two backends would have to keep it exact, on a hot path); counting
// parked tasks by reason (the same cost at each park); a look by the watchdog's clock (late, and no
// more exact).
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::detail {

/// How many guards are held.
template <class Layer>
class guard_word {
public:
    /// By a task, or by who holds one: the count is not zero, or the task's worker takes the lock
    /// of the list before anybody decides. seq_cst for others, who then look whether all are
    /// parked. A runtime that begins makes its own before it has a task.
    void add() noexcept { count_.fetch_add(1, std::memory_order_seq_cst); }

    /// True: it was the last one; the caller calls reconsider(). seq_cst: see the essay. As a
    /// release it also publishes what was done under the guard to any().
    [[nodiscard]] bool remove() noexcept {
        return count_.fetch_sub(1, std::memory_order_seq_cst) == 1;
    }

    bool any() const noexcept { return count_.load(std::memory_order_seq_cst) != 0; }

private:
    typename Layer::template atomic<std::uint32_t> count_{0};
};

/// A parked worker that has rechecked: is everything asleep for good? Shared has, besides what
/// parking_loop.hpp asks for,
///
///     watches_for_sleep()   whether anybody wants to know
///     guards                any()
///     sleeps_for_good()     no timer is set, and no task may be woken by anything but a task;
///                           called with the lock of the list held
template <class Shared>
bool all_asleep(Shared& shared) {
    // Nearly always one of these decides.
    if (!shared.watches_for_sleep() || !shared.idle.all_parked() ||
        shared.guards.any()) {
        return false;
    }
    return shared.idle.with_list_held([&shared] {
        // Exact now. A worker without a processor is not on the list; it counts until nothing that
        // it had is on its way any more (retirement.hpp).
        if (!shared.idle.all_parked()) {
            return false;
        }
        // The guards first: what was done under them is visible then.
        return !shared.guards.any() && !shared.anything_published() && shared.sleeps_for_good();
    });
}

/// The last guard is gone. If everybody is parked already, one worker looks again.
template <class Shared>
void reconsider(Shared& shared) {
    if (shared.watches_for_sleep() && shared.idle.all_parked()) {
        shared.worker_at(0).wake();
    }
}

}  // namespace weft::detail
