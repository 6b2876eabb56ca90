// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sync/channel_operation.hpp>
#include <weft/detail/sync/channel_slot.hpp>
#include <weft/detail/task/awaiter.hpp>
#include <weft/error.hpp>
#include <weft/result.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

namespace weft {

template <class Value>
class channel;

namespace detail {

template <class Case>
class select_part;

template <class Value>
class send_operation : public channel_operation {
public:
    send_operation(channel<Value>& on, Value& value) noexcept
        : channel_operation(on, &value, wait_reason::send) {}

    bool start(branch& waiter) noexcept final {
        // A stopped scope comes first, so that a loop that never waits can be stopped as well.
        if (!prepare_park(waiter, *this)) return true;
        self_.waiting = &waiter;
        const send_decided decided = on_->send(&self_);
        if (decided.step == send_step::waits) return park(waiter, *this);
        self_.closed = decided.step == send_step::closed;
        target().put(decided, value());
        return true;
    }
    bool unlink() noexcept final { return on_->core.withdraw_sender(self_); }

    /// Also for a select, which makes it one of its cases instead of awaiting it.
    channel<Value>& target() const noexcept { return *static_cast<channel<Value>*>(on_); }
    Value& value() const noexcept { return *static_cast<Value*>(self_.place); }

protected:
    ~send_operation() = default;
};

template <class Value>
class receive_operation : public channel_operation {
public:
    explicit receive_operation(channel<Value>& on) noexcept
        : channel_operation(on, nullptr, wait_reason::receive) {}

    bool start(branch& waiter) noexcept final {
        if (!prepare_park(waiter, *this)) return true;
        self_.waiting = &waiter;
        self_.place = &value_;
        const receive_decided decided = on_->receive(&self_);
        if (decided.step == receive_step::waits) return park(waiter, *this);
        target().get(decided, value_);
        return true;
    }
    bool unlink() noexcept final { return on_->core.withdraw_receiver(self_); }

    /// Also for a select, as with a send.
    channel<Value>& target() const noexcept { return *static_cast<channel<Value>*>(on_); }

protected:
    receive_operation(const receive_operation& other) noexcept : channel_operation(other) {}
    ~receive_operation() = default;

    std::optional<Value> value_;
};

template <class Value>
class [[nodiscard]] send_awaiter final : public awaiter<send_operation<Value>> {
public:
    using awaiter<send_operation<Value>>::awaiter;
    void await_resume() const {
        this->throw_unless_completed();
        if (this->closed()) [[unlikely]] { throw_closed(); }
    }
};

template <class Value>
class [[nodiscard]] receive_awaiter final : public awaiter<receive_operation<Value>> {
public:
    using awaiter<receive_operation<Value>>::awaiter;
    std::optional<Value> await_resume() {
        this->throw_unless_completed();
        return std::move(this->value_);
    }
};

}  // namespace detail

/// Hands values from task to task, in order: a queue that both sides can wait at, with room for
/// `capacity` values, or for none, so that a sender waits for its receiver (Go's chan).
///
/// Any number of tasks, also of several runtimes, may send and receive at the same time. Each value
/// is received once, or stays with its sender. Who waits, waits first in, first out, and takes no
/// memory. A receiver that waits gets the value straight from its sender, and is the next task that
/// the sender's worker runs; the sender goes on. Threads outside may use try_send(), try_recv() and
/// close(), and hold a runtime::guard while they may still wake a task.
///
/// Values must be movable without exceptions. They are moved with no lock held.
///
/// A channel must outlive those who use it: destroying it while a task waits at it is an assertion
/// in debug builds, and tells the task that the channel is closed in others. Values that nobody has
/// received are destroyed with it.
template <class Value>
class channel : private detail::channel_base {
    static_assert(std::is_object_v<Value> && !std::is_const_v<Value>,
                  "weft: a channel holds objects; send pointers or std::reference_wrapper");
    static_assert(std::is_nothrow_move_constructible_v<Value> &&
                      std::is_nothrow_destructible_v<Value>,
                  "weft: values of a channel must be movable without exceptions, or one could be "
                  "lost on its way; send std::unique_ptr");

public:
    /// Throws std::bad_alloc if there is no memory for so many values.
    explicit channel(std::size_t capacity = 0)
        : channel_base(capacity),
          slots_(capacity != 0 ? std::make_unique<slot[]>(capacity) : nullptr) {}
    channel(const channel&) = delete;
    channel& operator=(const channel&) = delete;
    ~channel() = default;

