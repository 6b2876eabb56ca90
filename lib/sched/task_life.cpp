// SPDX-License-Identifier: MIT
#include <weft/detail/sched/task_life.hpp>

#include "lib/base/bounded_nesting.hpp"
#include "lib/base/futex.hpp"
#include "lib/sched/runtime_core.hpp"
#include "lib/sched/worker_thread.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/detail/branch/child_branch.hpp>
#include <weft/detail/sched/promise.hpp>
#include <weft/error.hpp>

#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <system_error>

namespace weft::detail {

namespace {

[[gnu::hot]]
void release(task_control* released) noexcept {
    runtime_core& runtime = released->runtime();
    // Its task has ended, or has never begun; nobody has given it back.
    WEFT_ASSERT(released->in_use);
    runtime.dog.examined.await_reader(*released);
    delete std::exchange(released->extras, nullptr);
    // From here on a stop that is meant for this task, and whoever asks whether it has ended, finds
    // another life.
    released->main_branch.word.begin_next_life();
    if (worker_thread* here = current_worker_of(runtime)) {
        released->in_use = false;
        here->release_control(released);
    } else {
        runtime.release_from_outside(released);
    }
}

task_control* acquire(runtime_core& runtime, worker_thread* here) {
    task_control* control = nullptr;
    if (here != nullptr) {
        control = here->acquire_control();
    } else {
        control = runtime.slabs.acquire(1).first;
    }
    WEFT_ASSERT(!control->in_use);
    control->in_use = true;
    return control;
}

/// The next id, for tasks that no worker spawns: a block of its own for each.
std::uint64_t id_for(worker_thread* here) noexcept {
    return here != nullptr ? here->take_id() : runtime_core::next_id_block();
}

void set_up(task_control& control, const spawn_request& request) {
    control.spawn_site = request.where;
    control.main_branch.innermost = &control.root_scope;
    control.main_branch.owner = &control;
    control.main_branch.reason = wait_reason::not_started;
    control.main_branch.restart = false;
    control.join.reset();
    if (request.name.empty() && !request.stop_token.stop_possible()) { return; }
    auto extras = std::make_unique<task_extras>();
    extras->name = request.name;
    extras->stop_token = request.stop_token;
    control.extras = extras.release();
}

}  // namespace

[[gnu::hot]]
task_control* prepare_spawn(const spawn_request& request) {
    auto* here = static_cast<worker_thread*>(current_worker());
    if (request.runtime == nullptr && here == nullptr) {
        throw std::logic_error(
            "weft: co_spawn was called on a thread that is no worker; use "
            "weft::run to start a runtime, or runtime::co_spawn");
    }
    runtime_core& runtime = request.runtime != nullptr ? *request.runtime : here->runtime();
    here = current_worker_of(runtime);
    const gate_pass pass(runtime.gate, here == nullptr);
    if (!pass || !runtime.spawning_allowed()) {
        runtime.check_not_forked();
        return nullptr;
    }
    task_control* control = acquire(runtime, here);
    try {
        set_up(*control, request);
        if (request.stop_token.stop_possible()) {
            // A token that has been stopped already calls back at once, before the task starts.
            control->extras->stop_callback.emplace(request.stop_token,
                                                   [control] { request_stop({*control}); });
        }
    } catch (...) {
        release(control);
        throw;
    }
    control->id = id_for(here);
    return control;
}

[[gnu::hot]]
void launch(task_control& control, std::coroutine_handle<> frame) noexcept {
    runtime_core& runtime = control.runtime();
    worker_thread* here = current_worker_of(runtime);
    // Held until the task is queued: it is destroyed with the others, or not launched at all.
    const gate_pass pass(runtime.gate, here == nullptr);
    if (!pass) {
        // The runtime has ended since prepare_spawn(); the handle says so.
        frame.destroy();
        end_unfinished(control);
        return;
    }
    control.main_branch.handle = frame;
    as_base(frame).promise().branch_ = &control.main_branch;
    // Release pairs with the acquire of a walk over the slabs: the control block is set up.
    control.alive.store(true, std::memory_order_release);
    if (here != nullptr) {
        here->p.spawned.add_release();
        here->ready_next(&control.main_branch);
    } else {
        runtime.spawned_outside.fetch_add(1, std::memory_order_release);
        branch_list one;
        one.push_back(&control.main_branch);
        runtime.inject(one);
    }
    // The push above is a read-modify-write of runnext, or under the lock of the global queue, and
    // begin_drain() meets it there after it has changed the phase (local_queue::meet_owner). So
    // either it sees the task alive, or we see the phase. The caller holds the handle, so the
    // control block is still this task's.
    if (!runtime.spawning_allowed()) { request_stop({control}); }
}

void request_stop(const task_life& stopped) noexcept {
    task_control& control = *stopped.control;
    runtime_core& runtime = control.runtime();
    const gate_pass pass(runtime.gate, current_worker_of(runtime) == nullptr);
    // In the last phases the operation that a branch waits for may have been destroyed already.
    if (!pass || runtime.phase() >= runtime_phase::destroying) {
        runtime.check_not_forked();
        return;
    }
    branch_list readied;
    cancel_parked(control.root_scope.stop_life(control.main_branch, stopped.life), false, readied);
    make_ready(readied);
}

bool has_ended(const task_life& asked) noexcept {
    // In this order: a block that was given back and used again may be unfinished, and then its
    // life is seen to be another one. Acquire in finished() pairs with the release in reset().
    return asked.control->join.finished() || asked.control->main_branch.word.life() != asked.life;
}

// ---------------------------------------------------------------------------------------------
// The end of a task and its handle.

namespace {

/// A thread outside the runtime that waits for a task. It lies on that thread's stack.
struct blocked_thread {
    static constexpr std::uint32_t waiting = 0;
    static constexpr std::uint32_t task_ended = 1;
    static constexpr std::uint32_t runtime_stopped = 2;

