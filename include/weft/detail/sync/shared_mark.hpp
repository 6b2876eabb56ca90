// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/layer.hpp>
#include <weft/detail/sync/wait_list.hpp>

#include <utility>

namespace weft::detail {

/// What lock_mark.hpp is about, of a lock that several may hold at the same time: the object has a
/// list of their marks, and a lock for it.
template <class Owner>
class shared_mark : public wait_links<layer, shared_mark<Owner>> {
public:
    shared_mark() noexcept = default;
    shared_mark(shared_mark&& from) noexcept { take(from); }
    shared_mark& operator=(shared_mark&& from) noexcept {
        if (this != &from) {
            unlock();
            take(from);
        }
        return *this;
    }
    ~shared_mark() { unlock(); }

    /// `on` is locked, by whoever has this mark.
    void set(Owner& on) noexcept {
        of_ = &on;
        on.add_mark(*this);
    }
    /// The object is destroyed.
    void clear() noexcept { of_ = nullptr; }

    Owner* of() const noexcept { return of_; }

    void unlock() noexcept {
        if (Owner* const on = release()) on->unlock_shared();
    }
    /// The lock stays; its holder unlocks it without the mark.
    Owner* release() noexcept {
        if (of_ != nullptr) of_->remove_mark(*this);
        return std::exchange(of_, nullptr);
    }

private:
    void take(shared_mark& from) noexcept {
        if (Owner* const on = from.release()) set(*on);
    }

    Owner* of_ = nullptr;
};

}  // namespace weft::detail
