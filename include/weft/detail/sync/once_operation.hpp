// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/layer.hpp>
#include <weft/detail/branch/operation.hpp>
#include <weft/detail/sync/once_core.hpp>
#include <weft/detail/task/awaiter.hpp>

namespace weft::detail {

/// One who calls. Lies in the frame of the call.
struct once_caller : once_links<layer, once_caller> {
    branch* waiting = nullptr;
};

/// All of a once but the coroutine that calls.
class once_base {
public:
    once_base() noexcept = default;
    once_base(const once_base&) = delete;
    once_base& operator=(const once_base&) = delete;

    once_core<layer, once_caller> core;

protected:
    /// Whoever still waits is told; see once.
    ~once_base();
};

/// A call, from its begin until it has ended, and the turn while it has that. A call that is left
/// with the turn, by an exception or at the end of its runtime, gives it to the next one.
class once_call {
public:
    explicit once_call(once_base& on) noexcept : on(&on) {}
    once_call(const once_call&) = delete;
    once_call& operator=(const once_call&) = delete;
    ~once_call();

    /// What is to be done has been done.
    void succeed() noexcept;

    once_base* const on;
    once_caller self;
};

/// The wait of a call until it has the turn, or has nothing to do.
class once_operation : public operation {
public:
    explicit once_operation(once_call& of) noexcept
        : operation(false, wait_reason::once), of_(&of) {}

    bool start(branch& waiter) noexcept final;
    bool unlink() noexcept final { return of_->on->core.withdraw(of_->self); }
    /// Only tasks have a turn.
    bool completed_by_tasks() const noexcept final { return true; }

protected:
    ~once_operation() = default;

    /// For await_resume(): has it the turn? Throws errc::closed if the object was destroyed.
    bool has_turn() const;

private:
    once_call* of_;
};

class [[nodiscard]] once_awaiter final : public awaiter<once_operation> {
public:
    using awaiter<once_operation>::awaiter;
    bool await_resume() const {
        throw_unless_completed();
        return has_turn();
    }
};

}  // namespace weft::detail