    std::atomic<std::uint32_t> word{waiting};

    void wake(std::uint32_t why) noexcept {
        // Release pairs with the acquire of the waiter. After the store the object may be gone;
        // the futex call uses its address only.
        word.store(why, std::memory_order_release);
        futex_wake(word);
    }
};

/// Ends of a detached task that somebody else wanted: it was asked to stop, or met the end of the
/// runtime; or what it worked on was closed, as the listener of an acceptor is by its owner.
bool ended_on_purpose(const task_control& ended, const std::exception_ptr& exception) noexcept {
    try {
        std::rethrow_exception(exception);
    } catch (const std::system_error& error) {
        if (error.code() == errc::closed) { return true; }
        return error.code() == std::errc::operation_canceled &&
               (ended.main_branch.word.stop_requested() ||
                !ended.runtime().spawning_allowed());
    } catch (...) { return false; }
}

void report_if_failed(task_control& ended) noexcept {
    const std::coroutine_handle<> frame = ended.main_branch.handle;
    if (frame == nullptr) { return; }
    std::exception_ptr exception = as_base(frame).promise().exception_;
    if (exception == nullptr) { return; }
    if (ended_on_purpose(ended, exception)) { return; }
    ended.runtime().report_failure(
        {.task_id = ended.id,
         .task_name = ended.extras != nullptr ? std::string_view(ended.extras->name) : "",
         .spawn_site = ended.spawn_site,
         .exception = std::move(exception)});
}

/// A frame may hold the handle of a task, whose frame holds the handle of another one.
constinit thread_local bounded_nesting<task_control*> disposals;

void dispose_ended(task_control* ended) noexcept {
    disposals.end(
        ended,
        [](task_control* now) {
            const std::coroutine_handle<> frame =
                std::exchange(now->main_branch.handle, nullptr);
            if (frame != nullptr) { frame.destroy(); }
            release(now);
        },
        [](task_control* kept, task_control* next) { kept->set_next_free(next); },
        [](task_control* kept) { return kept->next_free(); });
}

// A task that nobody will ever ask about. What it leaves behind is the user's code, which may keep
// this worker for long: so the task ends only after that, and until then the watchdog finds its
// name (run_mark.hpp). What ends inside the frame has ended when the frame has.
void end_detached(task_control& ended) noexcept {
    report_if_failed(ended);
    if (const auto frame = std::exchange(ended.main_branch.handle, nullptr)) { frame.destroy(); }
    ended.join.finish();
    release(&ended);
}

void tell_waiter(const join_word<layer, branch>::finish_result& found) noexcept {
    if (found.waiter == nullptr) { return; }
    branch_list readied;
    switch (found.kind) {
    case join_kind::branch: complete_waiter(*found.waiter, readied); break;
    case join_kind::thread:
        reinterpret_cast<blocked_thread*>(found.waiter)->wake(blocked_thread::task_ended);
        break;
    case join_kind::listener: end_listener::of(found.waiter).ended(readied); break;
    }
    make_ready(readied);
}

// The handle goes while somebody waits on it. That is a mistake of the program, except at the end
// of the runtime, where frames are destroyed in any order: the waiter's operation is taken off
// then, so that its own end finds nothing to undo.
void abandon_awaited(task_control& awaited) noexcept {
    runtime_core& runtime = awaited.runtime();
    if (runtime.phase() < runtime_phase::destroying) {
        fatal(
            "a join_handle was destroyed, detached or assigned to while it is awaited; keep it "
            "until the await has returned");
    }
    const auto found = awaited.join.desert();
    if (found.abandoned) {
        // It has ended since, on the thread of its own runtime.
        report_if_failed(awaited);
        dispose_ended(&awaited);
        return;
    }
    tell_waiter(found);
}

}  // namespace

void check_finished(const task_control& joined) noexcept {
    if (!joined.join.finished()) {
        fatal(
            "a join_handle was awaited by two at a time; let one task await it and hand the result "
            "on");
    }
}

[[gnu::hot]]
void worker_thread::finish_branch() noexcept {
    branch& ended = *std::exchange(finished_, nullptr);
    ended.status = branch_status::ended;
    if (ended.is_child) {
        static_cast<child_branch&>(ended).finish(*this);
    } else {
        finish_task(*ended.owner);
    }
}

[[gnu::hot]]
void worker_thread::finish_task(task_control& of) noexcept {
    task_control* const ended = &of;
    if (ended->extras != nullptr) { ended->extras->stop_callback.reset(); }
    // Relaxed: who still finds it alive asks a task to stop that has ended, which does nothing.
    ended->alive.store(false, std::memory_order_relaxed);
    runtime_core& runtime = ended->runtime();
    const bool is_main = runtime.is_main(*ended);
    // Counted before anybody can learn of the end, so that who has joined a task finds it counted.
    runtime.task_ended(*this, is_main);
    if (ended->join.is_abandoned()) {
        end_detached(*ended);
        return;
    }
    const auto found = ended->join.finish();
    if (found.abandoned) {
        // At this very moment. Nobody else knows the task, so its end can still come later.
        ended->join.reset();
        end_detached(*ended);
    } else if (found.waiter != nullptr && found.kind == join_kind::branch &&
               &found.waiter->owner->runtime() == &runtime) {
        // The control block belongs to the handle now.
        if (found.waiter->word.complete()) { ready_last(found.waiter); }
    } else {
        tell_waiter(found);
    }
}

void end_unfinished(task_control& destroyed) noexcept {
    destroyed.main_branch.status = branch_status::ended;
    const auto found = destroyed.join.finish();
    if (found.abandoned) {
        dispose_ended(&destroyed);
    } else {
        tell_waiter(found);
    }
}

#ifndef NDEBUG
namespace {

void report_dropped(const task_control& dropped) noexcept {
    try {
        dropped.runtime().log(fmt::format(
            "weft: debug: the handle of task {} ({}), spawned at {}:{}, was dropped while the task "
            "runs; await it, or call detach() to let it run on purpose",
            dropped.id, dropped.extras != nullptr ? dropped.extras->name : "unnamed",
            dropped.spawn_site.file_name(), dropped.spawn_site.line()));
    } catch (const std::bad_alloc&) {
        dropped.runtime().log("weft: debug: the handle of a task was dropped while the task runs, "
                              "and there is no memory to name it");
    }
}

}  // namespace
#endif

void abandon(task_control* control) noexcept {
    if (control->join.abandon()) { return; }
    if (!control->join.finished()) {
        abandon_awaited(*control);
        return;
    }
    report_if_failed(*control);
    dispose_ended(control);
}

void abandon_silently(task_control* control) noexcept {
#ifndef NDEBUG
    if (!control->join.finished() && control->runtime().spawning_allowed()) {
        report_dropped(*control);
    }
#endif
    abandon(control);
}

void dismiss_waiting_thread(task_control& awaited) noexcept {
    if (branch* waiter = awaited.join.dismiss_foreign()) {
        reinterpret_cast<blocked_thread*>(waiter)->wake(blocked_thread::runtime_stopped);
    }
}

[[gnu::hot]]
void dispose_joined(task_control* control) noexcept {
    dispose_ended(control);
}

void wait_blocking(const held_task& awaited) {
    if (awaited.refused()) { return; }
    task_control* control = awaited.control();
    if (control == nullptr) { throw_empty_handle(); }
    if (current_worker() != nullptr) {
        throw std::logic_error(
            "weft: join_handle::get was called on a worker, where it would stop "
            "every other task of that worker; use co_await");
    }
    control->runtime().check_not_forked();
    blocked_thread self;
    if (!control->join.publish(reinterpret_cast<branch*>(&self), join_kind::thread)) {
        check_finished(*control);
        return;
    }
    // Either the runtime finds this thread when it dismisses those who wait, or we learn here that
    // it has done so, and go by ourselves unless somebody has taken us out at this moment.
    if (control->runtime().dismisses_threads() &&
        control->join.withdraw(reinterpret_cast<branch*>(&self), join_kind::thread)) {
        throw std::system_error(errc::stopped);
    }
    // Acquire pairs with wake(): the result is visible.
    while (self.word.load(std::memory_order_acquire) == blocked_thread::waiting) {
        futex_wait(self.word, blocked_thread::waiting, no_deadline);
    }
    // Relaxed: it does not change any more.
    if (self.word.load(std::memory_order_relaxed) == blocked_thread::runtime_stopped) {
        throw std::system_error(errc::stopped);
    }
}

void throw_empty_handle() {
    throw std::logic_error(
        "weft: an empty join_handle was awaited: its task was joined, detached "
        "or moved to another handle");
}

}  // namespace weft::detail
