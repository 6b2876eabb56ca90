// SPDX-License-Identifier: MIT
#include <weft/spawn.hpp>

#include "support/catch.hpp"

#include <weft/as_result.hpp>
#include <weft/runtime.hpp>
#include <weft/sleep.hpp>
#include <weft/this_task.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <vector>

using namespace std::chrono_literals;

namespace {

weft::task<int> add(int a, int b) {
    co_await weft::yield();
    co_return a + b;
}

}  // namespace

TEST_CASE("a handle gives the result of its task", "[spawn]") {
    for (unsigned processors : {1U, 2U, 4U}) {
        auto main = []() -> weft::task<int> {
            std::vector<weft::join_handle<int>> handles;
            for (int i = 0; i < 1000; ++i) {
                handles.push_back(weft::co_spawn(add, i, 1));
            }
            int sum = 0;
            for (auto& each : handles) {
                sum += co_await each;
            }
            co_return sum;
        };
        CHECK(weft::run(main(), {.processors = processors}) == 999 * 1000 / 2 + 1000);
    }
}

static_assert(std::is_same_v<weft::join_handle<>, weft::join_handle<void>>);

TEST_CASE("a stopped sleeper throws operation_canceled", "[spawn]") {
    auto sleeper = []() -> weft::task<> { co_await weft::sleep_for(1h); };
    auto main = [&]() -> weft::task<bool> {
        auto handle = weft::co_spawn(sleeper());
        co_await weft::sleep_for(1ms);
        handle.request_stop();
        auto result = co_await weft::as_result(std::move(handle));
        co_return !result && result.error() == std::errc::operation_canceled;
    };
    CHECK(weft::run(main(), {.processors = 2}));
}

TEST_CASE("a timeout ends a sleep and leaves the scope usable", "[timeout]") {
    auto main = [&]() -> weft::task<bool> {
        auto late = co_await weft::as_result(weft::with_timeout(2ms, weft::sleep_for(1h)));
        auto in_time = co_await weft::as_result(weft::with_timeout(1h, weft::sleep_for(1ms)));
        co_await weft::sleep_for(1us);
        co_return !late && late.error() == std::errc::timed_out && in_time.has_value();
    };
    CHECK(weft::run(main(), {.processors = 1}));
}

TEST_CASE("threads outside spawn and wait", "[runtime]") {
    weft::runtime runtime({.processors = 2});
    std::vector<std::thread> threads;
    std::atomic<int> sum{0};
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 200; ++i) {
                sum += runtime.co_spawn(add, i, 0).get();
            }
        });
    }
    for (auto& each : threads) {
        each.join();
    }
    CHECK(sum == 4 * 199 * 200 / 2);
    CHECK(runtime.statistics().tasks_alive() == 0);
}

TEST_CASE("a handle in a variable keeps its task when the wait for it ends early", "[spawn]") {
    auto main = []() -> weft::task<int> {
        auto handle = weft::co_spawn([]() -> weft::task<int> {
            co_await weft::sleep_for(20ms);
            co_return 7;
        }());
        const auto early = co_await weft::as_result(weft::with_timeout(1ms, handle));
        if (early || early.error() != std::errc::timed_out || !handle) co_return -1;
        const auto whole = co_await weft::as_result(handle);
        co_return whole ? *whole : -2;
    };
    CHECK(weft::run(main(), {.processors = 1}) == 7);
}
