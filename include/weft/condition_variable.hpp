// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sync/condition_operation.hpp>
#include <weft/detail/task/awaiter.hpp>
#include <weft/mutex.hpp>
#include <weft/task.hpp>

#include <concepts>
#include <functional>
#include <system_error>
#include <utility>

namespace weft {

namespace detail {

class [[nodiscard]] condition_awaiter final : public awaiter<condition_operation> {
public:
    using awaiter<condition_operation>::awaiter;
    condition_awaiter(const condition_awaiter&) = default;
    ~condition_awaiter() { leave_for_good(); }
    void await_resume() {
        give_back();
        throw_unless_completed();
        throw_if_gone();
    }
};

}  // namespace detail

/// Lets tasks wait until something that a mutex guards has changed (std::condition_variable; Go's
/// sync.Cond).
///
///     auto guard = co_await m.scoped_lock();
///     co_await changed.wait(guard, [&] { return !queue.empty(); });
///
/// A wait unlocks the mutex, and has it locked again when it ends, however it ends: also when it
/// throws. It cannot miss what is notified after the mutex was unlocked. A wait for a time is
/// `with_timeout(5s, changed.wait(guard))`.
///
/// Who waits is notified first in, first out, and takes no memory. Any thread may notify, also
/// without the mutex; one outside holds a runtime::guard while it may still wake a task.
///
/// It must outlive those who wait: destroying it before is an assertion in debug builds; in others
/// they get errc::closed. At the end of a runtime a notification goes with the task that got it.
class condition_variable : private detail::condition_base {
public:
    condition_variable() noexcept = default;
    condition_variable(const condition_variable&) = delete;
    condition_variable& operator=(const condition_variable&) = delete;
    ~condition_variable() = default;

    /// `co_await wait(guard)` waits for a notification. What it is about may have changed again
    /// when the mutex is locked, so look in a loop, or give a condition. It resumes on the worker
    /// of the task that notified, or that unlocked the mutex. Throws operation_canceled (or
    /// timed_out) when the scope is stopped, once the mutex is locked again, and then has used up
    /// no notification. Throws std::errc::operation_not_permitted if `guard` locks nothing.
    [[nodiscard]] detail::condition_awaiter wait(unique_lock<mutex>& guard) {
        if (!guard.owns_lock()) [[unlikely]] {
            throw std::system_error(std::make_error_code(std::errc::operation_not_permitted));
        }
        return detail::condition_awaiter(*this, guard.mark_);
    }
    /// The same without a guard: the task has locked the mutex.
    [[nodiscard]] detail::condition_awaiter wait(mutex& locked) noexcept {
        return detail::condition_awaiter(*this, static_cast<detail::mutex_base&>(locked));
    }

    /// Waits until `satisfied()`, which is called with the mutex locked, is true. Does not wait if
    /// it is true already. Throws what it throws, and as above.
    template <std::predicate Condition>
    task<> wait(unique_lock<mutex>& guard, Condition satisfied) {
        while (!std::invoke(satisfied)) co_await wait(guard);
    }
    template <std::predicate Condition>
    task<> wait(mutex& locked, Condition satisfied) {
        while (!std::invoke(satisfied)) co_await wait(locked);
    }

    /// Wakes the task that has waited longest, if any: it is the next one that this worker runs.
    /// Never waits.
    void notify_one() noexcept { condition_base::notify_one(); }
    /// Wakes all that wait now.
    void notify_all() noexcept { condition_base::notify_all(); }
};

}  // namespace weft
