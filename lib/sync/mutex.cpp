// SPDX-License-Identifier: MIT
#include <weft/detail/sync/mutex_operation.hpp>

#include "lib/sync/lock_holder.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/error.hpp>

#include <system_error>

namespace weft::detail {

mutex_base::~mutex_base() {
    lock_waiter* gone = core_.end();
    WEFT_EXPECT(!core_.is_locked() || destroys_frames(),
                "a weft::mutex was destroyed that is locked; join the tasks that use it before");
    WEFT_EXPECT(only_leftovers_wait(gone),
                "a weft::mutex was destroyed while tasks wait for it; join them before");
    if (mark_ != nullptr) mark_->clear();
    while (gone != nullptr) {
        lock_waiter& each = *gone;  // Its frame may be gone after its completion.
        gone = each.next;
        complete_holder(each);
    }
}

[[gnu::hot]]
bool mutex_base::try_lock() noexcept {
    if (!core_.try_lock()) return false;
    held_by(running_task());
    return true;
}

[[gnu::hot]]
void mutex_base::unlock() noexcept {
    WEFT_EXPECT(core_.is_locked(),
                "a weft::mutex was unlocked that is not locked; use co_await scoped_lock(), whose "
                "guard unlocks once");
    WEFT_EXPECT(may_unlock(holder()),
                "a weft::mutex was unlocked by another task than its holder; a lock stays with the "
                "task that has locked");
    held_by(0);
    const auto decided = core_.unlock();
    if (decided.next == nullptr) return;
    if (decided.handed) {
        decided.next->lined_up = false;
        decided.next->mark.set(*this);
        held_by(decided.next->waiting->owner->id);
    }
    complete_holder(*decided.next);
}

[[gnu::hot]]
bool mutex_base::lock_or_line_up(lock_waiter& self) noexcept {
    if (self.lined_up || !core_.try_lock()) {
        if (self.since == 0) self.since = monotonic_now();
        // Before, since whoever finds it in line may hand it the mutex at once.
        self.lined_up = true;
        if (!core_.acquire(self)) return false;
        self.lined_up = false;
    }
    self.mark.set(*this);
    held_by(self.waiting->owner->id);
    return true;
}

bool mutex_base::withdraw(lock_waiter& waiting) noexcept {
    if (!core_.withdraw(waiting)) return false;
    waiting.lined_up = false;
    return true;
}

void mutex_base::leave(mutex_base& on, lock_waiter& waiting) noexcept {
    if (!waiting.lined_up || waiting.orphaned) return;
    waiting.lined_up = false;
    if (lock_waiter* const next = on.core_.give_up(waiting)) complete_holder(*next);
}

[[gnu::hot]]
bool lock_operation::start(branch& waiter) noexcept {
    self_.waiting = &waiter;
    while (!mutex_base::is_over(self_)) {
        if (!prepare_park(waiter, *this)) {
            mutex_base::leave(*on_, self_);
            break;
        }
        // The budget of this resume comes before the mutex, which nobody else would get while its
        // holder goes behind the local queue.
        if (!self_.lined_up && !finish_inline(waiter, *this)) return false;
        if (on_->lock_or_line_up(self_)) break;
        if (!park(waiter, *this)) return false;
    }
    return true;
}

lock_mark<mutex_base>& lock_operation::locked() {
    if (self_.orphaned) [[unlikely]] { throw std::system_error(errc::closed); }
    return self_.mark;
}

}  // namespace weft::detail
