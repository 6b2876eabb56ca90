// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/layer.hpp>
#include <weft/detail/branch/operation.hpp>
#include <weft/detail/sync/condition_core.hpp>
#include <weft/detail/sync/mutex_operation.hpp>
#include <weft/detail/sync/task_waiter.hpp>

#include <cstdint>

namespace weft::detail {

/// All of a condition variable but the awaitables that it gives.
class condition_base {
public:
    condition_base() noexcept = default;
    condition_base(const condition_base&) = delete;
    condition_base& operator=(const condition_base&) = delete;

    void notify_one() noexcept;
    void notify_all() noexcept;

    condition_core<layer, task_waiter> core;

protected:
    /// See condition_variable.
    ~condition_base();
};

/// The wait for a notification, and then for the mutex: see the head of condition_core.hpp.
class condition_operation : public operation {
public:
    /// The mutex is locked; without a guard.
    condition_operation(condition_base& on, mutex_base& locked) noexcept
        : operation(true, wait_reason::condition), on_(&on), mutex_(&locked) {}
    /// With a guard, whose mark is empty during the wait.
    condition_operation(condition_base& on, lock_mark<mutex_base>& guard) noexcept
        : operation(true, wait_reason::condition), on_(&on), guard_(&guard) {}

    bool start(branch& waiter) noexcept final;
    bool unlink() noexcept final;
    /// Only tasks notify and unlock, and threads outside that hold a guard.
    bool completed_by_tasks() const noexcept final { return true; }
    std::uint64_t held_by() const noexcept final {
        return step_ == step::locks ? mutex_->holder() : 0;
    }
    /// Also for the destructor of the most derived class, before that of the awaiter: no stop has
    /// ended the wait for the mutex, so it is ended here.
    void leave_for_good() noexcept final;

protected:
    condition_operation(const condition_operation&) noexcept = default;
    ~condition_operation();


    /// For await_resume(), first of all: the guard has the mutex again.
    void give_back() noexcept;
    /// Afterwards. Throws errc::closed if the condition variable, or the mutex, was destroyed.
    void throw_if_gone() const;

private:
    enum class step : std::uint8_t { begins, waits, locks };

    condition_base* on_;
    mutex_base* mutex_ = nullptr;
    lock_mark<mutex_base>* guard_ = nullptr;
    step step_ = step::begins;
    task_waiter in_line_;  ///< Of the condition variable.
    lock_waiter for_mutex_;
};

}  // namespace weft::detail
