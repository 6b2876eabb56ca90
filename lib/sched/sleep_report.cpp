// SPDX-License-Identifier: MIT
#include "lib/sched/sleep_report.hpp"

#include <weft/detail/branch/operation.hpp>
#include <weft/detail/sched/promise.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>

namespace weft::detail {

namespace {

bool only_tasks_wake(branch& waiting) noexcept {
    // Relaxed: what workers wrote is ordered by the lock; a completer of another runtime may write
    // at this moment (runtime_core::inject), and then the operation says no.
    const std::atomic_ref<branch_status> status(waiting.status);
    return status.load(std::memory_order_relaxed) == branch_status::parked &&
           waiting.waiting_for->completed_by_tasks();
}

bool only_tasks_wake(task_control& task) noexcept {
    if (task.extras != nullptr && task.extras->stop_token.stop_possible()) {
        return false;
    }
    return !task.root_scope.any_branch([](branch& each) { return !only_tasks_wake(each); });
}

void describe(const branch& of, sleeping_task& into) noexcept {
    const task_control& task = *of.owner;
    into.id = task.id;
    const std::string_view name = task.extras != nullptr ? task.extras->name : std::string_view{};
    const std::size_t length = std::min(name.size(), into.name.size() - 1);
    std::copy_n(name.begin(), length, into.name.begin());
    into.name[length] = 0;
    into.spawn_site = task.spawn_site;
    into.is_child = of.is_child;
    into.reason = of.reason;
    into.held_by = of.waiting_for->held_by();
    into.depth = 0;
    std::coroutine_handle<> frame = of.handle;
    while (frame != nullptr && into.depth != into.awaits.size()) {
        const promise_base& promise = as_base(frame).promise();
        into.awaits[into.depth++] = promise.location_;
        frame = promise.link_ != nullptr ? promise.link_->parent : nullptr;
    }
}

std::string_view describe(wait_reason reason) noexcept {
    switch (reason) {
        case wait_reason::join:
            return "waits for a task";
        case wait_reason::children:
            return "waits for its children";
        case wait_reason::sleep:
            return "sleeps";
        case wait_reason::io_read:
            return "reads";
        case wait_reason::io_write:
            return "writes";
        case wait_reason::io_close:
            return "closes";
        case wait_reason::blocking:
            return "waits for a call";
        case wait_reason::send:
            return "sends to a channel";
        case wait_reason::receive:
            return "receives from a channel";
        case wait_reason::select:
            return "selects";
        case wait_reason::lock:
            return "waits for a lock";
        case wait_reason::lock_shared:
            return "waits for a shared lock";
        case wait_reason::condition:
            return "waits for a condition";
        case wait_reason::event:
            return "waits for an event";
        case wait_reason::semaphore:
            return "waits for a semaphore";
        case wait_reason::wait_group:
            return "waits for a group";
        case wait_reason::latch:
            return "waits at a latch";
        case wait_reason::barrier:
            return "waits at a barrier";
        case wait_reason::once:
            return "waits for what is done once";
        case wait_reason::none:
        case wait_reason::turn:
            return "waits for its turn in its group";
        case wait_reason::not_started:
        case wait_reason::yield:
            break;
    }
    return "waits";
}

std::string text_of(const sleeping_task& task) {
    std::string text = fmt::format(
        "{}task {} ({}), spawned at {}:{}, {}", task.is_child ? "a child in " : "", task.id,
        task.name[0] != 0 ? task.name.data() : "unnamed", task.spawn_site.file_name(),
        task.spawn_site.line(), describe(task.reason));
    if (task.held_by != 0) {
        text += fmt::format(" that task {} holds{}", task.held_by,
                            task.held_by == task.id ? ", which is the same one: this branch of it, "
                                                      "or another one"
                                                    : "");
    }
    for (std::size_t i = 0; i < task.depth; ++i) {
        text += fmt::format("{}{}:{}", i == 0 ? " at " : ", awaited at ",
                            task.awaits[i].file_name(), task.awaits[i].line());
    }
    return text;
}

std::string line_of(const sleeping_task& task) {
    return "weft:   " + text_of(task);
}

bool waits_for_call(branch& waiting) noexcept {
    // Relaxed: the machine that has made the call may write it at this moment, and then it has
    // returned, or is about to.
    const std::atomic_ref<branch_status> status(waiting.status);
    return status.load(std::memory_order_relaxed) == branch_status::parked &&
           waiting.reason == wait_reason::blocking;
}

}  // namespace

std::string tasks_in_calls(task_slabs& slabs) {
    // Copied with the locks held, and put into words afterwards, which takes memory.
    std::array<sleeping_task, 10> seen;
    std::size_t found = 0;
    slabs.for_each_alive([&](task_control& task) {
        task.root_scope.for_each_branch([&](branch& each) {
            if (!waits_for_call(each)) { return; }
            if (found < seen.size()) { describe(each, seen[found]); }
            ++found;
        });
    });
    std::string text;
    for (std::size_t i = 0; i < std::min(found, seen.size()); ++i) {
        text += "; " + text_of(seen[i]);
    }
    if (found > seen.size()) { text += fmt::format("; and {} more", found - seen.size()); }
    return text;
}

[[gnu::hot]]
bool sleep_survey::all_asleep(task_slabs& slabs) noexcept {
    // Acquire, here as in the walk: pairs with launch().
    if (witness_ != nullptr && witness_->alive.load(std::memory_order_acquire) &&
        !only_tasks_wake(*witness_)) {
        return false;
    }
    witness_ = slabs.find_alive([](task_control& task) { return !only_tasks_wake(task); });
    if (witness_ != nullptr) { return false; }
    list(slabs);
    return found_ != 0;
}

void sleep_survey::list(task_slabs& slabs) noexcept {
    found_ = 0;
    branches_found_ = 0;
    listed_count_ = 0;
    slabs.for_each_alive([this](task_control& task) {
        ++found_;
        task.root_scope.for_each_branch([this](branch& each) {
            ++branches_found_;
            if (listed_count_ != listed_.size()) { describe(each, listed_[listed_count_++]); }
        });
    });
}

std::vector<std::string> sleep_report::lines() const {
    std::vector<std::string> lines;
    lines.push_back(
        fmt::format("weft: all tasks are asleep: no timer, I/O, blocking call or runtime::guard is "
                    "left that could wake one of {}; a thread outside that may still wake one must "
                    "hold a runtime::guard",
                    found));
    for (const sleeping_task& each : listed) {
        lines.push_back(line_of(each));
    }
    if (listed.size() < branches) {
        lines.push_back(fmt::format("weft:   and {} more", branches - listed.size()));
    }
    return lines;
}

}  // namespace weft::detail
