// SPDX-License-Identifier: MIT
#include <weft/detail/sync/select_operation.hpp>

#include "lib/sched/runtime_core.hpp"

#include <weft/detail/sched/worker.hpp>

#include <cstddef>
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
    // Only a select with sides comes here again.
    if (stage_ != stage::begins) [[unlikely]] {
        return stage_ == stage::leaves || leave_with_sides(waiter);
    }
    if (!prepare_park(waiter, *this)) return true;
    parts_ = begin_cases(waiter);
    select_clock clock;
    if (parts_.happenings != nullptr) look_at_happenings(clock);
    const bool waits = parts_.otherwise == no_case;
    shuffle(parts_.cases, parts_.count, *waiter.current);
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
    stage_ = stage::lined_up;
    if (parts_.happenings == nullptr) return park(waiter, *this);
    return wait_for_happenings(waiter, clock.was_read());
}

bool select_operation::wait_for_happenings(branch& waiter, bool timed) noexcept {
    worker& here = *waiter.current;
    const bool has_sides = parts_.sides != nullptr;  // This may be gone once it is parked.
    if (arm_happenings(here)) {
        const bool finished = park(waiter, *this);
        // The branch may run elsewhere by now; the worker is this one.
        if (timed) here.timer_added();
        if (!finished) return false;
    }
    return !has_sides || leave_with_sides(waiter);
}

// The first step of a select with sides when it has been woken up; false: it waits for them.
bool select_operation::leave_with_sides(branch& waiter) noexcept {
    stage_ = stage::leaves;
    leave_lines(parts_.cases, parts_.count, word_.winner());
    for (std::uint32_t i = 0; i < parts_.count; ++i) {
        if (parts_.happenings[i] != nullptr && parts_.happenings[i]->withdraw()) {
            parts_.sides->withdrawn();
        }
    }
    return parts_.sides->leave() || park(waiter, *this);
}

bool select_operation::unlink() noexcept {
    return word_.claim(select_word<layer>::cancelled);
}

// The sides that it still waits for are in queues that nobody looks at any more, and end with this
// object. A stop may have met it here before, which took nothing off.
void select_operation::leave_for_good() noexcept {
    if (stage_ != stage::leaves || !is_parked() || !waiter()->word.awaits_completer()) return;
    waiter()->word.complete();
}

// Each case is told whether it has happened.
void select_operation::look_at_happenings(select_clock& clock) noexcept {
    for (std::uint32_t i = 0; i < parts_.count; ++i) {
        if (parts_.happenings[i] != nullptr) {
            parts_.cases[i].happened = parts_.happenings[i]->look(clock);
        }
    }
}

// False: there is no memory, and no case was made. A peer that was faster has served the select all
// the same.
bool select_operation::arm_happenings(worker& here) noexcept {
    if (parts_.sides != nullptr) count_sides();
    try {
        for (std::uint32_t i = 0; i < parts_.count; ++i) {
            if (parts_.happenings[i] != nullptr) parts_.happenings[i]->arm(here);
        }
    } catch (const std::bad_alloc&) { no_memory_ = word_.claim(select_word<layer>::cancelled); }
    return !no_memory_;
}

void select_operation::leave() noexcept {
    if (stage_ != stage::lined_up) return;
    stage_ = stage::over;
    leave_lines(parts_.cases, parts_.count, word_.winner());
    if (parts_.happenings == nullptr) return;
    for (std::uint32_t i = 0; i < parts_.count; ++i) {
        if (parts_.happenings[i] != nullptr) parts_.happenings[i]->leave();
    }
}

// All that stand in no line, so that each is counted off in the same way.
void select_operation::count_sides() noexcept {
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < parts_.count; ++i) {
        if (parts_.happenings[i] == nullptr) continue;
        parts_.happenings[i]->count_in(*parts_.sides);
        ++count;
    }
    parts_.sides->begin(count);
}

bool select_operation::completed_by_tasks() const noexcept {
    if (parts_.happenings == nullptr) return true;
    for (std::uint32_t i = 0; i < parts_.count; ++i) {
        if (parts_.happenings[i] != nullptr && !parts_.happenings[i]->made_by_tasks()) return false;
    }
    return true;
}

std::uint32_t select_operation::chosen() const {
    if (no_memory_) [[unlikely]] { throw std::bad_alloc(); }
    return chosen_ != no_case ? chosen_ : word_.winner() - select_word<layer>::first_case;
}

}  // namespace weft::detail
