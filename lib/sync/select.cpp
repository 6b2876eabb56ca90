// SPDX-License-Identifier: MIT
#include <weft/detail/sync/select_operation.hpp>

#include <weft/detail/sched/worker.hpp>

#include <cstdint>
#include <new>
#include <utility>

namespace weft::detail {

void select_timer::begin(select_word<layer>& of, std::uint32_t index, branch& waiter) noexcept {
    of_ = &of;
    index_ = index;
    waiting_ = &waiter;
}

void select_timer::add_to(timer_heap& heap) {
    if (until_ == no_deadline) return;
    heap.add(*this, until_);
    added_ = true;
}

void select_timer::leave() noexcept {
    if (!added_ || timer_heap::remove(*this)) return;
    // It has been collected. If it has won, its last touch was the completion.
    if (of_->winner() != select_word<layer>::first_case + index_) event_.await_let_go();
}

void select_timer::fire(branch_list& readied) noexcept {
    branch* const waiting = waiting_;  // The frame may be gone after the last touch.
    if (event_.happen(*of_, index_) && waiting->word.complete()) readied.push_back(waiting);
}

namespace {

/// True: at least one case is a timer, and each is told whether its time has come.
bool look_at_clock(selected_case* cases, select_timer* const* timers,
                   std::uint32_t count) noexcept {
    monotonic_time now = 0;
    bool timed = false;
    for (std::uint32_t i = 0; i < count; ++i) {
        if (timers[i] == nullptr) continue;
        if (!timed) now = monotonic_now();
        timed = true;
        cases[i].happened = timers[i]->until() <= now;
    }
    return timed;
}

// Each order is as likely as the others (Fisher and Yates).
void shuffle(selected_case* cases, std::uint32_t count, worker& here) noexcept {
    for (std::uint32_t left = count; left > 1; --left) {
        std::swap(cases[left - 1], cases[here.random_below(left)]);
    }
}

}  // namespace

bool select_operation::start(branch& waiter) noexcept {
    if (!prepare_park(waiter, *this)) return true;
    parts_ = begin_cases(waiter);
    timed_ = look_at_clock(parts_.cases, parts_.timers, parts_.count);
    const bool waits = parts_.otherwise == no_case;
    worker& here = *waiter.current;
    shuffle(parts_.cases, parts_.count, here);
    const selected decided = select_or_line_up(parts_.cases, parts_.order, parts_.count, waits);
    if (decided.chosen != selected::none) {
        chosen_ = decided.chosen;
        make(decided);
        return true;
    }
    if (!waits) {
        chosen_ = parts_.otherwise;
        return true;
    }
    lined_up_ = true;
    if (!timed_) return park(waiter, *this);
    if (!add_timers(here)) return true;
    const bool finished = park(waiter, *this);
    // The branch may run elsewhere by now, and so may its frame be gone; the worker is this one.
    here.timer_added();
    return finished;
}

// False: there is no memory, and no case was made. A peer that was faster has served the select all
// the same.
bool select_operation::add_timers(worker& here) noexcept {
    try {
        for (std::uint32_t i = 0; i < parts_.count; ++i) {
            if (parts_.timers[i] != nullptr) parts_.timers[i]->add_to(here.timers());
        }
    } catch (const std::bad_alloc&) {
        no_memory_ = word_.claim(select_word<layer>::cancelled);
    }
    return !no_memory_;
}

void select_operation::leave() noexcept {
    if (!lined_up_) return;
    lined_up_ = false;
    leave_lines(parts_.cases, parts_.count);
    for (std::uint32_t i = 0; timed_ && i < parts_.count; ++i) {
        if (parts_.timers[i] != nullptr) parts_.timers[i]->leave();
    }
}

std::uint32_t select_operation::chosen() const {
    if (no_memory_) [[unlikely]] {
        throw std::bad_alloc();
    }
    return chosen_ != no_case ? chosen_ : word_.winner() - select_word<layer>::first_case;
}

}  // namespace weft::detail
