// SPDX-License-Identifier: MIT
#include <weft/detail/netpoll/close_operation.hpp>

#include "lib/netpoll/poll_descriptor.hpp"
#include "lib/netpoll/system_calls.hpp"

#include <weft/detail/sched/worker.hpp>

namespace weft::detail {

close_operation::~close_operation() {
    // As in poll_descriptor::end_life(), there is nothing to do about an error.
    if (fd_ >= 0) sys().close(fd_);
}

bool close_operation::start(branch& waiter) noexcept {
    if (closing_.descriptor == nullptr) return true;
    poll_descriptor& descriptor = *closing_.descriptor;
    const bool may_wait = prepare_park(waiter, *this);
    if (!may_wait && why_ == purpose::give_back) return true;  // Nothing was begun.
    // We wait before we begin, so that whoever ends the life, perhaps this thread, finds us.
    const bool waits = may_wait && descriptor.add_close_waiter(closing_.generation, *this);
    branch_list readied;
    descriptor.close(closing_.generation, why_, readied);
    ready_each(readied);
    return !waits || park(waiter, *this);
}

bool close_operation::ended() const noexcept {
    return closing_.descriptor == nullptr ||
           closing_.descriptor->generation() != closing_.generation;
}

bool close_operation::unlink() noexcept {
    return closing_.descriptor->remove_close_waiter(*this);
}

}  // namespace weft::detail
