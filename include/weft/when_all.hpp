// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/awaitable.hpp>
#include <weft/detail/task/children.hpp>
#include <weft/detail/task/held_children.hpp>
#include <weft/task.hpp>

#include <concepts>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace weft {

namespace detail {

/// The wait for a fixed number of children; gives a tuple, or nothing where none gives a value.
template <class... Ts>
class [[nodiscard]] when_all_awaiter final : public children_awaiter {
public:
    explicit when_all_awaiter(std::tuple<task<Ts>...>&& tasks)
        : children_awaiter(first_rule::failure), held_(std::move(tasks)) {
        this->hold(held_.all());
    }

    auto await_resume() {
        this->check_resumed_by_weft();
        this->rethrow_first();
        if constexpr (!(std::is_void_v<Ts> && ...)) {
            return take(std::index_sequence_for<Ts...>());
        }
    }

private:
    template <std::size_t... Index>
    std::tuple<kept_value<Ts>...> take(std::index_sequence<Index...>) {
        return {take_kept<Ts>(held_.at(Index))...};
    }

    held_tuple<sizeof...(Ts)> held_;
};

/// The wait for any number of children of one type; gives a vector, or nothing.
template <class T>
class [[nodiscard]] when_all_range_awaiter final : public children_awaiter {
public:
    explicit when_all_range_awaiter(std::vector<task<T>>&& tasks)
        : children_awaiter(first_rule::failure), held_(std::move(tasks)) {
        this->hold(held_.all());
    }

    auto await_resume() {
        this->check_resumed_by_weft();
        this->rethrow_first();
        if constexpr (!std::is_void_v<T>) {
            std::vector<element_value<T>> values;
            values.reserve(held_.all().size());
            for (awaited_child& each : held_.all()) { values.emplace_back(each.take<T>()); }
            return values;
        }
    }

private:
    held_range held_;
};

/// What when_all() gives to be awaited, once. It can be moved.
template <class Awaiter, class Tasks>
class [[nodiscard]] children_request {
public:
    explicit children_request(Tasks tasks) noexcept : tasks_(std::move(tasks)) {}
    Awaiter operator co_await() && { return Awaiter(std::move(tasks_)); }

private:
    Tasks tasks_;
};

}  // namespace detail

/// `co_await when_all(a(), b())` runs tasks, and whatever else can be awaited, side by side, and
/// waits until all have ended. Gives a std::tuple of their values, in order, with std::monostate
/// for one that gives none; where none gives a value, it gives none either.
///
///     auto [page, size] = co_await weft::when_all(fetch(url), measure(url));
///
/// Each becomes a branch of the calling task, so it has its id, name and limits. They are queued on
/// this worker, the first one in front, and idle workers take the others. The task resumes on the
/// worker on which the last one ended.
///
/// It returns only when all have ended. No scope is opened: a stop of the scope around it stops
/// all of them, and one that has not started by then never does, and counts as failed with
/// operation_canceled (or timed_out). One that fails does not stop its siblings; see task_group for
/// that. When all have ended, the exception of the one that failed first is thrown, and values are
/// destroyed; those of others that failed go to runtime_options::on_failure as suppressed, unless
/// they come from a stop. Throws std::bad_alloc, and std::logic_error for an empty task, before any
/// has started.
///
/// Tasks are moved in. Other awaitables are moved or copied as by with_timeout(): a join_handle in
/// a variable is used where it is.
template <class... Given>
    requires(detail::awaitable<detail::kept_awaitable<Given>> && ...)
auto when_all(Given&&... children) {
    using tasks = std::tuple<task<detail::child_value<Given>>...>;
    using awaiter = detail::when_all_awaiter<detail::child_value<Given>...>;
    return detail::children_request<awaiter, tasks>(
        tasks(detail::into_task(std::forward<Given>(children))...));
}

/// The same for a range of tasks, or of other awaitables, that are all of one type: gives a
/// std::vector of their values in order, with std::reference_wrapper for references, or nothing.
/// The elements are moved out of an rvalue, and out of a view; there may be none, or a million.
template <std::ranges::input_range Range>
    requires(!detail::awaitable<Range> && detail::range_of_awaitables<Range>)
auto when_all(Range&& children) {
    using value = detail::range_child_value<Range>;
    return detail::children_request<detail::when_all_range_awaiter<value>,
                                    std::vector<task<value>>>(
        detail::tasks_of(std::forward<Range>(children)));
}

}  // namespace weft
