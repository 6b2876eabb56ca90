// SPDX-License-Identifier: MIT
#include "lib/sched/runtime_registry.hpp"

#include "lib/sched/runtime_core.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace weft::detail {

namespace {

constinit std::mutex registry_lock;

struct registered {
    runtime_core* runtime;
    bool lives;
};

/// Never destroyed, since a runtime may end later than any static object.
std::vector<registered>& registry() {
    static auto* const instance = new std::vector<registered>;
    return *instance;
}

/// Under the lock.
void end_life_locked(runtime_core& ended) noexcept {
    const auto found = std::ranges::find(registry(), &ended, &registered::runtime);
    if (found == registry().end() || !std::exchange(found->lives, false)) { return; }
    // Who is told by that wakes a worker at most, and runs nothing here.
    for (const registered& each : registry()) {
        if (each.lives) { each.runtime->shared_guards->remove(); }
    }
}

}  // namespace

void register_runtime(runtime_core& made) {
    const std::lock_guard held(registry_lock);
    registry().push_back({&made, false});
    for (const registered& each : registry()) {
        if (!each.lives) { continue; }
        each.runtime->shared_guards->add();
        made.shared_guards->add();
    }
    registry().back().lives = true;
}

void end_life(runtime_core& ended) noexcept {
    const std::lock_guard held(registry_lock);
    end_life_locked(ended);
}

void unregister_runtime(runtime_core& gone) noexcept {
    const std::lock_guard held(registry_lock);
    end_life_locked(gone);
    std::erase_if(registry(), [&gone](const registered& each) { return each.runtime == &gone; });
}

void lock_registry() noexcept {
    registry_lock.lock();
}

void unlock_registry() noexcept {
    registry_lock.unlock();
}

bool mark_all_forked() noexcept {
    for (registered& each : registry()) {
        each.runtime->mark_forked();
        each.lives = false;
    }
    return !registry().empty();
}

}  // namespace weft::detail
