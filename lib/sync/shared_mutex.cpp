// SPDX-License-Identifier: MIT
#include <weft/detail/sync/shared_mutex_operation.hpp>

#include "lib/sync/lock_holder.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/error.hpp>

#include <mutex>
#include <system_error>

namespace weft::detail {

shared_mutex_base::~shared_mutex_base() {
    shared_mutex_waiter* gone = core_.end();
    WEFT_EXPECT((!core_.is_locked(lock_kind::exclusive) && !core_.is_locked(lock_kind::shared)) ||
                    destroys_frames(),
                "a weft::shared_mutex was destroyed that is locked; join the tasks that use it "
                "before");
    WEFT_EXPECT(only_leftovers_wait(gone),
                "a weft::shared_mutex was destroyed while tasks wait for it; join them before");
    if (mark_ != nullptr) mark_->clear();
    for (auto* each = marks_.take_all(); each != nullptr; each = each->next) each->clear();
    while (gone != nullptr) {
        shared_mutex_waiter& each = *gone;  // Its frame may be gone after its completion.
        gone = each.next;
        complete_holder(each);
    }
}

bool shared_mutex_base::try_lock() noexcept {
    if (!core_.try_lock(lock_kind::exclusive)) return false;
    held_by(running_task());
    return true;
}

bool shared_mutex_base::try_lock_shared() noexcept {
    return core_.try_lock(lock_kind::shared);
}

void shared_mutex_base::unlock() noexcept {
    WEFT_EXPECT(core_.is_locked(lock_kind::exclusive),
                "a weft::shared_mutex was unlocked that is not locked; use co_await scoped_lock(), "
                "whose guard unlocks once");
    WEFT_EXPECT(may_unlock(holder()),
                "a weft::shared_mutex was unlocked by another task than its holder; a lock stays "
                "with the task that has locked");
    held_by(0);
    complete_served(core_.unlock(lock_kind::exclusive).served);
}

void shared_mutex_base::unlock_shared() noexcept {
    const auto decided = core_.unlock(lock_kind::shared);
    WEFT_EXPECT(decided.was_locked,
                "unlock_shared() of a weft::shared_mutex that nobody shares; use co_await "
                "scoped_lock_shared(), whose guard unlocks once");
    complete_served(decided.served);
}

void shared_mutex_base::note_holder(shared_mutex_waiter& holder) noexcept {
    if (holder.kind == lock_kind::exclusive) {
        holder.mark.set(*this);
        held_by(holder.waiting->owner->id);
    } else {
        holder.mark_shared.set(*this);
    }
}

void shared_mutex_base::complete_served(shared_mutex_waiter* first) noexcept {
    branch_list readied;
    while (first != nullptr) {
        shared_mutex_waiter& each = *first;  // Its frame may be gone after its completion.
        first = each.next;
        note_holder(each);
        complete_waiter(*each.waiting, readied);
    }
    make_ready(readied);
}

bool shared_mutex_base::lock_or_line_up(shared_mutex_waiter& self) noexcept {
    if (!core_.lock_or_line_up(self)) return false;
    note_holder(self);
    return true;
}

bool shared_mutex_base::withdraw(shared_mutex_waiter& waiting) noexcept {
    shared_mutex_waiter* served = nullptr;
    if (!core_.withdraw(waiting, served)) return false;
    complete_served(served);
    return true;
}

void shared_mutex_base::add_mark(shared_mark<shared_mutex_base>& mark) noexcept {
    const std::lock_guard held(marks_lock_);
    marks_.push_back(mark);
}

void shared_mutex_base::remove_mark(shared_mark<shared_mutex_base>& mark) noexcept {
    const std::lock_guard held(marks_lock_);
    marks_.remove(mark);
}

bool shared_mutex_operation::start(branch& waiter) noexcept {
    self_.waiting = &waiter;
    if (!prepare_park(waiter, *this)) return true;
    // As in lock_operation::start().
    if (!finish_inline(waiter, *this)) return false;
    return on_->lock_or_line_up(self_) || park(waiter, *this);
}

shared_mutex_waiter& shared_mutex_operation::locked() {
    if (self_.orphaned) [[unlikely]] { throw std::system_error(errc::closed); }
    return self_;
}

}  // namespace weft::detail
