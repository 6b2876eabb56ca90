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

    bool start(branch& waiter) noexcept final;
    bool unlink() noexcept final { return on_->core.withdraw(self_); }

protected:
    ~event_operation() = default;

private:
    event_base* on_;
};

class [[nodiscard]] event_awaiter final : public awaiter<event_operation> {
public:
    using awaiter<event_operation>::awaiter;
    void await_resume() const {
        throw_unless_completed();
        if (self_.orphaned) [[unlikely]] { throw_destroyed(); }
    }
};

}  // namespace weft::detail
