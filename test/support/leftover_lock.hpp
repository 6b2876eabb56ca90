// SPDX-License-Identifier: MIT
#pragma once

// What the tests of locks share about runtimes that end while their tasks hold a lock, or wait for
// it.

#include "support/one_processor.hpp"

#include <weft/as_result.hpp>
#include <weft/runtime.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/task.hpp>
#include <weft/yield.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace weft::test {

/// What the tasks of a runtime that ends leave behind: one owns a lock, others use it. `Use` takes
/// the lock, and gives what is to be awaited for a guard.
template <class Lock>
struct leftover_lock {
    std::unique_ptr<Lock> lock = std::make_unique<Lock>();
    Lock* used = nullptr;

    task<> own() {
        const std::unique_ptr<Lock> mine = std::move(lock);
        used = mine.get();
        for (;;) co_await as_result(sleep_for(std::chrono::hours(1)));
    }
    template <class Use>
    task<> hold(Use use) {
        while (used == nullptr) co_await yield();
        const auto held = co_await as_result(use(*used));
        for (;;) co_await as_result(sleep_for(std::chrono::hours(1)));
    }
    template <class Use>
    task<> wait(Use use) {
        while (used == nullptr) co_await yield();
        for (;;) const auto held = co_await as_result(use(*used));
    }
};

/// Ends a runtime in which `use(leftover)` spawns those who use a lock, before or after its owner:
/// they are destroyed in that order. True: the lock was used.
template <class Lock, class Use>
bool leave_behind(bool owner_first, Use use) {
    leftover_lock<Lock> all;
    const auto main = [](leftover_lock<Lock>& left, bool first, Use& others) -> task<> {
        if (first) co_spawn(left.own()).detach();
        others(left);
        if (!first) co_spawn(left.own()).detach();
        for (int i = 0; i < 3; ++i) co_await let_others_run();
    };
    run(main(all, owner_first, use),
        {.processors = 1, .shutdown_grace = std::chrono::nanoseconds(0)});
    return all.used != nullptr;
}

/// Runtimes end, `rounds` times, while tasks of another one go on with what they have in common:
/// `all.over` ends those, which count in `all.sections`. `take_part(who, counts)` is a task.
template <class Account, class TakePart>
void outlast_runtimes(Account& all, int rounds, TakePart take_part) {
    runtime lasting({.processors = 2});
    std::vector<join_handle<void>> tasks;
    for (int who = 0; who < 4; ++who) tasks.push_back(lasting.co_spawn(take_part(who, true)));
    const auto see = [&all](std::uint64_t more) {
        const std::uint64_t until = all.sections + more;
        while (all.sections < until) std::this_thread::sleep_for(std::chrono::microseconds(100));
    };
    for (int round = 0; round < rounds; ++round) {
        runtime ending({.processors = 2, .shutdown_grace = std::chrono::nanoseconds(0)});
        for (int who = 0; who < 6; ++who) ending.co_spawn(take_part(who, false)).detach();
        see(10);
    }
    see(10);
    all.over = true;
    for (join_handle<void>& each : tasks) each.get();
}

}  // namespace weft::test
