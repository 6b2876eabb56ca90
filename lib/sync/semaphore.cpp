// SPDX-License-Identifier: MIT
#include <weft/detail/sync/permit_operation.hpp>

#include "lib/sync/lock_holder.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/detail/sync/destroyed.hpp>

#include <mutex>
#include <stdexcept>

namespace weft::detail {

namespace {

// Each is ours, and its frame may be gone after its completion, so the link is read before.
void complete_granted(permit_waiter* first) noexcept {
    branch_list readied;
    while (first != nullptr) {
        permit_waiter& each = *first;
        first = each.next_granted;
        complete_waiter(*each.waiting, readied);
    }
    make_ready(readied);
}

}  // namespace

semaphore_base::semaphore_base(std::size_t permits, std::size_t limit)
    : core(permits <= limit ? permits : limit, limit) {
    if (permits > limit) {
        throw std::invalid_argument(
            "weft: a semaphore has more permits at first than its limit allows");
    }
}

semaphore_base::~semaphore_base() {
    const auto gone = core.end();
    // A task that waits must not outlive what it waits for. At the end of a runtime frames are
    // destroyed in any order, those with the semaphore before those that wait for it.
    WEFT_EXPECT(only_leftovers_wait(gone.waiting),
                "a weft::semaphore, or auto_reset_event, was destroyed while tasks wait for it; "
                "join them before");
    WEFT_EXPECT(only_leftovers_wait(gone.granted),
                "a weft::semaphore, or auto_reset_event, was destroyed before a task has run that "
                "it let through; join the tasks that use it before");
    branch_list readied;
    for (permit_waiter* next = gone.waiting; next != nullptr;) {
        permit_waiter& each = *next;
        next = each.next;
        complete_waiter(*each.waiting, readied);
    }
    make_ready(readied);
}

[[gnu::hot]]
bool semaphore_base::release(std::size_t count) noexcept {
    // The semaphore may be gone when the first of them is complete.
    const release_decision<permit_waiter> decided = core.release(count);
    if (decided.granted != nullptr) complete_granted(decided.granted);
    return decided.fits;
}

void semaphore_base::check_wanted(std::size_t wanted) const {
    if (wanted > core.limit()) [[unlikely]] {
        throw std::invalid_argument(
            "weft: more permits are wanted than the limit of the semaphore allows");
    }
}

guarded_semaphore_base::~guarded_semaphore_base() {
    WEFT_EXPECT(marks_.empty() || destroys_frames(),
                "a weft::semaphore was destroyed while a guard keeps permits of it; join the tasks "
                "that use it before");
    for (auto* each = marks_.take_all(); each != nullptr; each = each->next) each->clear();
}

void guarded_semaphore_base::add_mark(permit_mark<guarded_semaphore_base>& mark) noexcept {
    const std::lock_guard held(marks_lock_);
    marks_.push_back(mark);
}

void guarded_semaphore_base::remove_mark(permit_mark<guarded_semaphore_base>& mark) noexcept {
    const std::lock_guard held(marks_lock_);
    marks_.remove(mark);
}

// It pays before it takes, since a branch that goes through the queue in between could be destroyed
// there with permits that nobody gives back.
[[gnu::hot]]
bool permit_operation::start(branch& waiter) noexcept {
    if (!prepare_park(waiter, *this)) return true;
    if (!finish_inline(waiter, *this)) return false;
    self_.waiting = &waiter;
    return from_->core.acquire(self_.wanted, &self_) || park(waiter, *this);
}

bool permit_operation::unlink() noexcept {
    const withdrawal<permit_waiter> withdrawn = from_->core.withdraw(self_);
    complete_granted(withdrawn.granted);
    return withdrawn.was_there;
}

[[gnu::hot]]
void permit_operation::take() {
    if (self_.granted) {
        // One that was destroyed afterwards has no list of those whom it has granted permits.
        if (!self_.orphaned) from_->core.take(self_);
        self_.granted = false;
    } else if (self_.orphaned) [[unlikely]] {
        throw_destroyed();
    }
}

permit_operation::~permit_operation() {
    if (self_.granted && !self_.orphaned) complete_granted(from_->core.give_back(self_));
}

}  // namespace weft::detail
