// SPDX-License-Identifier: MIT
#include <weft/detail/sync/condition_operation.hpp>

#include <weft/detail/base/assert.hpp>
#include <weft/error.hpp>

#include <system_error>
#include <utility>

namespace weft::detail {

condition_base::~condition_base() {
    task_waiter* const gone = core.end();
    WEFT_EXPECT(nobody_runs(gone),
                "a weft::condition_variable was destroyed while tasks wait for it; join them "
                "before");
    complete_all(gone);
}

void condition_base::notify_one() noexcept {
    if (task_waiter* const first = core.notify_one()) complete(*first);
}

void condition_base::notify_all() noexcept {
    complete_all(core.notify_all());
}

bool condition_operation::start(branch& waiter) noexcept {
    if (step_ == step::begins) {
        if (!prepare_park(waiter, *this)) return true;  // Stopped, with the mutex locked.
        if (guard_ != nullptr) mutex_ = guard_->release();
        in_line_.waiting = &waiter;
        for_mutex_.waiting = &waiter;
        step_ = step::waits;
        on_->core.line_up(in_line_);
        mutex_->unlock();
        if (!park(waiter, *this)) return false;
    }
    if (step_ == step::waits) {
        // Notified or stopped, which the outcome tells; from now on a stop changes nothing.
        step_ = step::locks;
        waiter.reason = wait_reason::lock;
    }
    while (!mutex_base::is_over(for_mutex_) && !mutex_->lock_or_line_up(for_mutex_)) {
        if (!park(waiter, *this)) return false;
    }
    return true;
}

bool condition_operation::unlink() noexcept {
    // Of the line of the mutex nobody but the mutex takes it: see the head of condition_core.hpp.
    return step_ == step::waits && on_->core.withdraw(in_line_);
}

void condition_operation::leave_for_good() noexcept {
    if (step_ != step::locks || !is_parked() || !waiter()->word.awaits_completer()) return;
    // Whoever has taken it off the line is its completer.
    if (mutex_->withdraw(for_mutex_)) waiter()->word.complete();
}

condition_operation::~condition_operation() {
    if (step_ == step::locks) mutex_base::leave(*mutex_, for_mutex_);
}

void condition_operation::give_back() noexcept {
    if (step_ == step::begins) return;
    if (guard_ != nullptr) {
        *guard_ = std::move(for_mutex_.mark);
    } else {
        for_mutex_.mark.release();
    }
}

void condition_operation::throw_if_gone() const {
    if (in_line_.orphaned || for_mutex_.orphaned) [[unlikely]] {
        throw std::system_error(errc::closed);
    }
}

}  // namespace weft::detail
