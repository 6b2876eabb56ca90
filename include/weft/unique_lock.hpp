// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/compiler.hpp>
#include <weft/detail/sync/lock_mark.hpp>
#include <weft/detail/sync/mark_guard.hpp>

#include <mutex>
#include <utility>

namespace weft {

class condition_variable;

/// Keeps a weft::mutex locked, or a weft::shared_mutex for its holder alone, and unlocks it when it
/// is destroyed: what `co_await m.scoped_lock()` gives (std::unique_lock; Tokio's MutexGuard).
///
/// It may be moved, but stays with the task that has locked. It never waits: to lock again
/// after an unlock(), assign what another `co_await m.scoped_lock()` gives.
template <class Mutex>
class [[nodiscard]] unique_lock : private detail::mark_guard<Mutex, detail::lock_mark> {
    using guard = detail::mark_guard<Mutex, detail::lock_mark>;

public:
    /// Locks nothing.
    unique_lock() noexcept = default;
    /// Of a mutex that the task has locked.
    unique_lock(Mutex& locked, std::adopt_lock_t) noexcept { this->set(locked); }
    /// Locks only if that need not wait; owns_lock() tells.
    unique_lock(Mutex& tried, std::try_to_lock_t) noexcept {
        if (tried.try_lock()) this->set(tried);
    }
    unique_lock(unique_lock&&) noexcept = default;
    /// Unlocks what it had before.
    unique_lock& operator=(unique_lock&&) noexcept = default;
    ~unique_lock() = default;

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
    explicit unique_lock(typename guard::mark&& locked) noexcept : guard(std::move(locked)) {}

private:
    friend class condition_variable;
};

}  // namespace weft
