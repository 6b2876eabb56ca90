// SPDX-License-Identifier: MIT
//
// What a worker does that has no work, and whom it wakes: the steps that tie the list of parked
// workers (idle_protocol.hpp), the role of the sentinel (sentinel.hpp) and the queues together. The
// arguments are in those two files; the order of the steps is here, and it is this text that the
// models of test/model/ run.
//
//     search   find_work() looks until something is found. Whoever found it stops searching (and
//              wakes one more if that was the last searcher and work is left), and sees to it that
//              somebody watches, before it runs anything.
//     park     the worker makes itself known as parked, then looks at everything once more, and
//              only then sleeps. The last one to park also asks whether anything is left that
//              could wake a task (all_asleep.hpp).
//     sleep    it takes the role of the sentinel if that is vacant, and then reads every heap. When
//              it wakes up it gives the role back, comes off the list and counts as searching;
//              then it readies what it brings along, so that this wakes nobody before it has taken
//              its own share.
//
// A worker is whatever has these members (worker_thread is one, the models have others):
//
//     parked, searching        the link of idle_protocol, and whether it counts as a searcher
//     index()
//     attend()                 serves what others ask of this worker; false: the loop ends
//     look()                   one look at everything it may run; may begin_search(). Null: nothing
//     has_own_work()           a hint
//     earliest_timer()         of its own heap, seq_cst
//     sleep(deadline, sentinel, brought)    until then, or until wake(); fills `brought`
//     ready(brought)           with publication and wake
//     back_from_sleep(sentinel)             runs the timers that it was to watch
//     wake()
//
// and what all of them share (runtime_core is one) has
//
//     idle, sentinel
//     worker_count(), worker_at(index)     all that exist, with a processor or without; the count
//                              only grows, seq_cst
//     anything_published()     the recheck: every queue, seq_cst
//     unwatched()              something besides timers needs a parked worker, and none is there
//     count_wake()
//     all_asleep()             see all_asleep.hpp; true at most once
//     report_all_asleep()
#pragma once

#include <weft/detail/base/clock.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace weft::detail {

/// After a publication: wakes a parked worker if nobody searches; the sentinel only if no other is
/// parked. True if it woke one.
template <class Shared>
[[gnu::hot]]
bool wake_searcher(Shared& shared) {
    if (!shared.idle.wake_wanted()) {
        return false;
    }
    const std::uint32_t holder = shared.sentinel.holder_hint();
    auto* last_choice = holder == shared.sentinel.none ? nullptr : &shared.worker_at(holder);
    auto* chosen = shared.idle.wake_one(last_choice);
    if (chosen == nullptr) {
        return false;
    }
    shared.count_wake();
    chosen->wake();
    return true;
}

/// Wakes a parked worker if nobody watches what has to be watched: the role of the sentinel is
/// vacant and a heap holds a timer, or the poller needs somebody.
template <class Shared>
void see_to_watcher(Shared& shared) {
    // The first two loads decide nearly always, and cost nothing.
    if (!shared.idle.wake_wanted()) {
        return;
    }
    bool wanted = shared.unwatched();
    if (!wanted && shared.sentinel.vacant()) {
        for (std::uint32_t i = 0; i < shared.worker_count() && !wanted; ++i) {
            wanted = shared.worker_at(i).earliest_timer() != no_deadline;
        }
    }
    if (wanted) {
        wake_searcher(shared);
    }
}

/// Sees to it that somebody wakes up early enough for a timer that has just become the earliest one
/// of its heap.
template <class Worker, class Shared>
void tell_sentinel_of(monotonic_time earliest, Worker& self, Shared& shared) {
    const std::uint32_t holder = shared.sentinel.to_be_woken(earliest);
    if (holder == shared.sentinel.vacant_role) {
        see_to_watcher(shared);
    } else if (holder != shared.sentinel.none && holder != self.index()) {
        shared.worker_at(holder).wake();
    }
}

/// A worker that goes on running tells of the earliest timer in its heap, if nobody would wake up
/// early enough for it.
template <class Worker, class Shared>
void tell_sentinel(Worker& self, Shared& shared) {
    tell_sentinel_of(self.earliest_timer(), self, shared);
}

/// Publishers that saw this worker searching have not woken anybody. So the last one to stop looks
/// whether more is left.
template <class Worker, class Shared>
void stop_searching(Worker& self, Shared& shared) {
    self.searching = false;
    if (!shared.idle.end_search()) {
        return;
    }
    if (self.has_own_work() || shared.anything_published()) {
        wake_searcher(shared);
    }
}

/// The sentinel sleeps until the earliest timer of all processors. Another parked worker sleeps
/// until its own earliest one, so that it need not wake the sentinel for a timer before it parks.
template <class Shared>
monotonic_time watch_all_timers(Shared& shared) {
    monotonic_time deadline = no_deadline;
    for (std::uint32_t i = 0; i < shared.worker_count(); ++i) {
        deadline = std::min(deadline, shared.worker_at(i).earliest_timer());
    }
    shared.sentinel.watch_until(deadline);
    return deadline;
}

/// Sleeps, for a worker that is parked and has rechecked everything.
template <class Worker, class Shared>
[[gnu::hot]]
void sleep_parked(Worker& self, Shared& shared) {
    const bool is_sentinel = shared.sentinel.take(self.index());
    const monotonic_time deadline =
        is_sentinel ? watch_all_timers(shared) : self.earliest_timer();
    typename Worker::ready_list brought;
    self.sleep(deadline, is_sentinel, brought);
    if (is_sentinel) {
        shared.sentinel.leave();
    }
    // Off the list by itself, or taken off by a waker; in both cases it counts as searching.
    shared.idle.unpark(self, true);
    self.searching = true;
    self.ready(brought);
    self.back_from_sleep(is_sentinel);
}

/// Returns what to run next, or null when attend() says that the loop ends.
template <class Worker, class Shared>
[[gnu::hot]]
auto find_work(Worker& self, Shared& shared) -> decltype(self.look()) {
    for (;;) {
        if (!self.attend()) {
            return nullptr;
        }
        if (auto* taken = self.look()) {
            if (self.searching) {
                stop_searching(self, shared);
            }
            see_to_watcher(shared);
            return taken;
        }
        shared.idle.park(self, std::exchange(self.searching, false));
        if (shared.anything_published()) {
            // Back to search, whatever the limit says: publishers rely on this recheck.
            shared.idle.unpark(self, true);
            self.searching = true;
            continue;
        }
        if (shared.all_asleep()) {
            // Not parked, since whoever hears of it may make branches ready on this worker.
            shared.idle.unpark(self, true);
            self.searching = true;
            shared.report_all_asleep();
            continue;
        }
        sleep_parked(self, shared);
    }
}

}  // namespace weft::detail
