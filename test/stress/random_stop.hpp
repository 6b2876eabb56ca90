// SPDX-License-Identifier: MIT
#pragma once

// What storms do with their tasks: they run some as tasks of their own, and others as branches of
// one, and stop them at any point.

#include <weft/as_result.hpp>
#include <weft/blocking.hpp>
#include <weft/spawn.hpp>
#include <weft/task.hpp>
#include <weft/task_group.hpp>
#include <weft/when_all.hpp>
#include <weft/when_any.hpp>
#include <weft/yield.hpp>

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

namespace weft::test {

inline task<> yield_some(unsigned count) {
    for (; count != 0; --count) co_await yield();
}

/// As a task, which this one or a thread outside stops.
inline task<> stop_as_task(task<> stopped, unsigned yields, bool stops, bool by_thread) {
    join_handle<void> handle = co_spawn(std::move(stopped));
    co_await yield_some(yields);
    if (stops && by_thread) {
        co_await blocking([&handle] { handle.request_stop(); });
    } else if (stops) {
        handle.request_stop();
    }
    // One that was stopped before it started is destroyed, and throws.
    static_cast<void>(co_await as_result(std::move(handle)));
}

/// As the child of a group, whose body stops it.
inline task<> stop_in_group(task<> stopped, unsigned yields, bool stops) {
    co_await with_task_group([&](task_group& group) -> task<> {
        group.spawn(std::move(stopped));
        co_await yield_some(yields);
        if (stops) group.request_stop();
    });
}

struct random_stop_options {
    /// The stop comes after fewer turns of the others than this.
    unsigned longest = 32;
    /// For a task that ends by a stop alone. Else half of them are left to their end.
    bool always = false;
};

/// Runs a task, and stops it at a random point, or not at all: as a task of its own, in a group, or
/// beside another branch that ends first. It must know itself how it has ended. One that is stopped
/// before it has started never does.
inline task<> with_random_stop(task<> stopped, std::minstd_rand& random,
                               random_stop_options options = {}) {
    const unsigned yields = static_cast<unsigned>(random() % options.longest);
    const bool stops = options.always || random() % 2 == 0;
    switch (random() % 3) {
    case 0: {
        // A thread outside costs much more than the other ways.
        const bool by_thread = random() % 16 == 0;
        co_await stop_as_task(std::move(stopped), yields, stops, by_thread);
        break;
    }
    case 1: {
        co_await stop_in_group(std::move(stopped), yields, stops);
        break;
    }
    default: {
        if (stops) {
            static_cast<void>(co_await when_any(std::move(stopped), yield_some(yields)));
        } else {
            co_await when_all(std::move(stopped), yield_some(yields));
        }
    }
    }
}

/// Runs them side by side until all have ended: some as tasks of their own, others as branches of
/// the caller, in a group and in a when_all.
inline task<> side_by_side(std::vector<task<>> parties) {
    std::vector<join_handle<void>> tasks;
    std::vector<task<>> branches;
    co_await with_task_group([&](task_group& group) -> task<> {
        for (std::size_t i = 0; i < parties.size(); ++i) {
            switch (i % 4) {
            case 0: group.spawn(std::move(parties[i])); break;
            case 1: branches.push_back(std::move(parties[i])); break;
            default: tasks.push_back(co_spawn(std::move(parties[i])));
            }
        }
        co_await when_all(std::move(branches));
    });
    for (join_handle<void>& each : tasks) co_await std::move(each);
}

}  // namespace weft::test
