// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sync/broadcast_core.hpp>
#include <weft/detail/sync/task_waiter.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace weft::detail {

/// What of a broadcast, and of its receivers, does not depend on the type of the values. It is
/// shared by all of these: a receiver that was woken looks at it when it runs, and the broadcast
/// may be gone by then.
class broadcast_base {
public:
    broadcast_base(const broadcast_base&) = delete;
    broadcast_base& operator=(const broadcast_base&) = delete;

    /// Any thread. False: it was closed before.
    bool close() noexcept;

    broadcast_core<layer, task_waiter> core;

protected:
    explicit broadcast_base(std::size_t capacity) noexcept : core(capacity) {}
    /// Whoever still waits, with a receiver that is gone, is told that it is closed.
    ~broadcast_base();
};

/// The values of a broadcast. They are shared with those who have received them.
template <class Value>
class broadcast_store : public broadcast_base {
public:
    using pointer = std::shared_ptr<const Value>;

    explicit broadcast_store(std::size_t capacity)
        : broadcast_base(capacity), slots_(std::make_unique<pointer[]>(capacity)) {}

    /// Any thread. False: it is closed.
    bool publish(pointer value) noexcept {
        // The value that it takes the place of is destroyed with the lock free.
        const auto decided =
            core.publish([&](std::size_t slot) noexcept { slots_[slot].swap(value); });
        complete_all(decided.woken);
        return decided.open;
    }

    take_decision take(std::uint64_t& next, pointer& into, task_waiter* self) noexcept {
        return core.take(next, [&](std::size_t slot) noexcept { into = slots_[slot]; }, self);
    }

    std::uint64_t newest(pointer& into) const noexcept {
        return core.newest([&](std::size_t slot) noexcept { into = slots_[slot]; });
    }

private:
    std::unique_ptr<pointer[]> slots_;
};

/// The wait for the next value of a receiver.
template <class Value>
class follow_operation : public task_operation {
public:
    follow_operation(broadcast_store<Value>& from, std::uint64_t& next) noexcept
        : task_operation(wait_reason::receive), from_(&from), next_(&next) {}

    bool start(branch& waiter) noexcept final {
        if (!begin_wait(waiter)) return true;
        decided_ = from_->take(*next_, value_, &self_);
        return decided_.step != take_step::waits || park(waiter, *this);
    }
    bool unlink() noexcept final { return from_->core.withdraw(self_); }

protected:
    follow_operation(const follow_operation& other) noexcept
        : task_operation(other), from_(other.from_), next_(other.next_) {}
    ~follow_operation() = default;

    /// For await_resume(): who has waited takes its value now. Null: there is none any more.
    std::shared_ptr<const Value> value() noexcept {
        if (self_.orphaned) [[unlikely]] { return nullptr; }
        if (decided_.step == take_step::waits) decided_ = from_->take(*next_, value_, nullptr);
        return std::move(value_);
    }

    /// After value().
    std::uint64_t lost() const noexcept { return decided_.lost; }

private:
    broadcast_store<Value>* from_;
    std::uint64_t* next_;
    take_decision decided_{take_step::waits};
    std::shared_ptr<const Value> value_;
};

}  // namespace weft::detail
