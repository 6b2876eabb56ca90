// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/compiler.hpp>
#include <weft/detail/sync/shared_mark.hpp>

#include <mutex>
#include <system_error>
#include <utility>

namespace weft {

/// Keeps a weft::shared_mutex locked together with others, and unlocks it when it is destroyed:
/// what `co_await m.scoped_lock_shared()` gives (std::shared_lock; Tokio's RwLockReadGuard).
///
/// It may be moved. It never waits: to lock again, assign what another
/// `co_await m.scoped_lock_shared()` gives.
template <class Mutex>
class [[nodiscard]] shared_lock {
public:
    /// Locks nothing.
    shared_lock() noexcept = default;
    /// Of a mutex that the task has locked, shared.
    shared_lock(Mutex& locked, std::adopt_lock_t) noexcept { mark_.set(locked); }
    /// Locks only if that need not wait; owns_lock() tells.
    shared_lock(Mutex& tried, std::try_to_lock_t) noexcept {
        if (tried.try_lock_shared()) mark_.set(tried);
    }
    shared_lock(shared_lock&&) noexcept = default;
    /// Unlocks what it had before.
    shared_lock& operator=(shared_lock&&) noexcept = default;
    ~shared_lock() = default;

    /// Unlocks before the end of the scope. Throws std::errc::operation_not_permitted if nothing is
    /// locked, as in the standard library. Never waits.
    void unlock() {
        if (!owns_lock()) [[unlikely]] {
            throw std::system_error(std::make_error_code(std::errc::operation_not_permitted));
        }
        mark_.unlock();
    }

    /// The mutex stays locked, and is now the caller's to unlock. Null: nothing is locked.
    Mutex* release() noexcept { return static_cast<Mutex*>(mark_.release()); }

    bool owns_lock() const noexcept { return mark_.of() != nullptr; }
    explicit operator bool() const noexcept { return owns_lock(); }
    /// Null if nothing is locked.
    Mutex* mutex() const noexcept { return static_cast<Mutex*>(mark_.of()); }

    /// For weft itself.
    explicit shared_lock(detail::shared_mark<typename Mutex::base>&& locked) noexcept
        : mark_(std::move(locked)) {}

private:
    detail::shared_mark<typename Mutex::base> mark_;
};

}  // namespace weft
