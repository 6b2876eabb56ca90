// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/branch/branch.hpp>
#include <weft/detail/branch/scope.hpp>
#include <weft/detail/sched/join_word.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <stop_token>
#include <string>

namespace weft::detail {

class runtime_core;
class promise_base;

/// A cancel scope of weft's branches.
class scope : public basic_scope<layer, branch> {
public:
    using basic_scope::basic_scope;
};

/// Stops a scope and all that is inside it, and appends the branches that become runnable by it.
/// Callable from any thread, without locks. Late: because a deadline has passed.
void stop_scope(basic_scope<layer, branch>& stopped, bool late, branch_list& readied) noexcept;

/// What a task needs only sometimes, made on demand.
struct task_extras {
    std::string name;
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
    scope root_scope{&main_branch};
    join_word<layer, branch> join;
    runtime_core* runtime = nullptr;
    std::source_location spawn_site;
    std::uint64_t id = 0;
    task_extras* extras = nullptr;
    /// Lives from spawn to the end of the task; for the walk at the end of the runtime.
    std::atomic<bool> alive{false};
    /// Taken from the slabs and not given back: written by who acquires and releases it, read when
    /// the runtime has ended.
    bool in_use = false;
    /// Link in a list of free slots.
    task_control* next_free = nullptr;
};

/// At the end of a runtime: the task was destroyed where it waited; its handle learns that.
void end_unfinished(task_control& destroyed) noexcept;

}  // namespace weft::detail
