// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scale.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <functional>

// Programs that would keep others from running, or grow without bound, on a naive scheduler.

using namespace std::chrono_literals;

namespace {

struct respawning {
    std::atomic<bool> ended{false};
    std::atomic<std::uint64_t> spawned{0};
};

/// Spawns its successor and ends; the successor goes to runnext, before everybody else.
weft::task<> spawn_the_other(respawning& state) {
    ++state.spawned;
    if (!state.ended) weft::co_spawn(spawn_the_other, std::ref(state)).detach();
    co_return;
}

}  // namespace

TEST_CASE("fault 37: tasks that keep spawning each other through runnext let others run",
          "[faults]") {
    respawning state;
    auto main = [&]() -> weft::task<std::uint64_t> {
        weft::co_spawn(spawn_the_other, std::ref(state)).detach();
        std::uint64_t turns = 0;
        for (; turns < 1000; ++turns) co_await weft::yield();
        const std::uint64_t spawned = state.spawned;
        state.ended = true;
        co_return spawned;
    };
    const std::uint64_t spawned = weft::run(main(), {.processors = 1});
    // Each yield lets at most a chain of 64 run, and at least one of it.
    CHECK(spawned >= 100);
    CHECK(spawned <= 1001 * 65);
}

TEST_CASE("fault 37: a sleeper wakes beside tasks that keep spawning each other", "[faults]") {
    respawning state;
    auto main = [&]() -> weft::task<> {
        weft::co_spawn(spawn_the_other, std::ref(state)).detach();
        for (int i = 0; i < 20; ++i) co_await weft::sleep_for(100us);
        state.ended = true;
    };
    const auto began = std::chrono::steady_clock::now();
    weft::run(main(), {.processors = 1});
    CHECK(std::chrono::steady_clock::now() - began < 20s);
}

TEST_CASE("fault 42: spawn storm from one task", "[faults]") {
    const std::size_t count = weft::test::scaled_count(1'000'000, 10'000'000);
    for (const unsigned processors : {1U, 2U}) {
        std::atomic<std::uint64_t> ran{0};
        auto one = [](std::atomic<std::uint64_t>& counter) -> weft::task<> {
            counter.fetch_add(1, std::memory_order_relaxed);
            co_return;
        };
        auto main = [&]() -> weft::task<std::uint64_t> {
            // Never suspends meanwhile: half rings move to the global queue.
            for (std::size_t i = 0; i < count; ++i) weft::co_spawn(one(ran)).detach();
            while (weft::this_runtime::statistics().tasks_alive() != 1) {
                co_await weft::sleep_for(1ms);
            }
            std::uint64_t overflows = 0;
            for (const auto& each : weft::this_runtime::statistics().processors) {
                overflows += each.overflows;
            }
            co_return overflows;
        };
        const std::uint64_t overflows =
            weft::run(main(), {.processors = processors, .compensate = false});
        CHECK(ran == count);
        // With one processor nothing is taken meanwhile: all but a ring goes in halves and the
        // branch that was kicked.
        if (processors == 1) CHECK(overflows >= (count - 257) / 129);
    }
}
