// SPDX-License-Identifier: MIT
//
// The stop of a std::stop_token as a case of a select: an event (select_core.hpp) that lies in the
// list of the token's stop state while the select waits.
//
// It is a std::stop_callback in the awaiting frame. Its destructor takes it off the list, or waits
// until the call has returned if another thread is just making it. So nothing touches a select that
// has returned, and the event has no word of its own for that. The call may come from the
// constructor already, where the stop was requested after the select had looked; the branch has not
// parked then, and finds itself completed.
//
// Why it does not deadlock. What the call does is to claim, to complete and to ready, which waits
// for no task and for no lock of the user's. No task is resumed inside of request_stop(), so a
// select never takes its callback back on a thread that is just making that call.
#pragma once

#include <weft/detail/sync/select_operation.hpp>

#include <optional>
#include <stop_token>
#include <utility>

namespace weft::detail {

class select_stop final : public select_happening {
public:
    explicit select_stop(const std::stop_token& of) noexcept : token_(of) {}
    /// Only of one that has not begun, as of all awaitables.
    select_stop(const select_stop& other) noexcept
        : select_happening(other), token_(other.token_) {}

    bool look(select_clock&) noexcept final { return token_.stop_requested(); }
    void arm(worker& here) noexcept final;
    void leave() noexcept final { callback_.reset(); }

private:
    struct call {
        select_stop* of;
        void operator()() const noexcept { of->stop(); }
    };

    void stop() noexcept;

    std::stop_token token_;
    std::optional<std::stop_callback<call>> callback_;
};

}  // namespace weft::detail
