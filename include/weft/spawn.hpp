// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/task/invoke_in_frame.hpp>
#include <weft/detail/task/join.hpp>
#include <weft/detail/task/local_values.hpp>
#include <weft/task.hpp>

#include <functional>
#include <source_location>
#include <stop_token>
#include <string_view>
#include <type_traits>
#include <utility>

namespace weft {

/// How a task is spawned. The name is copied.
struct spawn_options {
    /// Shown by reports and dumps.
    std::string_view name = {};
    /// A stop requested through this token stops the task, as join_handle::request_stop() does.
    std::stop_token stop_token = {};
    /// Does the task find the values that its spawner has bound to task locals (task_local.hpp)?
    /// It keeps them for as long as it lives, so a task that is to outlive what it was spawned by,
    /// such as one that serves many requests, says no.
    bool inherit_locals = true;
    /// Where the task was spawned, for reports.
    std::source_location where = std::source_location::current();
};

/// The handle of a spawned task: await it for the result, stop it, or detach it.
///
/// `co_await h` waits for the end of the task and gives its result, or throws the exception that
/// left it; the handle is empty afterwards. The awaiting branch resumes on the worker on which the
/// task ended. When the awaiting scope is stopped first, the await throws operation_canceled (or
/// timed_out), the task runs on, and the handle keeps it. Throws errc::stopped when the runtime has
/// ended and destroyed the task where it waited. At most one await at a time, and the handle must
/// stay until it has returned; both are checked, and end the process with a message.
///
/// Destroying a handle that is not empty detaches its task and is reported in debug builds; call
/// detach() where that is meant. Awaiting an empty handle throws std::logic_error.
template <class T = void>
class [[nodiscard]] join_handle {
public:
    join_handle() noexcept = default;
    join_handle(join_handle&&) noexcept = default;
    join_handle& operator=(join_handle&& other) noexcept {
        if (this != &other) {
            drop();
            held_ = std::move(other.held_);
        }
        return *this;
    }
    ~join_handle() { drop(); }

    /// False for a handle whose task was joined, detached or moved to another handle.
    explicit operator bool() const noexcept { return !held_.empty(); }

    /// Has the task ended, so that awaiting it would not wait? False for an empty handle. Any
    /// thread, also while another one awaits the handle, as long as the handle stays where it is
    /// and the runtime has not ended.
    bool done() const noexcept {
        if (held_.refused()) { return true; }
        const detail::task_life life = held_.life();
        return life.control != nullptr && detail::has_ended(life);
    }

    /// Asks the task to end: its parked operation, or the next one it starts, throws
    /// operation_canceled. Returns at once; does nothing for a task that has ended. Any thread, as
    /// done().
    void request_stop() const noexcept {
        const detail::task_life life = held_.life();
        if (life.control != nullptr) { detail::request_stop(life); }
    }

    /// Lets the task run on by itself. An exception that leaves it goes to the runtime's handler,
    /// by default the end of the process; but for operation_canceled when the task was asked to
    /// stop or the runtime ends, and for errc::closed, which tells that somebody closed what it
    /// worked on.
    void detach() noexcept {
        held_.take_refusal();
        if (detail::task_control* control = held_.take()) { detail::abandon(control); }
    }

    /// The id that this_task::id() gives inside the task; 0 for an empty handle.
    std::uint64_t id() const noexcept {
        const detail::task_control* control = held_.control();
        return control != nullptr ? control->id : 0;
    }

    /// See the class.
    auto operator co_await() { return detail::join_awaiter<T>(held_); }

    /// For threads outside the runtime: blocks until the task has ended, and gives its result or
    /// throws its exception; the handle is empty afterwards. Throws std::logic_error on a worker,
    /// which would block other tasks: use co_await there. Throws errc::stopped when the runtime has
    /// ended or is about to destroy the task where it waits.
    T get() {
        detail::wait_blocking(held_);
        return detail::take_result<T>(held_);
    }

    /// For weft itself.
    static join_handle adopt(detail::task_control* control) noexcept {
        join_handle made;
        made.held_ = detail::held_task(control);
        return made;
    }
    /// For weft itself: the task; null where it was refused. Throws for an empty handle.
    detail::task_control* awaited_control() const {
        if (held_.empty()) { detail::throw_empty_handle(); }
        return held_.control();
    }

private:
    void drop() noexcept {
        if (detail::task_control* control = held_.take()) { detail::abandon_silently(control); }
    }

    detail::held_task held_;
};

namespace detail {

/// Starts a task on the runtime of the calling worker, or on `runtime` if that is not null. Where
/// the runtime is ending, the task is destroyed and the handle says stopped.
template <class T>
join_handle<T> spawn(runtime_core* runtime, task<T> started, const spawn_options& options) {
    if (!started) {
        throw_empty_task();
    }
    if (options.inherit_locals) { started = with_values_of_spawner(std::move(started)); }
    spawn_request request{.runtime = runtime,
                          .name = options.name,
                          .stop_token = options.stop_token,
                          .where = options.where};
    task_control* control = prepare_spawn(request);  // Throws without having taken the task.
    if (control == nullptr) {
        started.release_frame().destroy();  // Refused, not forgotten: no report of that.
        return join_handle<T>::adopt(nullptr);
    }
    launch(*control, started.release_frame());
    return join_handle<T>::adopt(control);
}

template <class Function, class... Arguments>
using spawned_value =
    typename std::invoke_result_t<std::decay_t<Function>, std::decay_t<Arguments>...>::value_type;

/// spawn() of a callable with its arguments, which are moved into a frame of their own.
template <class Function, class... Arguments>
auto spawn_call(runtime_core* runtime, const spawn_options& options, Function&& function,
                Arguments&&... arguments) -> join_handle<spawned_value<Function, Arguments...>> {
    return spawn(runtime,
                 invoke_in_frame<std::decay_t<Function>, std::decay_t<Arguments>...>(
                     std::forward<Function>(function), std::forward<Arguments>(arguments)...),
                 options);
}

}  // namespace detail

/// Starts a task beside the calling one, on the runtime that the calling thread works for. It goes
/// into this worker's runnext and an idle worker is woken if none searches; the caller runs on.
///
/// Throws std::logic_error on a thread that is no worker (use run() or runtime::co_spawn), and
/// std::bad_alloc; the task is then destroyed without having run. While the runtime ends, the task
/// is destroyed as well, and awaiting the handle throws errc::stopped.
template <class T>
join_handle<T> co_spawn(task<T> started, spawn_options options) {
    return detail::spawn<T>(nullptr, std::move(started), options);
}
template <class T>
join_handle<T> co_spawn(task<T> started,
                        std::source_location where = std::source_location::current()) {
    return detail::spawn<T>(nullptr, std::move(started), {.where = where});
}

/// Calls `function(arguments...)`, which gives a task, and spawns that. The callable and the
/// arguments are moved into the frame and live until the task has ended, so a lambda with captures
/// is safe here.
template <class Function, class... Arguments>
    requires detail::task_function<std::decay_t<Function>, std::decay_t<Arguments>...>
auto co_spawn(spawn_options options, Function&& function, Arguments&&... arguments)
    -> join_handle<detail::spawned_value<Function, Arguments...>> {
    return detail::spawn_call(nullptr, options, std::forward<Function>(function),
                              std::forward<Arguments>(arguments)...);
}
/// The same with nothing else to say; written out for few arguments, so that the spawn site is the
/// caller's. With more arguments give it in spawn_options::where.
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

}  // namespace weft
