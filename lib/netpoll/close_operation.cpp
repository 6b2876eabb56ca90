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
    if (waits) descriptor.drop_reference(readied);
    ready_each(readied);
    if (waits) return park(waiter, *this);
    // Nobody can join a life that is just being ended; that takes one close(2) on another thread. Or
    // it has lost its last reference in a signal handler on this very thread, which leaves it to
    // whoever looks, and it may be long before somebody else does (handed_list.hpp).
    while (may_wait && !ended() && !descriptor.inherited()) {
        waiter.current->io().take_for_owner(readied);
        ready_each(readied);
        layer::yield_thread();
    }
    return true;
}

bool close_operation::ended() const noexcept {
    return closing_.descriptor == nullptr ||
           closing_.descriptor->generation() != closing_.generation;
}

bool close_operation::unlink() noexcept {
    return closing_.descriptor->remove_close_waiter(*this);
}

}  // namespace weft::detail
