// SPDX-License-Identifier: MIT
#pragma once

#include <system_error>
#include <utility>

namespace weft::detail {

/// What unique_lock and shared_lock have in common, and say in their own headers: they consist of
/// the mark of what they keep locked (lock_mark.hpp, shared_mark.hpp), which unlocks when it goes.
/// `Mutex::base` is what the mark is of.
template <class Mutex, template <class> class Mark>
class mark_guard {
public:
    using mark = Mark<typename Mutex::base>;

    mark_guard() noexcept = default;
    explicit mark_guard(mark&& locked) noexcept : mark_(std::move(locked)) {}

    void unlock() {
        if (!owns_lock()) [[unlikely]] {
            throw std::system_error(std::make_error_code(std::errc::operation_not_permitted));
        }
        mark_.unlock();
    }
    Mutex* release() noexcept { return static_cast<Mutex*>(mark_.release()); }

    bool owns_lock() const noexcept { return mark_.of() != nullptr; }
    explicit operator bool() const noexcept { return owns_lock(); }
    Mutex* mutex() const noexcept { return static_cast<Mutex*>(mark_.of()); }

protected:
    void set(Mutex& locked) noexcept { mark_.set(locked); }

    mark mark_;
};

}  // namespace weft::detail
