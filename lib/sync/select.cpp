// SPDX-License-Identifier: MIT
#include <weft/detail/sync/select_operation.hpp>

#include <weft/detail/sched/worker.hpp>

#include <cstdint>
#include <new>
#include <utility>

namespace weft::detail {

void select_timer::arm(worker& here) {
    if (until_ == no_deadline) return;
    here.timers().add(*this, until_);
    added_ = true;
}

void select_timer::leave() noexcept {
    if (!added_ || timer_heap::remove(*this)) return;
    // It has been collected. If it has won, its last touch was the completion.
    if (!has_won()) event_.await_let_go();
}

void select_timer::fire(branch_list& readied) noexcept {
    branch& waiting = this->waiting();  // The frame may be gone after the last touch.
    if (event_.happen(word(), index()) && waiting.word.complete()) readied.push_back(&waiting);
}

namespace {

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
    select_clock clock;
    has_happenings_ = look_at_happenings(clock);
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
    if (has_happenings_ && !arm_happenings(here)) return true;
    const bool timed = clock.was_read();  // This object may be gone once it is parked.
    const bool finished = park(waiter, *this);
    // The branch may run elsewhere by now; the worker is this one.
    if (timed) here.timer_added();
    return finished;
}

// True: there is at least one, and each case is told whether it has happened.
bool select_operation::look_at_happenings(select_clock& clock) noexcept {
    bool any = false;
    for (std::uint32_t i = 0; i < parts_.count; ++i) {
        if (parts_.happenings[i] == nullptr) continue;
        any = true;
        parts_.cases[i].happened = parts_.happenings[i]->look(clock);
    }
    return any;
}

// False: there is no memory, and no case was made. A peer that was faster has served the select all
// the same.
bool select_operation::arm_happenings(worker& here) noexcept {
    try {
        for (std::uint32_t i = 0; i < parts_.count; ++i) {
            if (parts_.happenings[i] != nullptr) parts_.happenings[i]->arm(here);
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
    for (std::uint32_t i = 0; has_happenings_ && i < parts_.count; ++i) {
        if (parts_.happenings[i] != nullptr) parts_.happenings[i]->leave();
    }
}

bool select_operation::completed_by_tasks() const noexcept {
    for (std::uint32_t i = 0; has_happenings_ && i < parts_.count; ++i) {
        if (parts_.happenings[i] != nullptr && !parts_.happenings[i]->made_by_tasks()) return false;
    }
    return true;
}

std::uint32_t select_operation::chosen() const {
    if (no_memory_) [[unlikely]] {
        throw std::bad_alloc();
    }
    return chosen_ != no_case ? chosen_ : word_.winner() - select_word<layer>::first_case;
}

}  // namespace weft::detail
