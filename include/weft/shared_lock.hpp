// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/compiler.hpp>
#include <weft/detail/sync/mark_guard.hpp>
#include <weft/detail/sync/shared_mark.hpp>

#include <mutex>
#include <utility>

namespace weft {

/// Keeps a weft::shared_mutex locked together with others, and unlocks it when it is destroyed:
/// what `co_await m.scoped_lock_shared()` gives (std::shared_lock; Tokio's RwLockReadGuard).
///
/// It may be moved. It never waits: to lock again, assign what another
/// `co_await m.scoped_lock_shared()` gives.
template <class Mutex>
class [[nodiscard]] shared_lock : private detail::mark_guard<Mutex, detail::shared_mark> {
    using guard = detail::mark_guard<Mutex, detail::shared_mark>;

public:
    /// Locks nothing.
    shared_lock() noexcept = default;
    /// Of a mutex that the task has locked, shared.
    shared_lock(Mutex& locked, std::adopt_lock_t) noexcept { this->set(locked); }
    /// Locks only if that need not wait; owns_lock() tells.
    shared_lock(Mutex& tried, std::try_to_lock_t) noexcept {
        if (tried.try_lock_shared()) this->set(tried);
    }
    shared_lock(shared_lock&&) noexcept = default;
    /// Unlocks what it had before.
    shared_lock& operator=(shared_lock&&) noexcept = default;
    ~shared_lock() = default;

    /// Unlocks before the end of the scope. Throws std::errc::operation_not_permitted if nothing is
    /// locked, as in the standard library. Never waits.
    using guard::unlock;

    /// The mutex stays locked, and is now the caller's to unlock. Null: nothing is locked.
    using guard::release;

    /// Is anything locked?
    using guard::owns_lock;
    using guard::operator bool;
    /// Null if nothing is locked.
    using guard::mutex;

    /// For weft itself.
    explicit shared_lock(typename guard::mark&& locked) noexcept : guard(std::move(locked)) {}
};

}  // namespace weft
