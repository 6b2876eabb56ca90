// SPDX-License-Identifier: MIT
#include <weft/sleep.hpp>

#include <weft/detail/sched/worker.hpp>

namespace weft::detail {

bool sleep_operation::start(branch& waiter) noexcept {
    if (!prepare_park(waiter, *this)) {
        return true;
    }
    worker& here = *waiter.current;
    try {
        here.timers().add(*this, until_);
    } catch (const std::bad_alloc&) {
        no_memory_ = true;
        return true;
    }
    const bool finished = park(waiter, *this);
    // The branch may run elsewhere by now, and so may its frame be gone; the worker is this one.
    here.timer_added();
    return finished;
}

bool sleep_operation::unlink() noexcept {
    return timer_heap::remove(*this);
}

void sleep_operation::fire(branch_list& readied) noexcept {
    branch* waiting = waiter();
    if (waiting->word.complete()) {
        readied.push_back(waiting);
    }
}

}  // namespace weft::detail
