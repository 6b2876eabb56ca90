// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/compiler.hpp>
#include <weft/detail/branch/operation.hpp>
#include <weft/detail/sched/promise.hpp>

#include <coroutine>
#include <system_error>
#include <utility>

namespace weft::detail {

/// Throws what a stopped operation throws: errc::operation_canceled or errc::timed_out.
[[noreturn]] void throw_stopped(operation_outcome outcome);

/// The error code of a stopped operation.
std::error_code stopped_code(operation_outcome outcome) noexcept;

/// Makes an awaiter of an operation. A class derived from it adds await_resume().
///
/// It may be moved until it is awaited; from then on it is pinned, since the operation is published
/// by address. It is awaited once.
template <class Operation>
class awaiter : public Operation {
public:
    using Operation::Operation;
    awaiter(const awaiter&) = default;

    bool await_ready() const noexcept { return false; }

    // After start() has published the operation, the frame may be resumed and destroyed elsewhere,
    // so nothing is touched after it but its result.
    WEFT_PUBLISHES_FRAME
    bool await_suspend_on(branch& running, std::coroutine_handle<> suspended) noexcept {
        this->begin(running);
        running.handle = suspended;
        return !(this->start(running) && this->pay_for_going_on(running));
    }

    template <weft_promise Promise>
    bool await_suspend(std::coroutine_handle<Promise> suspended) noexcept {
        return await_suspend_on(*suspended.promise().branch_, suspended);
    }

protected:
    ~awaiter() { this->unlink_if_parked(); }

    void throw_unless_completed() const {
        this->check_resumed_by_weft();
        if (this->outcome() != operation_outcome::completed) [[unlikely]] {
            throw_stopped(this->outcome());
        }
    }
};

}  // namespace weft::detail
