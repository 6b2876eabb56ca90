// SPDX-License-Identifier: MIT
//
// The life of a task's control block, from its spawn to its last owner, without the type of the
// task's result.
#pragma once

#include <weft/detail/sched/task_control.hpp>

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <source_location>
#include <stop_token>
#include <string_view>

namespace weft::detail {

/// One life of a control block: a task that may have ended, and whose block may be used again.
struct task_life {
    task_life(task_control& block) noexcept
        : control(&block), life(block.main_branch.word.life()) {}
    task_life(task_control* block, std::uint32_t which) noexcept : control(block), life(which) {}

    task_control* control;
    std::uint32_t life;
};

/// What spawn() needs to know, without the type of the task.
struct spawn_request {
    runtime_core* runtime;  ///< Null: that of the calling worker.
    std::string_view name;
    std::stop_token stop_token;
    std::source_location where;
};

/// Makes the control block. Null: the runtime is ending. Throws std::logic_error on a thread that
/// is no worker when no runtime is given, std::bad_alloc when there is no memory; nothing is
/// registered then.
task_control* prepare_spawn(const spawn_request& request);

/// Makes the task runnable; `frame` is its first frame, not started, whose promise is a
/// promise_base.
void launch(task_control& control, std::coroutine_handle<> frame) noexcept;

/// Any thread, while the runtime or a handle keeps the slab: stops the root scope of the task, if
/// it has not ended.
void request_stop(const task_life& stopped) noexcept;
/// Any thread, likewise: has the task ended?
bool has_ended(const task_life& asked) noexcept;

/// What a join_handle holds: a task, that it was refused, or nothing. Atomic, since other threads
/// may ask for the end or for a stop while one awaits the handle, which empties it. Relaxed: what
/// is read of the block has its own protocol.
class held_task {
public:
    held_task() noexcept = default;
    explicit held_task(task_control* control) noexcept
        : control_(control),
          life_(control != nullptr ? control->main_branch.word.life() : 0),
          refused_(control == nullptr) {}
    held_task(held_task&& other) noexcept { take_over(other); }
    held_task& operator=(held_task&& other) noexcept {
        take_over(other);
        return *this;
    }

    task_control* control() const noexcept { return control_.load(std::memory_order_relaxed); }
    bool refused() const noexcept { return refused_.load(std::memory_order_relaxed); }
    bool empty() const noexcept { return control() == nullptr && !refused(); }

    /// The task that it holds, as other threads see it; its control is null for none.
    task_life life() const noexcept { return {control(), life_}; }

    /// Owner: empties it.
    task_control* take() noexcept {
        task_control* taken = control();
        control_.store(nullptr, std::memory_order_relaxed);
        return taken;
    }
    bool take_refusal() noexcept {
        const bool taken = refused();
        refused_.store(false, std::memory_order_relaxed);
        return taken;
    }

private:
    void take_over(held_task& other) noexcept {
        life_ = other.life_;
        control_.store(other.take(), std::memory_order_relaxed);
        refused_.store(other.take_refusal(), std::memory_order_relaxed);
    }

    std::atomic<task_control*> control_{nullptr};
    std::uint32_t life_ = 0;
    std::atomic<bool> refused_{false};
};

/// Gives a handle up: the task, or the caller if it has ended, cleans up.
void abandon(task_control* control) noexcept;
/// The same, where the handle was dropped instead of detached: reported in debug builds.
void abandon_silently(task_control* control) noexcept;

/// The end of a runtime, once its workers run no task any more: a thread outside that waits for the
/// task is told that it was stopped, since it may be one that the end waits for.
void dismiss_waiting_thread(task_control& awaited) noexcept;

/// Destroys the first frame of a task that has ended and whose handle the caller holds, and gives
/// the control block back.
void dispose_joined(task_control* control) noexcept;

/// Blocks a thread that is no worker until the task has ended.
void wait_blocking(const held_task& awaited);

/// What stands in a join word for a case of a select, as join_kind::listener.
class end_listener {
public:
    end_listener(const end_listener&) = delete;
    end_listener& operator=(const end_listener&) = delete;

    /// The task has ended, and this was taken out of its join word. Called once, without locks; it
    /// may be gone when it returns. Branches to be readied are appended.
    virtual void ended(branch_list& readied) noexcept = 0;

    branch* as_waiter() noexcept { return reinterpret_cast<branch*>(this); }
    static end_listener& of(branch* waiter) noexcept {
        return *reinterpret_cast<end_listener*>(waiter);
    }

protected:
    end_listener() = default;
    ~end_listener() = default;
};

/// A wait for the end of a task could not be published: ends the process unless that is because the
/// task has ended meanwhile.
void check_finished(const task_control& joined) noexcept;

[[noreturn]] void throw_empty_handle();

}  // namespace weft::detail
