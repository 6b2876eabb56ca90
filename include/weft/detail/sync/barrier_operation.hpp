// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sync/barrier_core.hpp>
#include <weft/detail/sync/task_waiter.hpp>
#include <weft/detail/task/awaiter.hpp>

#include <cstddef>

namespace weft::detail {

/// What of a barrier does not depend on what is to be done at the end of a phase.
class barrier_base {
public:
    barrier_base(const barrier_base&) = delete;
    barrier_base& operator=(const barrier_base&) = delete;

    /// Of whoever has ended the phase. The barrier may be gone afterwards.
    void end_phase(task_waiter* others) noexcept;

    barrier_core<layer, task_waiter> core;

protected:
    explicit barrier_base(std::size_t expected) noexcept : core(expected) {}
    /// Whoever still waits is told; see barrier.
    ~barrier_base();

    void drop() noexcept;

private:
    virtual void complete_phase() noexcept = 0;
};

/// The wait until all have arrived.
class barrier_operation : public task_operation {
public:
    explicit barrier_operation(barrier_base& at) noexcept
        : task_operation(wait_reason::barrier), at_(&at) {}

    bool start(branch& waiter) noexcept final;
    bool unlink() noexcept final { return at_->core.withdraw(self_); }

protected:
    barrier_operation(const barrier_operation&) noexcept = default;
    ~barrier_operation() = default;

    /// For await_resume(). Throws errc::closed if the barrier was destroyed.
    void check_alive() const;

private:
    barrier_base* at_;
};

class [[nodiscard]] barrier_awaiter final : public awaiter<barrier_operation> {
public:
    using awaiter<barrier_operation>::awaiter;
    void await_resume() const {
        throw_unless_completed();
        check_alive();
    }
};

}  // namespace weft::detail
