// SPDX-License-Identifier: MIT
#include "lib/sched/fork_guard.hpp"

#include "lib/base/fork_epoch.hpp"
#include "lib/sched/runtime_core.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/detail/sched/frame_cache.hpp>

#include <pthread.h>
#include <algorithm>
#include <mutex>
#include <vector>

namespace weft::detail {

namespace {

constinit std::mutex registry_lock;

/// Never destroyed, since a runtime may end later than any static object.
std::vector<runtime_core*>& registry() {
    static auto* const instance = new std::vector<runtime_core*>;
    return *instance;
}

/// The mask for the child of a fork on this thread; see restore_signals_in_fork().
struct forked_mask {
    sigset_t mask;
    bool given = false;
};
constinit thread_local forked_mask mask_in_fork{};

// The locks are held over the fork, so that the child finds what they guard whole and can go on to
// the place where it is told.
void before_fork() {
    registry_lock.lock();
    lock_shared_frames();
}
void after_fork_in_parent() {
    unlock_shared_frames();
    registry_lock.unlock();
}
void after_fork_in_child() {
    if (!registry().empty()) { begin_fork_epoch(); }
    for (runtime_core* each : registry()) { each->mark_forked(); }
    unlock_shared_frames();
    registry_lock.unlock();
    // Last: a signal that was pending may come at once.
    if (mask_in_fork.given) { ::pthread_sigmask(SIG_SETMASK, &mask_in_fork.mask, nullptr); }
}

}  // namespace

void restore_signals_in_fork(const sigset_t& mask) noexcept {
    mask_in_fork = {mask, true};
}

void register_for_fork(runtime_core& runtime) {
    static const int registered =
        ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    static_cast<void>(registered);  // Only memory can be missing; then a child is not told.
    const std::lock_guard held(registry_lock);
    registry().push_back(&runtime);
}

void unregister_for_fork(runtime_core& runtime) noexcept {
    const std::lock_guard held(registry_lock);
    std::erase(registry(), &runtime);
}

void used_in_fork() noexcept {
    fatal(
        "the process was forked and weft's runtime does not exist in the child; call exec or _exit "
        "in the child, or fork before the runtime is made");
}

}  // namespace weft::detail
