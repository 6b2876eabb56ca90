// SPDX-License-Identifier: MIT
//
// The waits of when_any and race: children in a scope of their own, which the first one stops.
#pragma once

#include <weft/detail/task/cancel_scope.hpp>
#include <weft/detail/task/children.hpp>
#include <weft/detail/task/held_children.hpp>
#include <weft/task.hpp>

#include <array>
#include <cstddef>
#include <exception>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace weft::detail {

/// Children of different types: a tuple of what they gave.
template <class... Ts>
struct fixed_children {
    using tasks = std::tuple<task<Ts>...>;
    using held = held_tuple<sizeof...(Ts)>;
    using values = std::tuple<std::optional<element_value<Ts>>...>;
    using failures = std::array<std::exception_ptr, sizeof...(Ts)>;

    static values take(held& from) { return take(from, std::index_sequence_for<Ts...>()); }
    static failures take_failures(held& from) {
        failures taken;
        for (std::size_t i = 0; i < sizeof...(Ts); ++i) { taken[i] = from.at(i).failure(); }
        return taken;
    }

private:
    template <std::size_t... Index>
    static values take(held& from, std::index_sequence<Index...>) {
        return {take_if_there<Ts>(from.at(Index))...};
    }
};

/// Any number of children of one type: a vector.
template <class T>
struct ranged_children {
    using tasks = std::vector<task<T>>;
    using held = held_range;
    using values = std::vector<std::optional<element_value<T>>>;
    using failures = std::vector<std::exception_ptr>;

    static values take(held& from) {
        values taken;
        taken.reserve(from.all().size());
        for (awaited_child& each : from.all()) { taken.push_back(take_if_there<T>(each)); }
        return taken;
    }
    static failures take_failures(held& from) {
        failures taken;
        taken.reserve(from.all().size());
        for (const awaited_child& each : from.all()) { taken.push_back(each.failure()); }
        return taken;
    }
};

/// Result has `index`, `values` and, for race, `failures`.
template <class Children, class Result, first_rule Rule>
class [[nodiscard]] first_awaiter final : public children_awaiter {
public:
    explicit first_awaiter(typename Children::tasks&& tasks)
        : children_awaiter(Rule), held_(std::move(tasks)) {
        this->hold(held_.all());
    }

    Result await_resume() {
        this->check_resumed_by_weft();
        awaited_child& came_first = choose();
        const auto index = static_cast<std::size_t>(&came_first - held_.all().data());
        if constexpr (Rule == first_rule::end) {
            this->report_suppressed(&came_first);
            came_first.rethrow();
            return {index, Children::take(held_)};
        } else {
            if (!came_first.gave_value()) {
                this->report_suppressed(&came_first);
                came_first.rethrow();
            }
            return {index, Children::take(held_), Children::take_failures(held_)};
        }
    }

private:
    /// Where nobody came first, none has started, or none has given a value: the first in order.
    awaited_child& choose() {
        awaited_child* const found = this->first();
        return found != nullptr ? *found : held_.at(0);
    }

    typename Children::held held_;
};

/// Opens the scope of the children and awaits them.
template <class Children, class Result, first_rule Rule>
task<Result> first_in_scope(typename Children::tasks tasks) {
    const cancel_scope scope;
    co_return co_await first_awaiter<Children, Result, Rule>(std::move(tasks));
}

/// There must be one.
[[noreturn]] void throw_no_children();

}  // namespace weft::detail
