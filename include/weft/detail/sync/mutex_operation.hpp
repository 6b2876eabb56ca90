// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/clock.hpp>
#include <weft/detail/base/layer.hpp>
#include <weft/detail/branch/operation.hpp>
#include <weft/detail/sync/lock_mark.hpp>
#include <weft/detail/sync/mutex_core.hpp>

#include <cstdint>

namespace weft::detail {

class mutex_base;

/// Who waits for a mutex. Lies in the awaiting frame.
struct lock_waiter : wait_links<layer, lock_waiter> {
    lock_waiter() noexcept = default;
    /// Of one that has not begun to wait, as of all awaitables.
    lock_waiter(const lock_waiter&) noexcept : lock_waiter() {}
    lock_waiter& operator=(const lock_waiter&) = delete;

    bool waits_long() const noexcept { return monotonic_now() - since > starvation_limit; }

    /// Go's starvationThresholdNs.
    static constexpr monotonic_time starvation_limit = 1'000'000;

    branch* waiting = nullptr;
    monotonic_time since = 0;  ///< When it began to wait.
    /// It stands in line, or was woken and has not tried since: the mutex knows it.
    bool lined_up = false;
    /// Set once it holds the mutex, by itself or by whoever has handed it over.
    lock_mark<mutex_base> mark;
};

/// All of a mutex but the awaitables that it gives.
class mutex_base {
public:
    mutex_base() noexcept = default;
    mutex_base(const mutex_base&) = delete;
    mutex_base& operator=(const mutex_base&) = delete;

    bool try_lock() noexcept;
    void unlock() noexcept;
    std::uint64_t holder() const noexcept {
        // Relaxed: a hint, but for the holder itself.
        return holder_.load(std::memory_order_relaxed);
    }

    // For operations.

    /// The branch takes the mutex, and its mark is set; false: it is in line, and parks.
    bool lock_or_line_up(lock_waiter& self) noexcept;
    /// A canceller. False: whoever has taken it off completes it.
    bool withdraw(lock_waiter& waiting) noexcept;
    /// It was in line, and is completed: is there nothing to wait for any more?
    static bool is_over(const lock_waiter& waiting) noexcept {
        return waiting.mark.of() != nullptr || waiting.orphaned;
    }
    /// Resumed or destroyed: if it was woken and has not locked, the next one is woken instead.
    static void leave(mutex_base& on, lock_waiter& waiting) noexcept;

    /// See lock_mark.hpp.
    void keep_mark(lock_mark<mutex_base>* mark) noexcept { mark_ = mark; }

protected:
    /// See mutex.
    ~mutex_base();

private:
    void held_by(std::uint64_t task) noexcept {
        holder_.store(task, std::memory_order_relaxed);  // As in holder().
    }

    mutex_core<layer, lock_waiter> core_;
    layer::atomic<std::uint64_t> holder_{0};  ///< The id of a task.
    lock_mark<mutex_base>* mark_ = nullptr;   ///< The holder's, if it has one.
};

/// The wait for a mutex.
class lock_operation : public operation {
public:
    explicit lock_operation(mutex_base& on) noexcept
        : operation(true, wait_reason::lock), on_(&on) {}

    bool start(branch& waiter) noexcept final;
    bool unlink() noexcept final { return on_->withdraw(self_); }
    /// Only tasks unlock it, and threads outside that hold a guard.
    bool completed_by_tasks() const noexcept final { return true; }
    std::uint64_t held_by() const noexcept final { return on_->holder(); }

protected:
    lock_operation(const lock_operation&) noexcept = default;
    ~lock_operation() { mutex_base::leave(*on_, self_); }

    /// For await_resume(), after the check of the outcome. Throws errc::closed if the mutex was
    /// destroyed.
    lock_mark<mutex_base>& locked();

private:
    mutex_base* on_;
    lock_waiter self_;
};

}  // namespace weft::detail
