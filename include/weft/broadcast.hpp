// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sync/broadcast_operation.hpp>
#include <weft/detail/task/awaiter.hpp>
#include <weft/error.hpp>
#include <weft/result.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>

namespace weft {

/// What a receiver of a broadcast gets. False as a bool: the broadcast is closed, and this receiver
/// has got all of its values.
template <class Value>
struct broadcast_message {
    std::shared_ptr<const Value> value;
    /// So many values before this one were overwritten before this receiver came to them.
    std::uint64_t lost = 0;

    explicit operator bool() const noexcept { return value != nullptr; }
    const Value& operator*() const noexcept { return *value; }
    const Value* operator->() const noexcept { return value.get(); }
};

namespace detail {

template <class Value>
class [[nodiscard]] message_awaiter final : public awaiter<follow_operation<Value>> {
public:
    using awaiter<follow_operation<Value>>::awaiter;
    broadcast_message<Value> await_resume() {
        this->throw_unless_completed();
        auto value = this->value();
        return {std::move(value), this->lost()};
    }
};

}  // namespace detail

/// Sends each value to all receivers (Tokio's broadcast). The last `capacity` values are kept. A
/// send never waits: where there is no room left the oldest value is overwritten, and a receiver
/// that has not come to it learns how many it has lost. See channel, where each value goes to one
/// receiver and a sender waits, and watch, where only the latest value counts.
///
/// Any number of tasks, also of several runtimes, may send, and each receiver is used by one task
/// at a time. Values are shared and not copied, and live until they are overwritten and nobody
/// holds them any more. Who waits takes no memory. Threads outside may use everything but recv(),
/// and hold a runtime::guard while they may still wake a task.
///
/// Destroying it closes it. Its receivers may outlive it, and get the values that are kept, and
/// then the end. The room for values is there until the last receiver is gone.
template <class Value>
class broadcast {
    static_assert(std::is_object_v<Value> && !std::is_const_v<Value>,
                  "weft: a broadcast sends objects; send pointers or std::reference_wrapper");

public:
    class receiver;

    /// Throws std::invalid_argument for a capacity of zero, std::bad_alloc if there is no memory
    /// for so many values.
    explicit broadcast(std::size_t capacity)
        : store_(std::make_shared<detail::broadcast_store<Value>>(check(capacity))) {}
    broadcast(const broadcast&) = delete;
    broadcast& operator=(const broadcast&) = delete;
    ~broadcast() { close(); }

    /// Gives a value to all receivers that there are. Tasks that wait go on, in the order in which
    /// they came; none of them inside this call: on a worker they go into its queue, the last one
    /// into runnext. Never waits. Any thread. False: it is closed, and nothing was sent. Throws
    /// std::bad_alloc, and what moving the value throws; nothing was sent then.
    bool send(Value value) {
        return store_->publish(std::make_shared<const Value>(std::move(value)));
    }

    /// A receiver of what is sent from now on.
    [[nodiscard]] receiver subscribe() noexcept {
        return receiver(store_, store_->core.newest([](std::size_t) noexcept {}));
    }

    /// From now on nothing is sent. Values that are kept can be received; then receivers get the
    /// end. Never waits. Any thread. False: it was closed before.
    bool close() noexcept { return store_->close(); }

    bool closed() const noexcept { return store_->core.closed(); }
    std::size_t capacity() const noexcept { return store_->core.capacity(); }

private:
    static std::size_t check(std::size_t capacity) {
        if (capacity == 0) throw std::invalid_argument("weft: a broadcast keeps a value at least");
        return capacity;
    }

    std::shared_ptr<detail::broadcast_store<Value>> store_;
};

/// One who receives all that is sent since it was made. It may be copied while no task waits with
/// it; a copy receives from where this one is. So does what it is moved to, and one that was moved
/// from is as it was. It may outlive the broadcast, and must outlive a task's wait with it.
template <class Value>
class broadcast<Value>::receiver {
public:
    receiver(const receiver&) noexcept = default;
    receiver& operator=(const receiver&) noexcept = default;
    ~receiver() = default;

    /// `co_await recv()` waits for the next value, and resumes on the worker of its sender, as far
    /// as that belongs to the task's runtime. False as a bool: it is closed, and all has been
    /// received. Throws operation_canceled (or timed_out) when the scope is stopped; nothing is
    /// lost then: the next recv() gives what has been sent meanwhile.
    [[nodiscard]] detail::message_awaiter<Value> recv() noexcept {
        return detail::message_awaiter<Value>(*from_, next_);
    }

    /// Receives only if it need not wait; any thread. The error is
    /// std::errc::operation_would_block, or errc::closed if it is closed and all has been received.
    result<broadcast_message<Value>> try_recv() noexcept {
        broadcast_message<Value> message;
        const detail::take_decision decided = from_->take(next_, message.value, nullptr);
        if (decided.step == detail::take_step::ended) return failure(errc::closed);
        if (decided.step == detail::take_step::waits) {
            return failure(std::make_error_code(std::errc::operation_would_block));
        }
        message.lost = decided.lost;
        return message;
    }

private:
    friend class broadcast;
    receiver(std::shared_ptr<detail::broadcast_store<Value>> from, std::uint64_t next) noexcept
        : from_(std::move(from)), next_(next) {}

    std::shared_ptr<detail::broadcast_store<Value>> from_;
    std::uint64_t next_;
};

}  // namespace weft
