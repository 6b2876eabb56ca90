// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/layer.hpp>
#include <weft/detail/sync/wait_list.hpp>

#include <cstddef>
#include <utility>

namespace weft::detail {

/// That permits have been acquired, and are to be released with the mark: what a guard of a
/// semaphore consists of.
///
/// The object has a list of its marks, and a lock for it, since at the end of a runtime it may be
/// destroyed before the guards (lock_mark.hpp); then it clears them.
template <class Owner>
class permit_mark : public wait_links<layer, permit_mark<Owner>> {
public:
    permit_mark() noexcept = default;
    permit_mark(permit_mark&& from) noexcept { take(from); }
    permit_mark& operator=(permit_mark&& from) noexcept {
        if (this != &from) {
            give_back();
            take(from);
        }
        return *this;
    }
    ~permit_mark() { give_back(); }

    /// So many permits of `on` are acquired, by whoever has this mark. Zero: it marks nothing.
    void set(Owner& on, std::size_t count) noexcept {
        if (count == 0) return;
        of_ = &on;
        count_ = count;
        on.add_mark(*this);
    }
    /// The object is destroyed.
    void clear() noexcept {
        of_ = nullptr;
        count_ = 0;
    }

    std::size_t count() const noexcept { return count_; }

    void give_back() noexcept {
        Owner* const of = of_;
        if (const std::size_t count = forget()) of->release(count);
    }
    /// The permits stay acquired; returns how many they are.
    std::size_t forget() noexcept {
        if (of_ != nullptr) of_->remove_mark(*this);
        of_ = nullptr;
        return std::exchange(count_, 0);
    }

private:
    void take(permit_mark& from) noexcept {
        Owner* const of = from.of_;
        if (const std::size_t count = from.forget()) set(*of, count);
    }

    Owner* of_ = nullptr;
    std::size_t count_ = 0;
};

}  // namespace weft::detail
