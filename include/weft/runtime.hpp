// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sched/runtime_hold.hpp>
#include <weft/detail/task/waiting_task.hpp>
#include <weft/runtime_options.hpp>
#include <weft/spawn.hpp>
#include <weft/statistics.hpp>
#include <weft/task.hpp>

#include <coroutine>
#include <source_location>
#include <type_traits>
#include <utility>

namespace weft {

/// A scheduler with all workers on threads of its own, for programs that are not weft's from the
/// start: threads outside spawn into it and wait for handles. Programs that are call run() instead.
///
/// The threads of workers block all signals but the synchronous ones and SIGURG, so those of the
/// process go to its other threads. A program that a task starts by fork and exec gets the signal
/// mask that the thread which made the runtime had then. posix_spawn and what is built on it
/// (popen) hand on the mask of the worker instead: set POSIX_SPAWN_SETSIGMASK. See also
/// runtime_options::ignore_sigpipe.
///
/// With io_uring weft handles SIGURG while a runtime exists, unless the program has a handler for
/// it by then: a worker whose task does not come back is interrupted by it, so that others can
/// serve the sockets that wait there (docs/scheduler.md). A call of that task that waits may then
/// end with EINTR.
///
/// Any thread may use it, but it is destroyed once, and not by one of its own tasks: that would
/// wait for itself, and ends the process with a message.
class runtime {
public:
    class guard;

    /// Returns when all workers are ready. Throws std::invalid_argument for options out of range,
    /// std::system_error where a forced netpoller or not a single thread can start, std::bad_alloc;
    /// nothing is left behind then.
    explicit runtime(runtime_options options = {});

    /// shutdown(), then frees everything, but for the memory of frames that is kept for the next
    /// runtime (at most 51 MB for the process; docs/guide/tasks.md). Handles that are still held
    /// report errc::stopped for tasks that did not end by themselves.
    ~runtime();
    runtime(const runtime&) = delete;
    runtime& operator=(const runtime&) = delete;

    /// Starts a task, from any thread. It goes to the global queue, or, from a worker of this
    /// runtime, where weft::co_spawn puts it. While the runtime ends, the task is destroyed and
    /// awaiting the handle throws errc::stopped.
    template <class T>
    join_handle<T> co_spawn(task<T> started, spawn_options options) {
        return detail::spawn<T>(core_, std::move(started), options);
    }
    template <class T>
    join_handle<T> co_spawn(task<T> started,
                            std::source_location where = std::source_location::current()) {
        return detail::spawn<T>(core_, std::move(started), {.where = where});
    }
    /// The same with a callable and arguments that live in the task's frame.
    template <class Function, class... Arguments>
        requires detail::task_function<std::decay_t<Function>, std::decay_t<Arguments>...>
    auto co_spawn(spawn_options options, Function&& function, Arguments&&... arguments)
        -> join_handle<detail::spawned_value<Function, Arguments...>> {
        return detail::spawn_call(core_, options, std::forward<Function>(function),
                                  std::forward<Arguments>(arguments)...);
    }
    /// The same with nothing else to say; written out for few arguments, so that the spawn site is
    /// the caller's. With more arguments give it in spawn_options::where.
    template <class Function>
        requires detail::task_function<std::decay_t<Function>>
    auto co_spawn(Function&& function, std::source_location where = std::source_location::current())
        -> join_handle<detail::spawned_value<Function>> {
        return co_spawn(spawn_options{.where = where}, std::forward<Function>(function));
    }
    template <class Function, class Argument>
        requires detail::task_function<std::decay_t<Function>, std::decay_t<Argument>>
    auto co_spawn(Function&& function, Argument&& argument,
                  std::source_location where = std::source_location::current())
        -> join_handle<detail::spawned_value<Function, Argument>> {
        return co_spawn(spawn_options{.where = where}, std::forward<Function>(function),
                        std::forward<Argument>(argument));
    }
    template <class Function, class First, class Second>
        requires detail::task_function<std::decay_t<Function>, std::decay_t<First>,
                                       std::decay_t<Second>>
    auto co_spawn(Function&& function, First&& first, Second&& second,
                  std::source_location where = std::source_location::current())
        -> join_handle<detail::spawned_value<Function, First, Second>> {
        return co_spawn(spawn_options{.where = where}, std::forward<Function>(function),
                        std::forward<First>(first), std::forward<Second>(second));
    }
    template <class Function, class... Arguments>
        requires(sizeof...(Arguments) > 2) &&
                detail::task_function<std::decay_t<Function>, std::decay_t<Arguments>...>
    auto co_spawn(Function&& function, Arguments&&... arguments)
        -> join_handle<detail::spawned_value<Function, Arguments...>> {
        return co_spawn(spawn_options{}, std::forward<Function>(function),
                        std::forward<Arguments>(arguments)...);
    }

