// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/layer.hpp>
#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/branch/operation.hpp>
#include <weft/detail/sync/permit_mark.hpp>
#include <weft/detail/sync/semaphore_core.hpp>
#include <weft/detail/sync/wait_list.hpp>
#include <weft/detail/task/awaiter.hpp>

#include <cstddef>

namespace weft::detail {

/// Who waits for permits. Lies in the awaiting frame.
struct permit_waiter : permit_links<layer, permit_waiter> {
    branch* waiting = nullptr;
};

/// What a semaphore is underneath, and an event that lets one task through at a time.
class semaphore_base {
public:
    semaphore_base(const semaphore_base&) = delete;
    semaphore_base& operator=(const semaphore_base&) = delete;

    /// Any thread. False: that were more than the limit.
    bool release(std::size_t count) noexcept;

    semaphore_core<layer, permit_waiter> core;

protected:
    /// Throws std::invalid_argument if there are more permits than the limit.
    semaphore_base(std::size_t permits, std::size_t limit);
    /// Whoever still waits is told; see semaphore.
    ~semaphore_base();

    /// Throws std::invalid_argument if it could never be granted.
    void check_wanted(std::size_t wanted) const;
};

/// The same for one whose permits may have guards.
class guarded_semaphore_base : public semaphore_base {
public:
    /// See permit_mark.hpp.
    void add_mark(permit_mark<guarded_semaphore_base>& mark) noexcept;
    void remove_mark(permit_mark<guarded_semaphore_base>& mark) noexcept;

protected:
    using semaphore_base::semaphore_base;
    /// Guards that are left let go; see semaphore.
    ~guarded_semaphore_base();

private:
    spin_lock<layer> marks_lock_;
    wait_list<layer, permit_mark<guarded_semaphore_base>> marks_;
};

/// The wait for permits.
class permit_operation : public operation {
public:
    permit_operation(semaphore_base& from, std::size_t wanted, wait_reason reason) noexcept
        : operation(false, reason), from_(&from) {
        self_.wanted = wanted;
    }

    bool start(branch& waiter) noexcept final;
    bool unlink() noexcept final;
    /// Only tasks release permits, and threads outside that hold a guard.
    bool completed_by_tasks() const noexcept final { return true; }

protected:
    permit_operation(const permit_operation& other) noexcept
        : operation(other), from_(other.from_) {
        self_.wanted = other.self_.wanted;
    }
    ~permit_operation();

    /// It was completed, and its task runs. Throws errc::closed if the semaphore was destroyed.
    void take();

private:
    semaphore_base* from_;
    permit_waiter self_;
};

class [[nodiscard]] permit_awaiter final : public awaiter<permit_operation> {
public:
    using awaiter<permit_operation>::awaiter;
    void await_resume() {
        throw_unless_completed();
        take();
    }
};

}  // namespace weft::detail
