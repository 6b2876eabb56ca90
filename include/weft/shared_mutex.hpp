// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sync/shared_mutex_operation.hpp>
#include <weft/detail/task/awaiter.hpp>
#include <weft/shared_lock.hpp>
#include <weft/unique_lock.hpp>

#include <cstdint>
#include <utility>

namespace weft {

class shared_mutex;

namespace detail {

/// The wait for a shared mutex; without a guard, or with one.
template <lock_kind Kind, bool Guarded>
class [[nodiscard]] shared_mutex_awaiter final : public awaiter<shared_mutex_operation> {
public:
    explicit shared_mutex_awaiter(shared_mutex_base& on) noexcept
        : awaiter<shared_mutex_operation>(on, Kind) {}
    [[nodiscard]] auto await_resume() {
        throw_unless_completed();
        if constexpr (Kind == lock_kind::exclusive) {
            return unique_lock<shared_mutex>(std::move(locked().mark));
        } else {
            return shared_lock<shared_mutex>(std::move(locked().mark_shared));
        }
    }
};

template <lock_kind Kind>
class [[nodiscard]] shared_mutex_awaiter<Kind, false> final
    : public awaiter<shared_mutex_operation> {
public:
    explicit shared_mutex_awaiter(shared_mutex_base& on) noexcept
        : awaiter<shared_mutex_operation>(on, Kind) {}
    void await_resume() {
        throw_unless_completed();
        if constexpr (Kind == lock_kind::exclusive) {
            locked().mark.release();
        } else {
            locked().mark_shared.release();
        }
    }
};

}  // namespace detail

/// A mutex that any number of tasks may share that only read what it guards, or one may have alone
/// (std::shared_mutex; Go's sync.RWMutex; Tokio's RwLock). Waiting blocks the task and not its
/// thread, and takes no memory. It pays where sections are long, or suspend; a mutex is faster
/// where they are short.
///
/// Who waits is served first in, first out, readers that stand together all at once, and has the
/// mutex before it runs. So while a task waits to write, tasks that come later to read wait too: a
/// writer is not starved. A task that shares it must not lock it again while it does: with a writer
/// in between it would wait for itself. There is no way from shared to exclusive but unlocking.
///
/// What mutex says of threads outside, of several runtimes, of who may unlock, and of its lifetime
/// holds here too; of those who share, which task unlocks is not checked.
class shared_mutex : private detail::shared_mutex_base {
    using kind = detail::lock_kind;

public:
    shared_mutex() noexcept = default;
    shared_mutex(const shared_mutex&) = delete;
    shared_mutex& operator=(const shared_mutex&) = delete;
    ~shared_mutex() = default;

    /// `const auto guard = co_await m.scoped_lock();` waits until nobody holds it, and locks it for
    /// this task alone, for the scope: a unique_lock<shared_mutex>. If it must wait it resumes on
    /// the worker of the task that unlocked. Throws operation_canceled (or timed_out) when the
    /// scope of the task is stopped, and has not locked then; once it was served it is not stopped.
    [[nodiscard]] auto scoped_lock() noexcept {
        return detail::shared_mutex_awaiter<kind::exclusive, true>(*this);
    }
    /// The same to read, together with others: a shared_lock<shared_mutex>.
    [[nodiscard]] auto scoped_lock_shared() noexcept {
        return detail::shared_mutex_awaiter<kind::shared, true>(*this);
    }

    /// The same without a guard: call unlock(), or unlock_shared().
    [[nodiscard]] auto lock() noexcept {
        return detail::shared_mutex_awaiter<kind::exclusive, false>(*this);
    }
    [[nodiscard]] auto lock_shared() noexcept {
        return detail::shared_mutex_awaiter<kind::shared, false>(*this);
    }

    /// Locks only if it need not wait, and nobody waits; any thread.
    [[nodiscard]] bool try_lock() noexcept { return shared_mutex_base::try_lock(); }
    [[nodiscard]] bool try_lock_shared() noexcept { return shared_mutex_base::try_lock_shared(); }

    /// The holder. Never waits, and never runs the next holder.
    void unlock() noexcept { shared_mutex_base::unlock(); }
    /// One of those who share it.
    void unlock_shared() noexcept { shared_mutex_base::unlock_shared(); }

    /// The id of the task that has it alone (this_task::id()); 0: none, or a thread outside. Others
    /// may change that at any time.
    std::uint64_t holder() const noexcept { return shared_mutex_base::holder(); }

private:
    friend class detail::mark_guard<shared_mutex, detail::lock_mark>;
    friend class detail::mark_guard<shared_mutex, detail::shared_mark>;
    using base = detail::shared_mutex_base;
};

}  // namespace weft
