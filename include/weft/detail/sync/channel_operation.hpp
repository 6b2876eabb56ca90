// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/layer.hpp>
#include <weft/detail/branch/operation.hpp>
#include <weft/detail/sync/channel_core.hpp>
#include <weft/detail/sync/select_word.hpp>

#include <cstddef>
#include <cstdint>

namespace weft::detail {

/// Who waits at a channel, to send or to receive. Lies in the awaiting frame.
struct channel_waiter : wait_links<layer, channel_waiter> {
    /// Where its value is to come from, or to go to: a Value*, or a std::optional<Value>*.
    void* place = nullptr;
    branch* waiting = nullptr;
    /// Written by who completes it, before it does.
    bool closed = false;

    /// The select that it is a case of, and which one.
    select_word<layer>* of = nullptr;
    std::uint32_t index = 0;
    select_event<layer> taken;

    /// The select begins.
    void begin_as_case(void* with, branch& waiter, select_word<layer>& word,
                       std::uint32_t which) noexcept {
        place = with;
        waiting = &waiter;
        of = &word;
        index = which;
    }

    /// May who has taken this one off its list have it?
    bool claim() noexcept { return of == nullptr || taken.happen(*of, index); }
};

using send_decided = send_decision<channel_waiter>;
using receive_decided = receive_decision<channel_waiter>;

/// What of a channel does not depend on the type of its values.
class channel_base {
public:
    channel_base(const channel_base&) = delete;
    channel_base& operator=(const channel_base&) = delete;

    send_decided send(channel_waiter* self) noexcept;
    receive_decided receive(channel_waiter* self) noexcept;
    bool close() noexcept;

    /// Its value has been moved. Any thread.
    static void complete(channel_waiter& waiter) noexcept;

    channel_core<layer, channel_waiter> core;

protected:
    explicit channel_base(std::size_t capacity) noexcept : core(capacity) {}
    /// Whoever still waits is told that the channel is closed; see channel.
    ~channel_base();
};

/// The wait at a channel. Derived classes know the value.
class channel_operation : public operation {
public:
    /// Only tasks send, receive and close, and threads outside that hold a guard.
    bool completed_by_tasks() const noexcept final { return true; }

protected:
    channel_operation(channel_base& on, void* place, wait_reason reason) noexcept
        : operation(false, reason), on_(&on) {
        self_.place = place;
    }
    ~channel_operation() = default;

    bool closed() const noexcept { return self_.closed; }

    channel_base* on_;
    channel_waiter self_;
};

/// For await_resume() of a send.
[[noreturn]] void throw_closed();

}  // namespace weft::detail
