// SPDX-License-Identifier: MIT
//
// How a worker gives its processor up, and how it gets it back.
//
// The number of processors may change while tasks run. A worker's ring, its thread and its
// processor belong together for good, so nothing is taken from it and nothing is freed: it is
// *asked*, does the rest itself between two branches, and sleeps until it is *recalled*.
//
//     running   it has its processor and runs branches                 owner of all that is its own
//     asked     as running; it leaves the next time it looks           as running
//     leaving   it runs no branch any more; what was its own is on     owner, without a processor
//               its way to others, or its ring still has polls
//     retired   nothing is in flight in its ring: it only sleeps       owner, without a processor
//
//     running -> asked              ask(), controller. Then the attention word, then a wake
//     asked   -> leaving            begin(), owner
//     leaving -> retired            settle(), owner
//     asked, leaving, retired
//             -> running            recall(), controller. Then a wake
//
// There is one controller at a time (a lock of the runtime), and it alone leaves `running` and
// enters it; it counts by these states. The owner comes back when it finds `running`. If it finds
// `asked` instead, it was recalled and asked again before it noticed: it stays where it is. No
// order is needed beyond that of the word, the attention word and the wake word: each of the three
// is released by the controller and acquired by the owner, in the opposite order.
//
// What a worker that leaves does, in this order, and why nothing is lost:
//
//   1. It is on no list: the loop has taken it off the list of parked workers, and it has given the
//      role of the sentinel back. It may count as searching.
//   2. runnext and ring go to the head of the global queue, where they would have come up first. In
//      between they are out of sight, and a worker that parks may miss them. The store of the size
//      of the global queue is a publication in the sense of idle_protocol.hpp, and is followed by
//      3. Thieves may take from the ring meanwhile; each branch leaves it once.
//   3. If it counts as searching, it stops, which is an R of that essay: publishers that saw it
//      searching have not woken anybody, and its look sees what they published, and what it has
//      published itself. Otherwise it looks at the counts, as after any publication.
//   4. Its timers go to the heap of worker 0, which never leaves. Each is in one of the two heaps
//      whenever one of the locks is free. Then it compares the earliest time there with the
//      sentinel's deadline, as whoever adds a timer: the store comes before the load, so a sentinel
//      that has read the two heaps in the wrong moment is woken.
//   5. If nobody watches, it wakes somebody who will, as whoever is about to run a branch.
//   6. Its polls are cancelled. The final completion of each readies the branch that waits for it,
//      which tries again on whatever worker it runs and arms there. Until the last one has come it
//      waits in its ring; what it readies goes to the global queue.
//
// It is no worker in the sense of idle_protocol.hpp then: it is not on the list, so nobody chooses
// it. Until it has settled it counts as one that works, so nobody takes the others for all there
// are while something is on its way: neither the watchdog, which rests then, nor whoever asks
// whether all tasks are asleep. When it has settled it gives the count back, and that question is
// asked again. A recall counts it before it says `running`, so that it cannot run uncounted, and
// takes that back if it had not settled. Both follow from one word, so that each happens once.
// Everybody still looks at its queue and its heap, where nothing is put any more, since only the
// owner puts something there. (Where no memory is to be had for a timer at worker 0, the rest stays
// in its own heap, and it wakes up for them.)
//
// What comes back begins as any worker does that has run a branch: it looks at everything, and
// parks with a recheck. So nobody has to know that it is back.
//
// Rejected: stopping all workers for the change, as Go does, since a branch that hogs its worker
// would stop the others; a controller that takes the queue away itself, since the ring has one
// producer and a poll one thread; the tail of the global queue, since these branches have waited
// longer than what is there, and a processor count that changes often could starve them.
//
// A worker is what parking_loop.hpp asks for, with
//
//     state                  a state_word
//     give_work_up()         2, and the beginning of 6
//     give_timers_up()       4, without the comparison
//     may_return()           it was recalled, or its loop has to end
//     may_settle()           nothing of its ring is in flight, and its heap is empty
//     sleep_retired()        until then, or earlier; what it readies goes to the global queue
//
// and what all share has reconsider_sleep(), see reconsider() in all_asleep.hpp.
#pragma once

#include <weft/detail/sched/parking_loop.hpp>

#include <atomic>
#include <cstdint>

namespace weft::detail {

enum class worker_state : std::uint32_t { running, asked, leaving, retired };

/// See the essay above.
template <class Layer>
class state_word {
public:
    /// Controller, of a worker that is running(). Release pairs with begin(): it may have been
    /// recalled before, without noticing, and must not take back a count that is yet to come.
    void ask() noexcept { word_.store(worker_state::asked, std::memory_order_release); }

    /// Controller, of a worker that is not running(). True: it had settled, and counts once, as the
    /// controller has just counted it. Release pairs with recalled(): that count is visible to it.
    [[nodiscard]] bool recall() noexcept {
        return word_.exchange(worker_state::running, std::memory_order_release) ==
               worker_state::retired;
    }

    /// Controller: the last thing that it said was not ask(). Relaxed: it has said so itself, or
    /// the lock of the controllers orders it.
    bool running() const noexcept { return state() == worker_state::running; }

    /// Owner: leaves, if it was asked and not recalled since. Acquire pairs with ask(). Relaxed if
    /// not: it goes on as before.
    bool begin() noexcept {
        auto expected = worker_state::asked;
        return word_.compare_exchange_strong(expected, worker_state::leaving,
                                             std::memory_order_acquire, std::memory_order_relaxed);
    }

    /// Owner, when nothing that it had is on its way. True: it does not count any more. False: it
    /// has settled before, or a recall or a new request has come first. Relaxed: what it did is
    /// published with the count.
    [[nodiscard]] bool settle() noexcept {
        auto expected = worker_state::leaving;
        return word_.compare_exchange_strong(expected, worker_state::retired,
                                             std::memory_order_relaxed, std::memory_order_relaxed);
    }

    /// Owner, without a processor: has it got one again? Acquire pairs with recall().
    bool recalled() const noexcept {
        return word_.load(std::memory_order_acquire) == worker_state::running;
    }

    /// Any thread, for statistics, and as a hint for thieves. Relaxed: nothing is concluded from
    /// it.
    worker_state state() const noexcept { return word_.load(std::memory_order_relaxed); }

private:
    typename Layer::template atomic<worker_state> word_{worker_state::running};
};

/// Owner, in its loop, when it may have been asked: gives its processor up and returns when it has
/// one again, or when its loop has to end. Returns at once if it was not asked, or was recalled.
template <class Worker, class Shared>
void retire_if_asked(Worker& self, Shared& shared) {
    if (!self.state.begin()) {
        return;
    }
    self.give_work_up();
    if (self.searching) {
        stop_searching(self, shared);
    } else {
        wake_searcher(shared);
    }
    self.give_timers_up();
    tell_sentinel_of(shared.worker_at(0).earliest_timer(), self, shared);
    see_to_watcher(shared);
    while (!self.may_return()) {
        self.state.begin();
        if (self.may_settle() && self.state.settle()) {
            shared.idle.remove_processor();
            shared.reconsider_sleep();
        }
        self.sleep_retired();
    }
}

}  // namespace weft::detail
