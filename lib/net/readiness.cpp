// SPDX-License-Identifier: MIT
#include "lib/netpoll/system_calls.hpp"

#include <weft/detail/net/descriptor_handle.hpp>
#include <weft/detail/net/readiness.hpp>
#include <weft/detail/net/stream_operations.hpp>
#include <weft/detail/sched/worker.hpp>

#include <cerrno>

#include <poll.h>

namespace weft::detail {

namespace {

// As poll(2): 0 if the operation would block, 1 if not, -1 with errno. The end of the stream, and
// an error, count as ready: the operation that follows tells.
int ask_kernel(int fd, direction which) noexcept {
    const short events = which == direction::read ? POLLIN | POLLRDHUP : POLLOUT;
    pollfd asked{.fd = fd, .events = events, .revents = 0};
    return sys().poll(&asked, 1, 0);
}

}  // namespace

io_operation::attempt_outcome readiness_operation::attempt(int fd) noexcept {
    const int ready = ask_kernel(fd, asks_);
    if (ready > 0) return attempt_outcome::done;
    if (ready == 0) return attempt_outcome::would_block;
    if (errno == EINTR) return attempt_outcome::again;
    // ENOMEM; EINVAL where the limit of open files was lowered below one.
    fail_with_errno(errno);
    return attempt_outcome::done;
}

void readiness_awaiter::await_resume() {
    if (const std::error_code error = finish()) [[unlikely]] {
        throw_system_error(error, which() == direction::read ? "readable" : "writable");
    }
}

bool readiness_side::start(branch& side) noexcept {
    if (!io_operation::start(side)) return false;
    await_is_over();
    of_->ended();
    return false;
}

bool select_readiness::look(select_clock&) noexcept {
    const descriptor_use used(waits_.asked());
    // Closed: the operation that follows says so at once. Of a call that has failed nothing is
    // known, and the side asks again.
    return used.fd() < 0 || ask_kernel(used.fd(), waits_.which()) > 0;
}

void select_readiness::arm(worker& here) noexcept {
    // A branch of the same task. Its handle is never resumed, but tells where the task awaits.
    const branch& selects = waiting();
    side_.owner = selects.owner;
    side_.innermost = selects.innermost;
    side_.handle = selects.handle;
    side_.current = &here;
    side_.status = branch_status::running;
    started_ = true;
    waits_.start_first(side_);
}

// On the worker that has run the side, or that of the select.
void select_readiness::ended() noexcept {
    branch& selects = waiting();  // This object may be gone after the next step.
    if (!sides_->ended(word(), index())) return;
    branch_list readied;
    complete_waiter(selects, readied);
    make_ready(readied);
}

bool select_readiness::withdraw() noexcept {
    if (!started_) return true;
    if (has_won()) return false;
    const auto unlink = [this]() noexcept { return waits_.unlink(); };
    if (!select_side_count::withdraw(side_.word, unlink)) return false;
    waits_.end();
    return true;
}

}  // namespace weft::detail
