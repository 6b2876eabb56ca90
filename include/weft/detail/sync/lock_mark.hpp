// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

namespace weft::detail {

/// That an object is locked, and is to be unlocked with the mark: what a guard consists of, and an
/// operation that has locked until its task takes the lock from it. So a task that was destroyed in
/// between, at the end of a runtime, unlocks.
///
/// The object knows its mark, since it may be destroyed first at that end; then it clears the mark.
/// Used by the holder, by whoever hands the lock to it before that, and by that end.
template <class Owner>
class lock_mark {
public:
    lock_mark() noexcept = default;
    lock_mark(lock_mark&& from) noexcept : of_(from.release()) {
        if (of_ != nullptr) of_->keep_mark(this);
    }
    lock_mark& operator=(lock_mark&& from) noexcept {
        if (this != &from) {
            unlock();
            if (Owner* const moved = from.release()) set(*moved);
        }
        return *this;
    }
    ~lock_mark() { unlock(); }

    /// `on` is locked, by whoever has this mark.
    void set(Owner& on) noexcept {
        of_ = &on;
        on.keep_mark(this);
    }
    /// The object is destroyed.
    void clear() noexcept { of_ = nullptr; }

    Owner* of() const noexcept { return of_; }

    void unlock() noexcept {
        if (Owner* const on = release()) on->unlock();
    }
    /// The lock stays; its holder unlocks it without the mark.
    Owner* release() noexcept {
        if (of_ != nullptr) of_->keep_mark(nullptr);
        return std::exchange(of_, nullptr);
    }

private:
    Owner* of_ = nullptr;
};

}  // namespace weft::detail
