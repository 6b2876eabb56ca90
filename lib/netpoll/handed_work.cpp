// SPDX-License-Identifier: MIT
#include "lib/netpoll/handed_work.hpp"

#include "lib/netpoll/poll_descriptor.hpp"

#include <utility>

namespace weft::detail {

// The link of the queue is free: the operation has the turn. Not the branch's own, which belongs to
// a canceller until the branch is completed.
void handed_work::add(branch& taken) noexcept {
    // What waits in a wait word is an operation on a descriptor.
    auto& waiting = static_cast<io_operation&>(*taken.waiting_for);
    waiters_.push(waiting, [&waiting](io_operation* next) { waiting.next_ = next; });
}

void handed_work::add_sent(io_operation& sent) noexcept {
    sent_.push(sent, [&sent](io_operation* next) { sent.next_ = next; });
}

// The link of the free slots: the slot is not free, and nobody else has it.
void handed_work::add(poll_descriptor& ended) noexcept {
    lives_.push(ended, [&ended](poll_descriptor* next) { ended.next_free_ = next; });
}

void handed_work::finish(branch_list& readied) noexcept {
    // In the order in which the handler has found them.
    io_operation* first = nullptr;
    for (io_operation* each = waiters_.take(); each != nullptr;) {
        io_operation* const next = std::exchange(each->next_, first);
        first = std::exchange(each, next);
    }
    while (first != nullptr) {
        io_operation& waiting = *first;
        first = waiting.next_;  // Before it is completed, after which it may be gone.
        complete_waiter(*waiting.waiter(), readied);
    }
    for (io_operation* each = sent_.take(); each != nullptr;) {
        readied.push_back(std::exchange(each, each->next_)->waiter());
    }
    for (poll_descriptor* each = lives_.take(); each != nullptr;) {
        poll_descriptor& ended = *std::exchange(each, each->next_free_);
        ended.end_life(readied);
    }
}

}  // namespace weft::detail
