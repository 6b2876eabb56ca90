// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/awaitable.hpp>
#include <weft/detail/task/first_awaiter.hpp>
#include <weft/task.hpp>

#include <cstddef>
#include <ranges>
#include <utility>

namespace weft {

/// What when_any() gives.
template <class Values>
struct when_any_result {
    /// Which one ended first.
    std::size_t index = 0;
    /// A std::tuple, or for a range a std::vector, of std::optional: what each has given. That of
    /// `index` is there. Others are empty, but for those that had a value in spite of the stop. A
    /// reference is a std::reference_wrapper, and nothing is std::monostate.
    Values values;
};

/// What race() gives.
template <class Values, class Failures>
struct race_result {
    /// Which one was first to give a value.
    std::size_t index = 0;
    /// As in when_any_result.
    Values values;
    /// A std::array, or for a range a std::vector, of std::exception_ptr: how each has failed; null
    /// for one that gave a value or never started.
    Failures failures;
};

/// `co_await when_any(a(), b())` runs tasks, and whatever else can be awaited, side by side in a
/// scope of their own, and stops that as soon as one of them ends, in whichever way. Gives which
/// one that was, with its value, or throws its exception.
///
///     auto got = co_await weft::when_any(answer.recv(), weft::sleep_for(1s));
///     if (got.index == 0) use(*std::get<0>(got.values));
///
/// It returns only when all have ended: what ignores a stop (a loop without a suspension, a running
/// blocking call) delays it. A value that arrives after the stop is returned with the others, not
/// lost, unless the first one has failed. One that has not started when the first one ends never
/// does. Failures of others go to runtime_options::on_failure as suppressed, unless they come from
/// the stop. A stop from outside stops all of them.
///
/// Each is a branch of the calling task, which resumes on the worker on which the last one ended.
/// For receives and sends of channels use select(), which never takes a value that it does not
/// give. Throws std::bad_alloc, and std::logic_error for an empty task, before any has started.
///
/// Tasks are moved in. Other awaitables are moved or copied as by with_timeout().
template <class... Given>
    requires(sizeof...(Given) != 0 && (detail::awaitable<detail::kept_awaitable<Given>> && ...))
auto when_any(Given&&... children) {
    using of = detail::fixed_children<detail::child_value<Given>...>;
    using result = when_any_result<typename of::values>;
    return detail::first_in_scope<of, result, detail::first_rule::end>(
        typename of::tasks(detail::into_task(std::forward<Given>(children))...));
}

/// The same for a range of tasks, or of other awaitables, that are all of one type. Throws
/// std::invalid_argument for an empty one, of which nothing would ever end.
template <std::ranges::input_range Range>
    requires(!detail::awaitable<Range> && detail::range_of_awaitables<Range>)
auto when_any(Range&& children) {
    using of = detail::ranged_children<detail::range_child_value<Range>>;
    using result = when_any_result<typename of::values>;
    auto tasks = detail::tasks_of(std::forward<Range>(children));
    if (tasks.empty()) { detail::throw_no_children(); }
    return detail::first_in_scope<of, result, detail::first_rule::end>(std::move(tasks));
}

/// As when_any(), but a failure does not end it: the first one that gives a value stops the others.
/// For several ways to one goal, such as the addresses of a host. How others have failed is in the
/// result; where none gives a value, the exception of the first one in order is thrown, and those
/// of the others go to runtime_options::on_failure as suppressed.
template <class... Given>
    requires(sizeof...(Given) != 0 && (detail::awaitable<detail::kept_awaitable<Given>> && ...))
auto race(Given&&... children) {
    using of = detail::fixed_children<detail::child_value<Given>...>;
    using result = race_result<typename of::values, typename of::failures>;
    return detail::first_in_scope<of, result, detail::first_rule::value>(
        typename of::tasks(detail::into_task(std::forward<Given>(children))...));
}

/// The same for a range, as when_any().
template <std::ranges::input_range Range>
    requires(!detail::awaitable<Range> && detail::range_of_awaitables<Range>)
auto race(Range&& children) {
    using of = detail::ranged_children<detail::range_child_value<Range>>;
    using result = race_result<typename of::values, typename of::failures>;
    auto tasks = detail::tasks_of(std::forward<Range>(children));
    if (tasks.empty()) { detail::throw_no_children(); }
    return detail::first_in_scope<of, result, detail::first_rule::value>(std::move(tasks));
}

}  // namespace weft
