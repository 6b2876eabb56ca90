// SPDX-License-Identifier: MIT
#include <weft/latch.hpp>

#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/one_processor.hpp"
#include "support/watchdog.hpp"

#include <weft/as_result.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using weft::latch;
using weft::test::run_alone;

namespace {

/// On one thread, whatever the machine does meanwhile.
weft::task<std::error_code> wait_as_result(latch& awaited) {
    const auto waited = co_await weft::as_result(awaited.wait());
    co_return waited ? std::error_code() : waited.error();
}

weft::task<std::error_code> arrive_as_result(latch& awaited) {
    const auto waited = co_await weft::as_result(awaited.arrive_and_wait());
    co_return waited ? std::error_code() : waited.error();
}

}  // namespace

TEST_CASE("a latch opens when it has been counted down to zero, and stays open") {
    const auto main = []() -> weft::task<> {
        latch opens(5);
        CHECK_FALSE(opens.try_wait());
        auto waiting = weft::co_spawn(wait_as_result, std::ref(opens));
        opens.count_down();
        opens.count_down(3);
        co_await weft::test::settle();
        CHECK_FALSE(opens.try_wait());
        CHECK_FALSE(waiting.done());
        opens.count_down();
        CHECK(opens.try_wait());
        CHECK_FALSE(waiting.done());  // Not inside count_down().
        const std::error_code error = co_await std::move(waiting);
        CHECK_FALSE(error);
        co_await opens.wait();
        latch open(0);
        co_await open.wait();
        co_await open.arrive_and_wait(0);
    };
    run_alone(main());
}

TEST_CASE("those who arrive at a latch wait for each other") {
    const auto main = []() -> weft::task<> {
        for (int round = 0; round < 300; ++round) {
            auto opens = std::make_unique<latch>(4);
            std::vector<weft::join_handle<std::error_code>> tasks;
            for (int i = 0; i < 3; ++i) {
                tasks.push_back(weft::co_spawn(arrive_as_result, std::ref(*opens)));
            }
            co_await opens->arrive_and_wait();
            CHECK(opens->try_wait());
            for (auto& each : tasks) {
                const std::error_code error = co_await std::move(each);
                CHECK_FALSE(error);
            }
        }
    };
    for (const unsigned processors : {1U, 2U}) weft::run(main(), {.processors = processors});
}

TEST_CASE("one who is stopped at a latch has arrived all the same") {
    const auto main = []() -> weft::task<> {
        latch opens(3);
        auto waiting = weft::co_spawn(arrive_as_result, std::ref(opens));
        co_await weft::test::settle();
        waiting.request_stop();
        const std::error_code stopped = co_await std::move(waiting);
        CHECK(stopped == std::errc::operation_canceled);
        // Also where the scope was stopped before.
        const auto late =
            co_await weft::as_result(weft::with_timeout(0ms, opens.arrive_and_wait()));
        REQUIRE_FALSE(late);
        CHECK(late.error() == std::errc::timed_out);
        const auto waited = co_await weft::as_result(weft::with_timeout(1ms, opens.wait()));
        CHECK_FALSE(waited);
        co_await opens.arrive_and_wait();
        CHECK(opens.try_wait());
    };
    run_alone(main());
}

TEST_CASE("a latch that is counted down below zero is an assertion, or open") {
    const auto exceed = [] {
        latch opens(1);
        opens.count_down(2);
        return opens.try_wait();
    };
#ifdef NDEBUG
    CHECK(exceed());
#else
    const auto child = weft::test::run_in_child([&] { exceed(); });
    INFO(child.describe());
    CHECK(child.aborted_with("was counted down below zero"));
#endif
}

TEST_CASE("threads outside count a latch down") {
    const weft::test::watchdog dog(60s, [] { return std::string(); });
    latch opens(3);
    weft::runtime runtime({.processors = 1});
    auto waiting = runtime.co_spawn(wait_as_result, std::ref(opens));
    std::vector<std::thread> outside;
    for (int i = 0; i < 3; ++i) {
        outside.emplace_back(
            [&opens, held = weft::runtime::guard(runtime)] { opens.count_down(); });
    }
    CHECK_FALSE(waiting.get());
    for (auto& each : outside) each.join();
}
