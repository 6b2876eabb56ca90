// SPDX-License-Identifier: MIT
#pragma once

#include "support/scheduler.hpp"

#include <weft/runtime.hpp>
#include <weft/task.hpp>
#include <weft/yield.hpp>

#include <utility>

namespace weft::test {

/// Runs a task, and those that it spawns, on one thread, one after the other: however long a task
/// keeps its worker, none runs in its place.
template <class Task>
auto run_alone(Task made) {
    return run(std::move(made), {.processors = 1, .compensate = false});
}

/// Gives the others some turns, also where they never come to rest.
inline task<> let_others_run() {
    for (int i = 0; i < 4; ++i) co_await yield();
}

/// Comes back when no other task of the runtime can go on: each waits for something, or has ended.
/// For tasks in run_alone(), or in a runtime of the same options. One yield
/// is not enough for that, since on a busy machine the time slice of the caller may end, and it is
/// put before others.
inline task<> settle() {
    do {
        co_await yield();
    } while (this_worker().p.queue.size() != 0 || this_core().global.size() != 0);
}

}  // namespace weft::test
