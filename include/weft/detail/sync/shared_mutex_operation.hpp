// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/layer.hpp>
#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/branch/operation.hpp>
#include <weft/detail/sync/lock_mark.hpp>
#include <weft/detail/sync/shared_mark.hpp>
#include <weft/detail/sync/shared_mutex_core.hpp>

#include <cstdint>

namespace weft::detail {

class shared_mutex_base;

/// Who waits for a shared mutex. Lies in the awaiting frame.
struct shared_mutex_waiter : wait_links<layer, shared_mutex_waiter> {
    explicit shared_mutex_waiter(lock_kind how) noexcept : kind(how) {}
    /// Of one that has not begun to wait, as of all awaitables.
    shared_mutex_waiter(const shared_mutex_waiter& other) noexcept
        : shared_mutex_waiter(other.kind) {}
    shared_mutex_waiter& operator=(const shared_mutex_waiter&) = delete;

    const lock_kind kind;
    branch* waiting = nullptr;
    /// One of them is set once it holds the mutex, by itself or by whoever has served it.
    lock_mark<shared_mutex_base> mark;
    shared_mark<shared_mutex_base> mark_shared;
};

/// All of a shared mutex but the awaitables that it gives.
class shared_mutex_base {
public:
    shared_mutex_base() noexcept = default;
    shared_mutex_base(const shared_mutex_base&) = delete;
    shared_mutex_base& operator=(const shared_mutex_base&) = delete;

    bool try_lock() noexcept;
    void unlock() noexcept;
    bool try_lock_shared() noexcept;
    void unlock_shared() noexcept;
    std::uint64_t holder() const noexcept {
        // Relaxed: a hint, but for the holder itself.
        return holder_.load(std::memory_order_relaxed);
    }

    // For operations.

    /// The branch holds the mutex, and its mark is set; false: it is in line, and parks.
    bool lock_or_line_up(shared_mutex_waiter& self) noexcept;
    /// A canceller. False: whoever has served it completes it.
    bool withdraw(shared_mutex_waiter& waiting) noexcept;

    /// See lock_mark.hpp and shared_mark.hpp.
    void keep_mark(lock_mark<shared_mutex_base>* mark) noexcept { mark_ = mark; }
    void add_mark(shared_mark<shared_mutex_base>& mark) noexcept;
    void remove_mark(shared_mark<shared_mutex_base>& mark) noexcept;

protected:
    /// See shared_mutex.
    ~shared_mutex_base();

private:
    void held_by(std::uint64_t task) noexcept {
        holder_.store(task, std::memory_order_relaxed);  // As in holder().
    }
    void note_holder(shared_mutex_waiter& holder) noexcept;
    void complete_served(shared_mutex_waiter* first) noexcept;

    shared_mutex_core<layer, shared_mutex_waiter> core_;
    layer::atomic<std::uint64_t> holder_{0};        ///< The id of the task that writes.
    lock_mark<shared_mutex_base>* mark_ = nullptr;  ///< The writer's, if it has one.
    spin_lock<layer> marks_lock_;
    wait_list<layer, shared_mark<shared_mutex_base>> marks_;  ///< Those of readers.
};

/// The wait for a shared mutex.
class shared_mutex_operation : public operation {
public:
    bool start(branch& waiter) noexcept final;
    bool unlink() noexcept final { return on_->withdraw(self_); }
    /// Only tasks unlock it, and threads outside that hold a guard.
    bool completed_by_tasks() const noexcept final { return true; }
    std::uint64_t held_by() const noexcept final { return on_->holder(); }

protected:
    shared_mutex_operation(shared_mutex_base& on, lock_kind kind) noexcept
        : operation(false,
                    kind == lock_kind::exclusive ? wait_reason::lock : wait_reason::lock_shared),
          on_(&on),
          self_(kind) {}
    shared_mutex_operation(const shared_mutex_operation&) noexcept = default;
    ~shared_mutex_operation() = default;

    /// For await_resume(), after the check of the outcome. Throws errc::closed if the mutex was
    /// destroyed.
    shared_mutex_waiter& locked();

private:
    shared_mutex_base* on_;
    shared_mutex_waiter self_;
};

}  // namespace weft::detail
