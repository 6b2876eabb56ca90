// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/branch/branch.hpp>
#include <weft/detail/branch/scope.hpp>
#include <weft/detail/sched/join_word.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <stop_token>
#include <string>

namespace weft::detail {

class runtime_core;
class promise_base;

/// Stops a scope and all that is inside it, and appends the branches that become runnable by it.
/// Callable from any thread, without locks. Late: because a deadline has passed.
void stop_scope(scope& stopped, bool late, branch_list& readied) noexcept;

/// The second half of it: cancels the branches that a stop has found parked.
void cancel_parked(branch* parked, bool late, branch_list& readied) noexcept;

/// What a task needs only sometimes, made on demand.
struct task_extras {
    std::string name;
    std::stop_token stop_token;  ///< Given by the spawner; what calls back is below.
    std::optional<std::stop_callback<std::function<void()>>> stop_callback;
};

/// The control block of a task (Go's g): its first branch, its root scope, its join. It lies in a
/// slab and is type-stable: a stale pointer points to a control block of the same runtime.
///
/// Owned together by the task itself, until it ends, and by its join_handle; the join word decides
/// who comes second and gives it back.
class task_control {
public:
    branch main_branch;  ///< First member: the branch of a task that has never forked.
    [[no_unique_address]] scope root_scope{&main_branch};
    /// Lives from spawn to the end of the task; for the walk at the end of the runtime.
    std::atomic<bool> alive{false};
    /// Taken from the slabs and not given back: written by who acquires and releases it, read when
    /// the runtime has ended.
    bool in_use = false;
    join_word<layer, branch> join;
    std::source_location spawn_site;
    std::uint64_t id = 0;
    task_extras* extras = nullptr;

    /// The runtime that the task runs on: the owner of the slab.
    runtime_core& runtime() const noexcept;

    /// Link in a list of free slots: a task that does not exist is in no run queue.
    task_control* next_free() const noexcept {
        return reinterpret_cast<task_control*>(main_branch.next);
    }
    void set_next_free(task_control* next) noexcept {
        main_branch.next = reinterpret_cast<branch*>(next);
    }
};

/// A block of control blocks. It is aligned to its size, so that each finds the runtime that owns
/// it without a pointer of its own.
class alignas(8192) task_slab {
public:
    static constexpr std::size_t size = 8192;
    static constexpr std::size_t slot_count = (size - 64) / sizeof(task_control);

    explicit task_slab(runtime_core& owner) noexcept : owner_(&owner) {}

    static const task_slab& of(const task_control& slot) noexcept {
        return *reinterpret_cast<const task_slab*>(reinterpret_cast<std::uintptr_t>(&slot) &
                                                   ~(std::uintptr_t{size} - 1));
    }

    runtime_core& owner() const noexcept { return *owner_; }
    std::array<task_control, slot_count>& slots() noexcept { return slots_; }

private:
    runtime_core* owner_;
    alignas(64) std::array<task_control, slot_count> slots_;
};
static_assert(sizeof(task_slab) == task_slab::size);

inline runtime_core& task_control::runtime() const noexcept {
    return task_slab::of(*this).owner();
}

/// At the end of a runtime: the task was destroyed where it waited; its handle learns that.
void end_unfinished(task_control& destroyed) noexcept;

}  // namespace weft::detail
