// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/task/group.hpp>
#include <weft/detail/task/invoke_in_frame.hpp>
#include <weft/task.hpp>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace weft {

struct task_group_options {
    /// So many children at most run at once, those that wait for something included; the others
    /// start in the order of spawn() as these end. 0: any number. The body is not counted.
    std::size_t limit = 0;
};

class task_group;

namespace detail {

template <class Body>
concept group_body = task_function<Body, task_group&>;

template <group_body Body>
using group_value = typename std::invoke_result_t<Body, task_group&>::value_type;

template <class Body>
auto in_task_group(task_group_options options, Body body) -> task<group_value<Body>>;

}  // namespace detail

/// A scope whose children all end before it is left. with_task_group() opens it and gives it to its
/// body, so there is no other way out: the language has no destructor that could wait.
///
///     co_await weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
///         for (const auto& url : urls) group.spawn(fetch(url));
///         co_return;
///     });
///
/// Children are branches of the calling task, so they have its id, name and limits. They may be
/// spawned by the body, by children, and by whatever these await, as long as one of them has not
/// ended.
///
/// Others of the same runtime that were given the group, other tasks or branches outside of its
/// scope, may spawn into it as well, if they know that the body, or a child, does not end before
/// spawn() returns: since it waits for them, say. Such a child is one of the group all the same: a
/// branch of the task that opened the group and not of the one that spawns it. A stop of the
/// spawner's scope does not reach it, one of the group's scope does, and its failure is the
/// group's. Threads outside, and tasks of other runtimes, may not.
///
/// The first exception that leaves a child, or the body, stops the scope: what the others wait for,
/// and what they start to wait for, throws operation_canceled. When all have ended that exception
/// comes out of with_task_group(); those of others that fail go to runtime_options::on_failure as
/// suppressed, unless they come from the stop.
class task_group {
public:
    task_group(const task_group&) = delete;
    task_group& operator=(const task_group&) = delete;

    /// Starts a child beside the caller, which runs on: the child goes into this worker's runnext,
    /// and an idle worker is woken if none searches. At the limit it starts when others have ended.
    /// Where the scope has been stopped by the time the child would start, it never does. What a
    /// child computes goes where the body can see it, by reference; see when_all() for values.
    ///
    /// Throws std::bad_alloc, and std::logic_error for an empty task; none is started then.
    void spawn(task<> child) {
        if (!child) { detail::throw_empty_task(); }
        launch(std::move(child));
    }

    /// Calls `function(arguments...)`, which gives a task<>, and starts that. The callable and the
    /// arguments are moved into the frame of the child, so a lambda with captures is safe here.
    template <class Function, class... Arguments>
        requires detail::task_function<std::decay_t<Function>, std::decay_t<Arguments>...>
    void spawn(Function&& function, Arguments&&... arguments) {
        launch(detail::invoke_in_frame<std::decay_t<Function>, std::decay_t<Arguments>...>(
            std::forward<Function>(function), std::forward<Arguments>(arguments)...));
    }

    /// Stops the scope, the body included: for children that would run on for ever. A child that
    /// ends by that stop has not failed. The body's next await throws operation_canceled, as any in
    /// a stopped scope; a body that ends without one ends the group in peace. From any branch
    /// inside.
    void request_stop() noexcept { base_.stop(); }

    /// Has the scope been stopped, by a failure, from outside or by request_stop()?
    bool stop_requested() noexcept { return base_.stopped(); }

private:
    template <class Body>
    friend auto detail::in_task_group(task_group_options options, Body body)
        -> task<detail::group_value<Body>>;

    explicit task_group(const task_group_options& options) : base_(options.limit) {}

    void launch(task<> child) {
        const std::coroutine_handle<> frame =
            base_.with_values_of_spawner(std::move(child)).release_frame();
        try {
            base_.launch(frame);
        } catch (...) {
            detail::destroy_refused(frame);
            throw;
        }
    }

    detail::group_base base_;
};

namespace detail {

// The group is closed, and the body destroyed, before the caller goes on.
template <class Body>
auto in_task_group(task_group_options options, Body body) -> task<group_value<Body>> {
    using value = group_value<Body>;
    task_group group(options);
    if constexpr (std::is_void_v<value>) {
        try {
            co_await std::invoke(body, group);
        } catch (...) { group.base_.fail(std::current_exception()); }
        co_await group_awaiter(group.base_);
        group.base_.rethrow();
    } else {
        using kept = std::conditional_t<std::is_reference_v<value>, std::add_pointer_t<value>,
                                        std::optional<value>>;
        kept result{};
        try {
            if constexpr (std::is_reference_v<value>) {
                result = std::addressof(co_await std::invoke(body, group));
            } else {
                result.emplace(co_await std::invoke(body, group));
            }
        } catch (...) { group.base_.fail(std::current_exception()); }
        co_await group_awaiter(group.base_);
        group.base_.rethrow();
        if constexpr (std::is_reference_v<value>) {
            co_return *result;
        } else {
            co_return *std::move(result);
        }
    }
}

}  // namespace detail

/// Opens a task_group, calls `body(group)`, which gives a task, awaits that, and then all children.
/// Gives what the body gives, when the last child has ended, or throws the first exception that has
/// left the body or a child. The body runs as part of the calling branch, which resumes on the
/// worker on which the last child ended. The body is moved into the frame, so a lambda with
/// captures is safe here.
///
/// A stop of the scope around it stops body and children, and ends the wait only with them: what
/// ignores a stop (a loop without a suspension, a running blocking call) delays it.
template <detail::group_body Body>
auto with_task_group(Body body) -> task<detail::group_value<Body>> {
    return detail::in_task_group<Body>({}, std::move(body));
}

template <detail::group_body Body>
auto with_task_group(task_group_options options, Body body) -> task<detail::group_value<Body>> {
    return detail::in_task_group<Body>(options, std::move(body));
}

}  // namespace weft
