// SPDX-License-Identifier: MIT
#include <weft/detail/sync/channel_operation.hpp>

#include "lib/sched/runtime_core.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/error.hpp>

#include <system_error>

namespace weft::detail {

namespace {

// Each is ours, and its frame may be gone after its completion, so the link is read before.
void tell_closed(channel_waiter* first, branch_list& readied) noexcept {
    while (first != nullptr) {
        channel_waiter& each = *first;
        first = each.next;
        each.closed = true;
        complete_waiter(*each.waiting, readied);
    }
}

[[maybe_unused]] bool nobody_runs(const channel_waiter* first) noexcept {
    return first == nullptr ||
           first->waiting->owner->runtime().phase() >= runtime_phase::destroying;
}

}  // namespace

channel_base::~channel_base() {
    channel_core<layer, channel_waiter>::waiters gone;
    core.end(gone);
    // A task that waits at a channel must not outlive it. At the end of a runtime frames are
    // destroyed in any order, those with the channel before those that wait at it.
    WEFT_ASSERT(nobody_runs(gone.senders) && nobody_runs(gone.receivers));
    branch_list readied;
    tell_closed(gone.senders, readied);
    tell_closed(gone.receivers, readied);
    make_ready(readied);
}

[[gnu::hot]]
send_decided channel_base::send(channel_waiter* self) noexcept {
    return core.send(self);
}

[[gnu::hot]]
receive_decided channel_base::receive(channel_waiter* self) noexcept {
    return core.receive(self);
}

bool channel_base::close() noexcept {
    channel_core<layer, channel_waiter>::waiters gone;
    if (!core.close(gone)) return false;
    branch_list readied;
    tell_closed(gone.senders, readied);
    tell_closed(gone.receivers, readied);
    make_ready(readied);
    return true;
}

[[gnu::hot]]
void channel_base::complete(channel_waiter& waiter) noexcept {
    branch_list readied;
    complete_waiter(*waiter.waiting, readied);
    make_ready(readied);
}

void throw_closed() {
    throw std::system_error(errc::closed);
}

}  // namespace weft::detail
