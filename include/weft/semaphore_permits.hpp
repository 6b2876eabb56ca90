// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/compiler.hpp>
#include <weft/detail/sync/permit_operation.hpp>

#include <cstddef>
#include <mutex>
#include <system_error>
#include <utility>

namespace weft {

class semaphore;

/// Keeps permits of a semaphore, and gives them back when it is destroyed: what
/// `co_await s.scoped_acquire(n)` gives (Tokio's SemaphorePermit).
///
/// It may be moved, also to another task or thread, since permits belong to nobody. It never waits:
/// to acquire again, give_back() first, and assign what another `co_await s.scoped_acquire()`
/// gives.
class [[nodiscard]] semaphore_permits {
public:
    /// Keeps nothing.
    semaphore_permits() noexcept = default;
    /// Of n permits that have been acquired.
    semaphore_permits(semaphore& of, std::size_t n, std::adopt_lock_t) noexcept;
    /// Acquires n permits only if that need not wait; count() tells.
    semaphore_permits(semaphore& of, std::size_t n, std::try_to_lock_t) noexcept;
    semaphore_permits(semaphore_permits&&) noexcept = default;
    /// Gives back what it had before.
    semaphore_permits& operator=(semaphore_permits&&) noexcept = default;
    ~semaphore_permits() = default;

    /// Gives them back before the end of the scope. Throws std::errc::operation_not_permitted if it
    /// keeps none, as unique_lock does. Never waits.
    void give_back() {
        if (count() == 0) [[unlikely]] {
            throw std::system_error(std::make_error_code(std::errc::operation_not_permitted));
        }
        mark_.give_back();
    }

    /// The permits stay taken, and are now the caller's to release. Returns how many they are.
    std::size_t forget() noexcept { return mark_.forget(); }

    /// How many it keeps.
    std::size_t count() const noexcept { return mark_.count(); }
    explicit operator bool() const noexcept { return count() != 0; }

private:
    detail::permit_mark<detail::guarded_semaphore_base> mark_;
};

}  // namespace weft
