// SPDX-License-Identifier: MIT
#include <weft/statistics.hpp>

#include "support/backends.hpp"
#include "support/catch.hpp"
#include "support/nothing.hpp"
#include "support/scheduler.hpp"

#include <weft/runtime.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/yield.hpp>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using weft::test::nothing;

namespace {

weft::task<> spawn_and_join(int count) {
    for (int i = 0; i < count; ++i) co_await weft::co_spawn(nothing());
}

std::uint64_t ended(const weft::runtime_statistics& statistics) {
    std::uint64_t sum = 0;
    for (const auto& each : statistics.processors) sum += each.ended;
    return sum;
}

}  // namespace

TEST_CASE("sums of counters that nobody has counted are zero", "[statistics]") {
    const weft::runtime_statistics statistics;
    CHECK(statistics.tasks_spawned() == 0);
    CHECK(statistics.tasks_alive() == 0);
}

TEST_CASE("alive are those that were spawned and have not ended, wherever that was",
          "[statistics]") {
    weft::runtime_statistics statistics;
    statistics.spawned_outside = 5;
    statistics.processors = {{.spawned = 10, .ended = 1}, {.spawned = 0, .ended = 12}};
    CHECK(statistics.tasks_spawned() == 15);
    CHECK(statistics.tasks_alive() == 2);
}

TEST_CASE("each task is counted once when it is spawned and once when it ends", "[statistics]") {
    weft::runtime runtime({.processors = 3});
    CHECK(runtime.statistics().processors.size() == 3);
    CHECK(runtime.statistics().tasks_spawned() == 0);
    for (int i = 0; i < 4; ++i) runtime.co_spawn(spawn_and_join(100)).get();
    const weft::runtime_statistics statistics = runtime.statistics();
    CHECK(statistics.spawned_outside == 4);
    CHECK(statistics.tasks_spawned() == 404);
    CHECK(ended(statistics) == 404);
    CHECK(statistics.tasks_alive() == 0);
}

TEST_CASE("a task that waits is alive, and its runs are counted one by one", "[statistics]") {
    auto main = []() -> weft::task<> {
        const auto before = weft::this_runtime::statistics();
        auto sleeper = weft::co_spawn([]() -> weft::task<> { co_await weft::sleep_for(1h); });
        co_await weft::yield();  // The sleeper runs, and goes to sleep.
        const auto during = weft::this_runtime::statistics();
        sleeper.request_stop();
        co_await weft::yield();  // It runs again, to its end.
        const auto after = weft::this_runtime::statistics();
        const bool has_ended = sleeper.done();
        std::move(sleeper).detach();
        CHECK(before.tasks_alive() == 1);
        CHECK(during.tasks_alive() == 2);
        // The sleeper's first run, and the one that goes on after the yield.
        CHECK(during.processors[0].tasks_run == before.processors[0].tasks_run + 2);
        CHECK(has_ended);
        CHECK(after.tasks_alive() == 1);
        CHECK(after.processors[0].tasks_run == during.processors[0].tasks_run + 2);
    };
    const weft::test::held_slice_clock clock;
    weft::run(main(), {.processors = 1});
}

TEST_CASE("timers that fire and sleeps of the worker are counted", "[statistics]") {
    auto main = []() -> weft::task<weft::runtime_statistics> {
        for (int i = 0; i < 5; ++i) co_await weft::sleep_for(200us);
        co_return weft::this_runtime::statistics();
    };
    const weft::runtime_statistics statistics = weft::run(main(), {.processors = 1});
    CHECK(statistics.processors[0].timers == 5);
    CHECK(statistics.processors[0].parks >= 1);
    CHECK(statistics.processors[0].steals == 0);
}

TEST_CASE("the netpoller that serves is named, and processors() counts the workers",
          "[statistics]") {
    for (const char* backend : weft::test::backends()) {
        auto main = []() -> weft::task<std::string> {
            const auto statistics = weft::this_runtime::statistics();
            co_return statistics.netpoller + " " + std::to_string(weft::this_runtime::processors());
        };
        CHECK(weft::test::run_on(backend, main(), 3) == std::string(backend) + " 3");
    }
}

TEST_CASE("outside a task there is no runtime to ask", "[statistics]") {
    CHECK_THROWS_AS(weft::this_runtime::statistics(), std::logic_error);
    CHECK_THROWS_AS(weft::this_runtime::processors(), std::logic_error);
}
