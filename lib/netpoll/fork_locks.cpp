// SPDX-License-Identifier: MIT
#include "lib/netpoll/fork_locks.hpp"

#include "lib/netpoll/descriptor_table.hpp"
#include "lib/netpoll/poll_home.hpp"
#include "lib/netpoll/rescue_signal.hpp"

#include <pthread.h>

namespace weft::detail {

namespace {

void before_fork() {
    poll_home::lock_table();
    descriptors.lock();
    rescue_handler::lock();
}
void after_fork() {
    rescue_handler::unlock();
    descriptors.unlock();
    poll_home::unlock_table();
}

void after_fork_in_child() {
    forget_rescue_in_fork();
    after_fork();
}

}  // namespace

void hold_locks_over_forks() noexcept {
    static const int registered = ::pthread_atfork(before_fork, after_fork, after_fork_in_child);
    static_cast<void>(registered);  // Only memory can be missing; then a child may hang.
}

}  // namespace weft::detail
