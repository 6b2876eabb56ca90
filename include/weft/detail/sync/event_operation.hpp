// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sync/destroyed.hpp>
#include <weft/detail/sync/event_core.hpp>
#include <weft/detail/sync/task_waiter.hpp>
#include <weft/detail/task/awaiter.hpp>

#include <cstddef>

namespace weft::detail {

/// What an event, a wait group and a latch are underneath.
class event_base {
public:
    event_base(const event_base&) = delete;
    event_base& operator=(const event_base&) = delete;

    /// Any thread.
    void open() noexcept { complete_all(core.open()); }
    /// Any thread. False: the count was lower than that, and is zero now.
    bool lower(std::size_t by) noexcept;

    event_core<layer, task_waiter> core;

protected:
    explicit event_base(std::size_t count) noexcept : core(count) {}
    /// Whoever still waits is told; see event.
    ~event_base();
};

/// The wait until nothing is left to happen.
class event_operation : public task_operation {
public:
    event_operation(event_base& on, wait_reason reason) noexcept
        : task_operation(reason), on_(&on) {}

    bool start(branch& waiter) noexcept override;
    bool unlink() noexcept final { return on_->core.withdraw(self_); }

protected:
    event_operation(const event_operation&) noexcept = default;
    ~event_operation() = default;

    /// For await_resume(). Throws errc::closed if the object was destroyed.
    void check_alive() const {
        if (self_.orphaned) [[unlikely]] { throw_destroyed(); }
    }

    event_base* on_;
};

/// The same for one that makes a part of it happen first.
class arrive_operation : public event_operation {
public:
    arrive_operation(event_base& on, std::size_t count, wait_reason reason) noexcept
        : event_operation(on, reason), count_(count) {}

    bool start(branch& waiter) noexcept final;

protected:
    arrive_operation(const arrive_operation&) noexcept = default;
    ~arrive_operation() = default;

private:
    std::size_t count_;
};

class [[nodiscard]] event_awaiter final : public awaiter<event_operation> {
public:
    using awaiter<event_operation>::awaiter;
    void await_resume() const {
        throw_unless_completed();
        check_alive();
    }
};

class [[nodiscard]] arrive_awaiter final : public awaiter<arrive_operation> {
public:
    using awaiter<arrive_operation>::awaiter;
    void await_resume() const {
        throw_unless_completed();
        check_alive();
    }
};

}  // namespace weft::detail
