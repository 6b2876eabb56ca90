// SPDX-License-Identifier: MIT
//
// Which workers run: as many as there are processors, and those in the place of others.
//
// Several change it: a task or a foreign thread (the number of processors), and the watchdog (the
// number that the machine gives, and *compensating* workers). All do it under one lock, and each
// change is two steps: what is wanted is counted, and then the workers are asked or recalled until
// as many run. Nobody remembers which worker runs in the place of which: a worker is kept by a
// task, and the task may be gone, or have gone on elsewhere, when it is over. So every order of
// changes ends with the same workers running, the first ones, as many as are wanted.
//
//     processors      at least 1; set_processors() or the machine
//     compensating    + 1 for each worker that the watchdog has found kept, while there are fewer
//                     than processors; - 1 when it sees that one run something else. Fewer
//                     processors do not make them fewer: those that are there stay until then
//
// Worker 0 is never asked: it may be the thread of the caller, and timers go to it. The last ones
// go first and the first ones come first, so that a compensating worker that is made for a moment
// does not push an older one out, and so that few of them ever run tasks.
//
// The end of the runtime needs no step here: it asks all workers there are to end their loops,
// whatever these counts say, and a worker that is asked to go, or is recalled, meanwhile finds that
// request too, since the attention word keeps both.
//
// Rejected: a compensating worker that goes by itself when it finds nothing to do, since it would
// come and go while the kept one is still kept, and stay for ever on a busy runtime.
//
// A worker is what retirement.hpp asks for, with
//
//     tell_of_request()      its attention word says from now on that it may have been asked
//
// and what all of them share is what parking_loop.hpp asks for.
#pragma once

#include <weft/detail/base/assert.hpp>

#include <atomic>
#include <cstdint>

namespace weft::detail {

/// Changed under the lock of the controllers.
template <class Layer>
class wanted_workers {
public:
    /// Any thread. Relaxed: whoever uses it needs no particular moment.
    std::uint32_t processors() const noexcept {
        return processors_.load(std::memory_order_relaxed);
    }
    /// Under the lock.
    std::uint32_t compensating() const noexcept { return compensating_; }
    std::uint32_t all() const noexcept { return processors() + compensating_; }

    /// Relaxed: as processors().
    void set_processors(std::uint32_t wanted) noexcept {
        processors_.store(wanted, std::memory_order_relaxed);
    }

    /// May one more run in the place of another? Fewer processors may be wanted than when the
    /// others were started.
    bool may_compensate() const noexcept { return compensating_ < processors(); }
    void compensate() noexcept { ++compensating_; }
    void end_compensation() noexcept {
        WEFT_ASSERT(compensating_ != 0);
        --compensating_;
    }

private:
    typename Layer::template atomic<std::uint32_t> processors_{0};
    std::uint32_t compensating_ = 0;
};

/// Under the lock of the controllers: a worker that runs is asked to go.
template <class Worker>
void ask_worker(Worker& asked) {
    asked.state.ask();
    asked.tell_of_request();
    asked.wake();
}

/// Under the lock of the controllers: a worker that was asked runs again. It counts before it may
/// find that out: otherwise it could run a task while all that count are parked, and those would be
/// taken for all there are. One that had not settled has never ceased to count. Who looked while it
/// counted twice has not taken the parked ones for all; the wake comes after that, and so the
/// worker parks once more, and asks once more.
template <class Worker, class Shared>
void recall_worker(Worker& recalled, Shared& shared) {
    shared.idle.add_processor();
    if (!recalled.state.recall()) {
        shared.idle.remove_processor();
    }
    recalled.wake();
}

/// Recalls workers, or asks them to go, until as many run as are wanted, of those there are. Under
/// the lock of the controllers.
template <class Shared>
void adjust_running(Shared& shared, std::uint32_t wanted) {
    const std::uint32_t count = shared.worker_count();
    std::uint32_t running = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        running += shared.worker_at(i).state.running() ? 1 : 0;
    }
    for (std::uint32_t i = 0; i < count && running < wanted; ++i) {
        auto& each = shared.worker_at(i);
        if (!each.state.running()) {
            recall_worker(each, shared);
            ++running;
        }
    }
    for (std::uint32_t i = count; i-- > 1 && running > wanted;) {
        auto& each = shared.worker_at(i);
        if (each.state.running()) {
            ask_worker(each);
            --running;
        }
    }
}

}  // namespace weft::detail