    /// `co_await send(std::move(value))` waits until there is room for the value or a receiver for
    /// it, and moves it there. It resumes on the worker of the receiver that made room.
    ///
    /// The value is moved out of `value`, which has to live until then, only if it was sent. So
    /// where this throws nothing is lost, and `value` still holds it: errc::closed if the channel
    /// is closed before it was sent; operation_canceled (or timed_out) when the scope is stopped.
    [[nodiscard]] detail::send_awaiter<Value> send(Value&& value) noexcept {
        return detail::send_awaiter<Value>(*this, value);
    }

    /// `co_await recv()` waits for a value. Empty: the channel is closed and all of its values have
    /// been received. It resumes on the worker of the sender. Throws operation_canceled (or
    /// timed_out) when the scope is stopped, and then has taken no value: one that a sender had
    /// already handed over is returned.
    [[nodiscard]] detail::receive_awaiter<Value> recv() noexcept {
        return detail::receive_awaiter<Value>(*this);
    }

    /// Sends only if it need not wait; any thread. Otherwise `value` still holds the value, and the
    /// error is std::errc::operation_would_block or errc::closed.
    result<void> try_send(Value&& value) noexcept {
        const detail::send_decided decided = channel_base::send(nullptr);
        if (decided.step == detail::send_step::closed) return failure(errc::closed);
        if (decided.step == detail::send_step::waits) return failure(would_block());
        put(decided, value);
        return {};
    }

    /// Receives only if it need not wait; any thread. The error is
    /// std::errc::operation_would_block, or errc::closed if the channel is closed and all of its
    /// values have been received.
    result<Value> try_recv() noexcept {
        const detail::receive_decided decided = channel_base::receive(nullptr);
        if (decided.step == detail::receive_step::ended) return failure(errc::closed);
        if (decided.step == detail::receive_step::waits) return failure(would_block());
        std::optional<Value> received;
        get(decided, received);
        return *std::move(received);
    }

    /// From now on nothing is sent: who waits to send, or tries to, gets errc::closed and keeps its
    /// value. Values that have been sent can be received; then receivers get nothing. Any thread.
    /// Never waits. False: it was closed before.
    bool close() noexcept { return channel_base::close(); }

    bool closed() const noexcept { return core.closed(); }
    std::size_t capacity() const noexcept { return core.capacity(); }
    /// How many values are in it. Others may change that at any time.
    std::size_t size() const noexcept { return core.size(); }

private:
    using slot = detail::channel_slot<detail::layer, Value>;
    friend class detail::send_operation<Value>;
    friend class detail::receive_operation<Value>;
    template <class Case>
    friend class detail::select_part;

    static std::error_code would_block() noexcept {
        return std::make_error_code(std::errc::operation_would_block);
    }

    void put(const detail::send_decided& decided, Value& value) noexcept {
        if (decided.step == detail::send_step::stored) {
            slots_[decided.to.slot].fill(decided.to.round, std::move(value));
        } else if (decided.step == detail::send_step::handed) {
            static_cast<std::optional<Value>*>(decided.receiver->place)->emplace(std::move(value));
            complete(*decided.receiver);
        }
    }

    void get(const detail::receive_decided& decided, std::optional<Value>& into) noexcept {
        const auto move_in = [&into](Value&& value) noexcept { into.emplace(std::move(value)); };
        if (decided.step == detail::receive_step::taken) {
            slots_[decided.from.slot].empty(decided.from.round, move_in);
        }
        if (decided.sender == nullptr) return;
        Value& sent = *static_cast<Value*>(decided.sender->place);
        if (decided.step == detail::receive_step::taken) {
            slots_[decided.to.slot].fill(decided.to.round, std::move(sent));
        } else {
            move_in(std::move(sent));
        }
        complete(*decided.sender);
    }

    std::unique_ptr<slot[]> slots_;
};

}  // namespace weft
