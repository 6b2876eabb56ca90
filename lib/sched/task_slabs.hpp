// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/sched/task_control.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace weft::detail {

/// The control blocks of a runtime: type-stable slots in slabs that live as long as the runtime.
/// Freed slots go to a list from which the next spawn takes one; a walk over the slabs sees every
/// task, so that spawning and ending pay nothing for being observable.
class task_slabs {
public:
    explicit task_slabs(runtime_core& owner) noexcept : owner_(owner) {}

    ~task_slabs() {
        for (auto& slab : slabs_) {
            for (auto& slot : slab->slots()) {
                delete slot.extras;
            }
        }
    }

    /// A chain of slots, linked through next_free().
    struct batch {
        task_control* first = nullptr;
        std::uint32_t count = 0;
    };

    /// Any thread: up to `wanted` free slots, at least one. Throws std::bad_alloc, and has then
    /// changed nothing.
    [[gnu::hot]]
    batch acquire(std::uint32_t wanted) {
        if (batch found = take_free(wanted); found.count != 0) {
            return found;
        }
        auto added = std::make_unique<task_slab>(owner_);
        const std::lock_guard growing(growth_);
        slabs_.push_back(std::move(added));
        batch fresh;
        for (auto& slot : slabs_.back()->slots()) {
            slot.set_next_free(fresh.first);
            fresh.first = &slot;
            ++fresh.count;
        }
        if (fresh.count > wanted) {
            const batch rest = cut(fresh, wanted);
            release(rest);
        }
        return fresh;
    }

    /// Shortens a chain to its first `kept` slots, at least one; returns the rest.
    static batch cut(batch& shortened, std::uint32_t kept) noexcept {
        task_control* last = shortened.first;
        for (std::uint32_t i = 1; i < kept; ++i) {
            last = last->next_free();
        }
        const batch rest{last->next_free(), shortened.count - kept};
        last->set_next_free(nullptr);
        shortened.count = kept;
        return rest;
    }

    /// Any thread.
    void release(batch released) noexcept {
        if (released.count == 0) {
            return;
        }
        task_control* last = released.first;
        while (last->next_free() != nullptr) {
            last = last->next_free();
        }
        const std::lock_guard held(lock_);
        last->set_next_free(free_.first);
        free_.first = released.first;
        free_.count += released.count;
    }

    /// Calls `visit` for each slot whose task is alive. Slots may begin and end meanwhile. Under a
    /// lock that a spawn may need: `visit` neither readies a branch nor runs the user's code.
    template <class Visit>
    void for_each_alive(Visit&& visit) {
        const std::lock_guard growing(growth_);
        visit_alive(visit);
    }

    /// The same with nothing locked, for what runs the user's code at the end of a runtime: when
    /// its gate is closed, and so nobody spawns any more.
    template <class Visit>
    void for_each_alive_alone(Visit&& visit) {
        visit_alive(visit);
    }

    /// The first slot whose task is alive and for which `matches` says so; null if there is none.
    template <class Matches>
    task_control* find_alive(Matches&& matches) {
        const std::lock_guard growing(growth_);
        for (auto& slab : slabs_) {
            for (auto& slot : slab->slots()) {
                // As in visit_alive().
                if (slot.alive.load(std::memory_order_acquire) && matches(slot)) {
                    return &slot;
                }
            }
        }
        return nullptr;
    }

    /// Calls `visit` for each slot.
    template <class Visit>
    void for_each_slot(Visit&& visit) {
        const std::lock_guard growing(growth_);
        for (auto& slab : slabs_) {
            for (auto& slot : slab->slots()) {
                visit(slot);
            }
        }
    }

private:
    template <class Visit>
    void visit_alive(Visit& visit) {
        for (auto& slab : slabs_) {
            for (auto& slot : slab->slots()) {
                // Acquire pairs with the release in launch(): the task is set up.
                if (slot.alive.load(std::memory_order_acquire)) {
                    visit(slot);
                }
            }
        }
    }

    batch take_free(std::uint32_t wanted) noexcept {
        const std::lock_guard held(lock_);
        if (free_.count == 0) {
            return {};
        }
        batch taken = free_;
        free_ = cut(taken, std::min(wanted, taken.count));
        return taken;
    }

    runtime_core& owner_;
    spin_lock<layer> lock_;
    batch free_;
    std::mutex growth_;
    std::vector<std::unique_ptr<task_slab>> slabs_;
};

}  // namespace weft::detail
