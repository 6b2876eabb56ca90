// SPDX-License-Identifier: MIT
#include "lib/netpoll/system_calls.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/detail/netpoll/netpoller.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <span>

#include <poll.h>

namespace weft::detail {

namespace {

using unverified_list = decltype(poller::unverified);

/// Only reads are put off (poll_side.hpp).
void ask_kernel(std::span<unverified_list::entry> due) noexcept {
    std::array<pollfd, unverified_list::capacity> asked;
    for (std::size_t i = 0; i < due.size(); ++i) {
        asked[i] = {.fd = due[i].fd, .events = POLLIN | POLLRDHUP, .revents = 0};
    }
    const int count = sys().poll(asked.data(), due.size(), 0);
    // ENOMEM; EINVAL where the limit of open files was lowered below the number asked for; EINTR,
    // which a call that does not wait has no reason for. In each case nothing is known, so all of
    // them try for themselves.
    const bool unknown = count < 0;
    for (std::size_t i = 0; i < due.size(); ++i) {
        // POLLNVAL is no answer either: a wait that has ended, or a number that somebody closed
        // behind our back, about which the call of the operation tells.
        due[i].readable = unknown || asked[i].revents != 0;
    }
}

}  // namespace

[[gnu::hot]]
void poller::verify_waits(bool all, branch_list& readied) noexcept {
    unverified.verify(all, ask_kernel,
                      [&readied](branch& waiter) { complete_waiter(waiter, readied); });
}

}  // namespace weft::detail
