// SPDX-License-Identifier: MIT
#include "lib/sched/fork_guard.hpp"

#include "lib/sched/runtime_core.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/detail/sched/frame_cache.hpp>

#include <pthread.h>
#include <algorithm>
#include <mutex>
#include <vector>

namespace weft::detail {

namespace {

std::mutex& registry_mutex() {
    static std::mutex instance;
    return instance;
}
std::vector<runtime_core*>& registry() {
    static std::vector<runtime_core*> instance;
    return instance;
}

// The locks are held over the fork, so that the child finds what they guard whole and can go on to
// the place where it is told.
void before_fork() {
    registry_mutex().lock();
    lock_shared_frames();
}
void after_fork_in_parent() {
    unlock_shared_frames();
    registry_mutex().unlock();
}
void after_fork_in_child() {
    for (runtime_core* each : registry()) { each->mark_forked(); }
    unlock_shared_frames();
    registry_mutex().unlock();
}

}  // namespace

void register_for_fork(runtime_core& runtime) {
    static const int registered =
        ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    static_cast<void>(registered);  // Only memory can be missing; then a child is not told.
    const std::lock_guard held(registry_mutex());
    registry().push_back(&runtime);
}

void unregister_for_fork(runtime_core& runtime) noexcept {
    const std::lock_guard held(registry_mutex());
    std::erase(registry(), &runtime);
}

void used_in_fork() noexcept {
    fatal(
        "the process was forked and weft's runtime does not exist in the child; call exec or _exit "
        "in the child, or fork before the runtime is made");
}

}  // namespace weft::detail
