// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/awaitable.hpp>
#include <weft/detail/task/children.hpp>
#include <weft/detail/task/waiting_task.hpp>
#include <weft/task.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace weft::detail {

/// The first frame of a child. It awaits the task, so that the frame of that goes when it has
/// ended, with the arguments in it, and not when its siblings have: one of them may wait for what
/// the destructor of an argument does.
template <class T>
task<T> await_as_child(waiting_task<T> child) {
    co_return co_await child.take();
}

template <class T>
std::coroutine_handle<> first_frame_of(task<T>& child) {
    return await_as_child<T>(waiting_task<T>(std::move(child))).release_frame();
}

/// A fixed number of children, in the awaiter itself.
template <std::size_t Count>
class held_tuple {
public:
    template <class... Ts>
    explicit held_tuple(std::tuple<task<Ts>...>&& tasks) {
        std::apply(
            [this](auto&... each) {
                // Before any frame changes its owner.
                if (!(static_cast<bool>(each) && ...)) { throw_empty_task(); }
                std::size_t index = 0;
                (children_[index++].own(first_frame_of(each)), ...);
            },
            tasks);
    }

    std::span<awaited_child> all() noexcept { return children_; }
    awaited_child& at(std::size_t index) noexcept { return children_[index]; }

private:
    std::array<awaited_child, Count> children_;
};

/// Any number of children.
class held_range {
public:
    template <class T>
    explicit held_range(std::vector<task<T>>&& tasks)
        : children_(std::make_unique<awaited_child[]>(tasks.size())), count_(tasks.size()) {
        for (const task<T>& each : tasks) {
            if (!each) { throw_empty_task(); }
        }
        for (std::size_t i = 0; i < count_; ++i) { children_[i].own(first_frame_of(tasks[i])); }
    }

    std::span<awaited_child> all() noexcept { return {children_.get(), count_}; }
    awaited_child& at(std::size_t index) noexcept { return children_[index]; }

private:
    std::unique_ptr<awaited_child[]> children_;
    std::size_t count_;
};

/// How the value of a child is kept in a container.
template <class T>
using element_value =
    std::conditional_t<std::is_reference_v<T>, std::reference_wrapper<std::remove_reference_t<T>>,
                       kept_value<T>>;

/// Takes the value of a child, if it gave one.
template <class T>
std::optional<element_value<T>> take_if_there(awaited_child& from) {
    if (!from.gave_value()) { return std::nullopt; }
    return take_kept<T>(from);
}

/// What is taken of an element: out of a container that is given as an rvalue it is moved.
template <class Range>
using taken_element =
    std::conditional_t<std::is_lvalue_reference_v<Range>, std::ranges::range_reference_t<Range>,
                       std::ranges::range_rvalue_reference_t<Range>>;

template <class Range>
concept range_of_awaitables = awaitable<kept_awaitable<taken_element<Range>>>;

template <class Range>
using range_child_value = child_value<taken_element<Range>>;

/// A task of each element.
template <class Range>
auto tasks_of(Range&& range) {
    using value = range_child_value<Range>;
    if constexpr (std::same_as<Range, std::vector<task<value>>>) {
        return std::move(range);
    } else {
        std::vector<task<value>> tasks;
        if constexpr (std::ranges::sized_range<Range>) { tasks.reserve(std::ranges::size(range)); }
        const auto end = std::ranges::end(range);
        for (auto at = std::ranges::begin(range); at != end; ++at) {
            if constexpr (std::is_lvalue_reference_v<Range>) {
                tasks.push_back(into_task(*at));
            } else {
                tasks.push_back(into_task(std::ranges::iter_move(at)));
            }
        }
        return tasks;
    }
}

}  // namespace weft::detail