    /// Ends the runtime: every task is asked to stop, gets runtime_options::shutdown_grace to end,
    /// and is destroyed where it waits after that. Blocks until all workers have ended. Later calls
    /// return at once. Not from a task of this runtime.
    void shutdown();

    runtime_statistics statistics() const;

    /// Changes the number of processors while tasks run; any thread, also a task. No task and no
    /// timer is lost.
    ///
    /// More: workers that were taken out of use before come back; for the rest threads and rings
    /// are made before this returns, which blocks the calling thread for a fraction of a
    /// millisecond for each. Fewer: returns at once. Each worker that is too many stops when the
    /// task that it runs suspends, or asks whether it has to (checkpoint()); until then more tasks
    /// may run at a time. What it had is run by the others, in the order in which it would have run
    /// it, before what waits in the global queue; its timers and sockets are watched by the others.
    /// Its thread sleeps until the number rises again.
    ///
    /// From then on the number does not follow the machine any more (runtime_options::processors).
    ///
    /// Throws std::invalid_argument unless the number is 1 to 1024; std::system_error where a
    /// thread or a ring cannot be made, with the limit that is in the way, and errc::stopped while
    /// the runtime ends; std::bad_alloc. Nothing is changed then.
    void set_processors(unsigned count);

private:
    detail::runtime_core* core_;
};

/// Says that its holder may still wake a task, so that run() does not take the tasks that wait for
/// it for asleep (runtime_options::deadlock). A thread that is no worker, and that completes what a
/// task waits for or stops a task through its handle, holds one until it has done so; a task of
/// another runtime needs none (deadlock.hpp). Make it in a task, before the task waits, and move it
/// to the thread.
///
/// It costs a reference count, may be copied, moved, and destroyed on any thread, and may outlive
/// the runtime, which it does not keep.
class runtime::guard {
public:
    /// In a task: for its runtime. Throws std::logic_error elsewhere.
    guard() : hold_(detail::hold_this_runtime()) {}
    /// On any thread.
    explicit guard(runtime& held) noexcept : hold_(*held.core_) {}

private:
    detail::runtime_hold hold_;
};

namespace detail {

/// The runtime behind run(): made, used for one main task by the calling thread, and ended.
class main_runtime {
public:
    explicit main_runtime(runtime_options options);
    ~main_runtime();
    main_runtime(const main_runtime&) = delete;
    main_runtime& operator=(const main_runtime&) = delete;

    /// Runs the task, whose first frame is given, until it has ended and the runtime with it.
    /// Returns its control block, for take_result().
    task_control* run(std::coroutine_handle<> frame, std::source_location where);

    /// After run(): did it end since all tasks were asleep?
    bool deadlocked() const noexcept;
    [[noreturn]] void throw_deadlock() const;

private:
    runtime_core* core_;
};

}  // namespace detail

/// Runs a program: makes a runtime of which the calling thread is worker 0, runs `main` in it, and
/// returns its result or throws its exception. When `main` has ended, tasks that are still alive
/// are asked to stop, get runtime_options::shutdown_grace to end, and are destroyed after that.
///
/// The main task is queued on the first processor and taken from there like any other. Throws
/// deadlock_error where runtime_options::deadlock asks for it,
/// std::logic_error inside a task (a worker cannot wait for another runtime; use co_await), and
/// what the constructor of runtime throws.
template <class T>
T run(task<T> main, runtime_options options = {},
      std::source_location where = std::source_location::current()) {
    if (!main) {
        detail::throw_empty_task();
    }
    detail::waiting_task<T> waiting(std::move(main));  // Without a runtime nobody can start it.
    detail::main_runtime runtime(std::move(options));
    detail::held_task ended(runtime.run(waiting.take().release_frame(), where));
    if (runtime.deadlocked()) [[unlikely]] {
        try {
            static_cast<void>(detail::take_result<T>(ended));
        } catch (...) {
            // What the stop made of it.
        }
        runtime.throw_deadlock();
    }
    return detail::take_result<T>(ended);
}

/// What a task may ask about the runtime that it runs in. Throws std::logic_error elsewhere.
namespace this_runtime {

runtime_statistics statistics();

/// The number of processors, as it was set last.
unsigned processors();

/// As runtime::set_processors(), for the runtime of the calling task.
void set_processors(unsigned count);

}  // namespace this_runtime

}  // namespace weft
