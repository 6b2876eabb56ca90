// SPDX-License-Identifier: MIT
#pragma once

#include "lib/sched/task_slabs.hpp"

#include <weft/detail/branch/branch.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace weft::detail {

/// What a report tells of a branch of a task, copied while the task cannot run.
struct sleeping_task {
    std::uint64_t id = 0;
    std::array<char, 64> name{};  ///< Cut off, and ended by 0.
    std::source_location spawn_site;
    bool is_child = false;  ///< Not the first branch of its task.
    wait_reason reason = wait_reason::none;
    std::uint64_t held_by = 0;  ///< The task that holds what it waits for; 0: none.
    std::size_t depth = 0;  ///< How many of `awaits` there are.
    std::array<std::source_location, 8> awaits;  ///< From the innermost frame outwards.
};

/// What was found.
struct sleep_report {
    std::size_t found = 0;              ///< Tasks.
    std::size_t branches = 0;           ///< Those of these tasks.
    std::vector<sleeping_task> listed;  ///< As many of them as there was room for.

    /// Line by line.
    std::vector<std::string> lines() const;
};

/// The tasks that wait for a call of the blocking pool, to be added to the line of a report; no
/// more than a few are named. While no worker runs.
std::string tasks_in_calls(task_slabs& slabs);

/// Looks at the tasks of a runtime while no worker can run one (all_asleep.hpp). Used only with the
/// lock of the list of parked workers held, so it allocates nothing: room comes from outside.
class sleep_survey {
public:
    static constexpr std::size_t most_listed = 1000;

    /// May nothing but a task wake any of them? Fills the room that was given.
    bool all_asleep(task_slabs& slabs) noexcept;

    /// How many tasks all_asleep() has found.
    std::size_t found() const noexcept { return found_; }
    /// How many branches they have.
    std::size_t branches_found() const noexcept { return branches_found_; }

    /// Exchanges the room for a larger one.
    void give_room(std::vector<sleeping_task>& room) noexcept {
        if (room.size() > listed_.size()) {
            listed_.swap(room);
        }
    }

    /// What the last all_asleep() has found.
    sleep_report take() noexcept {
        listed_.resize(std::min(listed_count_, listed_.size()));
        return {found_, branches_found_, std::move(listed_)};
    }

private:
    void list(task_slabs& slabs) noexcept;

    /// A task that was awake for a reason from outside the last time, as a server's listener is. It
    /// decides nearly always, so that the others need not be looked at; and of its branches the one
    /// that was (scope::any_branch()).
    task_control* witness_ = nullptr;
    std::vector<sleeping_task> listed_;
    std::size_t listed_count_ = 0;
    std::size_t found_ = 0;
    std::size_t branches_found_ = 0;
};

}  // namespace weft::detail
