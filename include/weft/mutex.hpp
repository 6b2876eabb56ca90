// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sync/mutex_operation.hpp>
#include <weft/detail/task/awaiter.hpp>
#include <weft/unique_lock.hpp>

#include <cstdint>
#include <utility>

namespace weft {

class mutex;

namespace detail {

class [[nodiscard]] lock_awaiter final : public awaiter<lock_operation> {
public:
    using awaiter<lock_operation>::awaiter;
    void await_resume() {
        throw_unless_completed();
        locked().release();
    }
};

class [[nodiscard]] scoped_lock_awaiter final : public awaiter<lock_operation> {
public:
    using awaiter<lock_operation>::awaiter;
    [[nodiscard]] unique_lock<mutex> await_resume();
};

}  // namespace detail

/// Lets one task at a time into a section, which may suspend (std::mutex; Tokio's Mutex). Waiting
/// blocks the task and not its thread, and takes no memory. A std::mutex serves tasks as well where
/// no section suspends.
///
/// Who waits is served first in, first out, but a running task may be faster than one that was
/// woken. One that loses so for more than 1 ms is handed the mutex, with those behind it (Go's
/// sync.Mutex). unlock() does not switch to the next task: that is the next one that this worker
/// runs. A task that locks a mutex twice waits for itself.
///
/// A mutex belongs to the task that has locked it, whichever thread it runs on; tasks of several
/// runtimes may share it. Children that run beside each other (when_all(), a task_group and their
/// kind) are branches of one task: they exclude each other like any others, but any of them may
/// unlock what one has locked, and holder() does not tell which one that was. Threads outside may
/// use try_lock() and unlock(), and hold a runtime::guard while they may still wake a task. To
/// unlock what is not locked, or what another task holds, is an assertion in debug builds; in
/// others the former does nothing, and the latter unlocks.
///
/// A mutex must outlive those who use it: destroying it locked, or while a task waits, is an
/// assertion in debug builds; in others guards of it let go, and who waits gets errc::closed.
class mutex : private detail::mutex_base {
public:
    mutex() noexcept = default;
    mutex(const mutex&) = delete;
    mutex& operator=(const mutex&) = delete;
    ~mutex() = default;

    /// `const auto guard = co_await m.scoped_lock();` waits until the mutex is free, and locks it
    /// for the scope: a unique_lock<mutex>. If it must wait it resumes on the worker of the task
    /// that unlocked. Throws operation_canceled (or timed_out) when the scope of the task is
    /// stopped, and has not locked then; it is not stopped any more once it was handed the mutex.
    [[nodiscard]] detail::scoped_lock_awaiter scoped_lock() noexcept {
        return detail::scoped_lock_awaiter(*this);
    }

    /// The same without a guard: call unlock(). A suspension in between may throw, and a task may
    /// be destroyed there at the end of its runtime; with a guard it unlocks.
    [[nodiscard]] detail::lock_awaiter lock() noexcept { return detail::lock_awaiter(*this); }

    /// Locks only if it need not wait; any thread.
    [[nodiscard]] bool try_lock() noexcept { return mutex_base::try_lock(); }

    /// The holder. Never waits, and never runs the next holder.
    void unlock() noexcept { mutex_base::unlock(); }

    /// The id of the task that holds it (this_task::id()); 0: none, or a thread outside. Others may
    /// change that at any time.
    std::uint64_t holder() const noexcept { return mutex_base::holder(); }

private:
    friend class detail::mark_guard<mutex, detail::lock_mark>;
    friend class condition_variable;
    using base = detail::mutex_base;
};

namespace detail {

inline unique_lock<mutex> scoped_lock_awaiter::await_resume() {
    throw_unless_completed();
    return unique_lock<mutex>(std::move(locked()));
}

}  // namespace detail

}  // namespace weft
