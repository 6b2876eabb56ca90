// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>

using namespace std::chrono_literals;

// A task may meet the end of its runtime, by a spawn that is refused, before it was asked to stop
// itself. The exception that leaves it then was reported as a failure and ended the process.
TEST_CASE("regress: a refused spawn ends a detached task without a report", "[regress]") {
    std::atomic<int> failures{0};
    auto spawner = []() -> weft::task<> {
        for (;;) {
            co_await weft::co_spawn([]() -> weft::task<> { co_return; });
        }
    };
    for (int round = 0; round < 300; ++round) {
        auto main = [&]() -> weft::task<> {
            for (int i = 0; i < 3; ++i) weft::co_spawn(spawner()).detach();
            co_await weft::sleep_for(std::chrono::microseconds(round));
        };
        weft::run(main(), {.processors = 3,
                           .shutdown_grace = 0s,
                           .on_failure = [&](const weft::task_failure&) { ++failures; }});
    }
    CHECK(failures == 0);
}
