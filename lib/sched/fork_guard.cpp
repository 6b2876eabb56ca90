// SPDX-License-Identifier: MIT
#include "lib/sched/fork_guard.hpp"

#include "lib/base/fork_epoch.hpp"
#include "lib/sched/runtime_registry.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/detail/sched/frame_cache.hpp>

#include <pthread.h>

namespace weft::detail {

namespace {

/// The mask for the child of a fork on this thread; see restore_signals_in_fork().
struct forked_mask {
    sigset_t mask;
    bool given = false;
};
constinit thread_local forked_mask mask_in_fork{};

// The locks are held over the fork, so that the child finds what they guard whole and can go on to
// the place where it is told.
void before_fork() {
    lock_registry();
    lock_shared_frames();
}
void after_fork_in_parent() {
    unlock_shared_frames();
    unlock_registry();
}
void after_fork_in_child() {
    if (mark_all_forked()) { begin_fork_epoch(); }
    unlock_shared_frames();
    unlock_registry();
    // Last: a signal that was pending may come at once.
    if (mask_in_fork.given) { ::pthread_sigmask(SIG_SETMASK, &mask_in_fork.mask, nullptr); }
}

}  // namespace

void restore_signals_in_fork(const sigset_t& mask) noexcept {
    mask_in_fork = {mask, true};
}

void watch_forks() noexcept {
    static const int registered =
        ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    static_cast<void>(registered);  // Only memory can be missing; then a child is not told.
}

void used_in_fork() noexcept {
    fatal(
        "the process was forked and weft's runtime does not exist in the child; call exec or _exit "
        "in the child, or fork before the runtime is made");
}

}  // namespace weft::detail
