// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scheduler.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <thread>
#include <vector>

// Faults of a runtime that threads outside use.

namespace {

weft::task<int> give(int value) {
    co_return value;
}

}  // namespace

// The end of a task was counted after its waiter had been told.
TEST_CASE("regress: a task that was waited for counts as ended", "[regress]") {
    weft::runtime runtime({.processors = 2});
    const std::size_t rounds = weft::test::scaled_count(20'000, 200'000);
    for (std::size_t i = 0; i < rounds; ++i) {
        runtime.co_spawn(give(1)).get();
        REQUIRE(runtime.statistics().tasks_alive() == 0);
    }
}

// Two threads joined the same threads.
TEST_CASE("regress: two threads may shut a runtime down at one time", "[regress]") {
    for (int round = 0; round < 50; ++round) {
        weft::runtime runtime({.processors = 4});
        std::atomic<int> waiting{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < 3; ++i) {
            threads.emplace_back([&] {
                ++waiting;
                weft::test::spin_until([&] { return waiting == 3; });
                runtime.shutdown();
            });
        }
        for (auto& each : threads) { each.join(); }
    }
    SUCCEED();
}
