// SPDX-License-Identifier: MIT
#include "lib/netpoll/fork_locks.hpp"

#include "lib/netpoll/descriptor_table.hpp"
#include "lib/netpoll/poll_home.hpp"

#include <pthread.h>

namespace weft::detail {

namespace {

void before_fork() {
    poll_home::lock_table();
    descriptors.lock();
}
void after_fork() {
    descriptors.unlock();
    poll_home::unlock_table();
}

}  // namespace

void hold_locks_over_forks() noexcept {
    static const int registered = ::pthread_atfork(before_fork, after_fork, after_fork);
    static_cast<void>(registered);  // Only memory can be missing; then a child may hang.
}

}  // namespace weft::detail
