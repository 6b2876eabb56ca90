// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/task/blocking_operation.hpp>

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace weft {

/// `co_await blocking(function, arguments...)` makes a call that may block its thread: a read of a
/// file, a name lookup, a library that waits. The call moves to a spare thread, the task is parked,
/// and the worker goes on at once with other tasks. Gives what the function returns, or throws what
/// it throws. The function and the arguments are moved into the awaiting frame, and used up: they
/// are gone when the await is over, so a reference that the function returns must not lead to one
/// of them. The function is no coroutine.
///
/// The calls are made in the order in which they are awaited, each at once as long as fewer than
/// runtime_options::blocking_threads run; beyond that they queue, up to blocking_queue. The task
/// resumes on an idle worker if there is one, else on whichever comes to it first.
///
/// Cancellation: a call that is still queued when the scope is stopped is not made, and the await
/// throws operation_canceled (or timed_out). A call that runs cannot be abandoned, since it may use
/// what lies in the frame: the await waits for it, and gives its result. A function that can be
/// called with a std::stop_token before its arguments is (so is a generic one that takes anything),
/// and learns of the stop through it. Callbacks on that token run on a thread of the runtime that
/// does nothing else, one after the other: they delay no task, but one that takes long delays the
/// stops of other calls. So with_timeout around a call that does not listen takes as long as the
/// call. When the runtime ends it waits for running calls; when one takes longer than
/// runtime_options::shutdown_timeout it calls on_hang, which by default reports the tasks that wait
/// and terminates the process. See blocking_detached() for calls to leave behind.
///
/// Throws std::system_error with resource_unavailable_try_again when the system refuses the first
/// thread, or, for a function that takes a token, the thread that stops calls; with
/// device_or_resource_busy when the queue is full. Inside the function, no worker is there: spawn
/// through runtime::co_spawn of a runtime object.
template <class Function, class... Arguments>
    requires detail::blocking_function<std::decay_t<Function>, std::decay_t<Arguments>...>
auto blocking(Function&& function, Arguments&&... arguments)
    -> detail::blocking_awaiter<std::decay_t<Function>, std::decay_t<Arguments>...> {
    detail::check_makes_no_task<
        detail::blocking_value<std::decay_t<Function>, std::decay_t<Arguments>...>>();
    return detail::blocking_awaiter<std::decay_t<Function>, std::decay_t<Arguments>...>(
        true, std::forward<Function>(function), std::forward<Arguments>(arguments)...);
}

/// The same for a call that is not to wait in a queue: where blocking() would queue it, since all
/// threads are busy and no more can be made, it is not made, and the await throws std::system_error
/// with device_or_resource_busy. `co_await as_result(try_blocking(...))` gives that as a value. So
/// a server can refuse what it cannot do in time.
template <class Function, class... Arguments>
    requires detail::blocking_function<std::decay_t<Function>, std::decay_t<Arguments>...>
auto try_blocking(Function&& function, Arguments&&... arguments)
    -> detail::blocking_awaiter<std::decay_t<Function>, std::decay_t<Arguments>...> {
    detail::check_makes_no_task<
        detail::blocking_value<std::decay_t<Function>, std::decay_t<Arguments>...>>();
    return detail::blocking_awaiter<std::decay_t<Function>, std::decay_t<Arguments>...>(
        false, std::forward<Function>(function), std::forward<Arguments>(arguments)...);
}

/// The same for a call that nobody waits for. It owns all it touches: the function and the
/// arguments are moved to the heap, and may be left behind: a runtime that ends neither waits for
/// the call if it runs nor makes it if it is queued. Returns at once. An exception that leaves the
/// function ends the process with a message, as for a std::thread.
///
/// To be called by a task; throws std::logic_error elsewhere, std::bad_alloc without memory, and
/// std::system_error with device_or_resource_busy when the queue is full, or with
/// resource_unavailable_try_again when no thread is there and the system refuses one. The function
/// and the arguments are destroyed then. Two calls may come while the first thread is being made:
/// one of them is queued, and has returned already when the system refuses that thread. Then
/// runtime_options::on_failure is told, with the task that has made the call; without a handler
/// the process ends with a message.
template <class Function, class... Arguments>
    requires std::invocable<std::decay_t<Function>, std::decay_t<Arguments>...>
void blocking_detached(Function&& function, Arguments&&... arguments) {
    detail::check_makes_no_task<
        std::invoke_result_t<std::decay_t<Function>, std::decay_t<Arguments>...>>();
    using call = detail::detached_call_of<std::decay_t<Function>, std::decay_t<Arguments>...>;
    detail::submit_detached(std::make_unique<call>(std::forward<Function>(function),
                                                   std::forward<Arguments>(arguments)...));
}

}  // namespace weft
