// SPDX-License-Identifier: MIT
#include <weft/blocking.hpp>

#include "support/call_gate.hpp"
#include "support/catch.hpp"
#include "support/watchdog.hpp"

#include <weft/as_result.hpp>
#include <weft/runtime.hpp>
#include <weft/sleep.hpp>
#include <weft/timeout.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using weft::test::call_gate;
using weft::test::until;

namespace {

weft::runtime_options quiet(unsigned processors = 2) {
    return {.processors = processors, .log = [](std::string_view) {}};
}

}  // namespace

TEST_CASE("blocking gives what the function returns", "[blocking]") {
    auto main = []() -> weft::task<std::string> {
        const int sum = co_await weft::blocking([](int a, int b) { return a + b; }, 20, 22);
        auto moved = std::make_unique<int>(sum);
        auto call = [](std::unique_ptr<int> value) { return value; };
        moved = co_await weft::blocking(call, std::move(moved));
        int target = 0;
        int& same = co_await weft::blocking([&target]() -> int& { return target; });
        same = *moved;
        co_await weft::blocking([&target] { ++target; });
        co_return std::to_string(target);
    };
    CHECK(weft::run(main(), quiet()) == "43");
}

TEST_CASE("blocking runs on a thread that is no worker, and throws what the function throws",
          "[blocking]") {
    auto main = []() -> weft::task<std::string> {
        const auto here = std::this_thread::get_id();
        const auto there = co_await weft::blocking([] { return std::this_thread::get_id(); });
        if (here == there) co_return "the same thread";
        try {
            co_await weft::blocking([] { throw std::runtime_error("from the call"); });
        } catch (const std::runtime_error& error) { co_return error.what(); }
        co_return "nothing was thrown";
    };
    CHECK(weft::run(main(), quiet(1)) == "from the call");
}

TEST_CASE("a queued call is not made when its scope is stopped", "[blocking]") {
    call_gate hold;
    std::atomic<bool> made{false};
    auto main = [&]() -> weft::task<std::error_code> {
        auto first = weft::co_spawn(
            [](call_gate& by) -> weft::task<> { co_await weft::blocking([&by] { by.pass(); }); },
            std::ref(hold));
        co_await until([&] { return hold.inside() == 1; });
        auto call = [&made] { made = true; };
        const auto late = co_await weft::as_result(
            weft::with_timeout(5ms, weft::blocking(std::move(call))));
        hold.open();
        co_await std::move(first);
        co_return late ? std::error_code() : late.error();
    };
    weft::runtime_options options = quiet();
    options.blocking_threads = 1;
    CHECK(weft::run(main(), options) == std::errc::timed_out);
    CHECK_FALSE(made);
}

TEST_CASE("a call that runs is awaited although its scope is stopped, and gives its value",
          "[blocking]") {
    call_gate hold;
    auto main = [&]() -> weft::task<int> {
        auto handle = weft::co_spawn(
            [](call_gate& by) -> weft::task<int> {
                co_return co_await weft::blocking([&by] {
                    by.pass();
                    return 7;
                });
            },
            std::ref(hold));
        co_await until([&] { return hold.inside() == 1; });
        handle.request_stop();
        co_await weft::sleep_for(5ms);
        if (handle.done()) co_return -1;
        hold.open();
        co_return co_await std::move(handle);
    };
    CHECK(weft::run(main(), quiet()) == 7);
}

TEST_CASE("a function that takes a stop token learns of the stop", "[blocking]") {
    auto main = []() -> weft::task<int> {
        std::atomic<bool> began{false};
        auto handle = weft::co_spawn(
            [](std::atomic<bool>& flag) -> weft::task<int> {
                auto call = [&flag](std::stop_token stop, int step) {
                    int rounds = 0;
                    flag = true;
                    while (!stop.stop_requested()) {
                        rounds += step;
                        std::this_thread::sleep_for(100us);
                    }
                    return rounds;
                };
                co_return co_await weft::blocking(call, 1);
            },
            std::ref(began));
        co_await until([&] { return began.load(); });
        handle.request_stop();
        co_return co_await std::move(handle);
    };
    weft::test::watchdog watchdog(20s, [] { return std::string("the token was not stopped"); });
    CHECK(weft::run(main(), quiet()) >= 0);
}

TEST_CASE("what is captured by a call is destroyed once, made or not", "[blocking]") {
    const auto counted = std::make_shared<int>(0);
    auto main = [&]() -> weft::task<> {
        for (int i = 0; i < 100; ++i) {
            auto call = [kept = counted] { return *kept; };
            co_await weft::blocking(std::move(call));
        }
        auto unused = [kept = counted] { return *kept; };
        { auto never = weft::blocking(std::move(unused)); }
        auto late = [kept = counted] { return *kept; };
        weft::blocking_detached(std::move(late));
        co_await until([&] { return weft::this_runtime::statistics().blocking_calls == 101; });
    };
    weft::run(main(), quiet());
    // The detached call may still be under way.
    weft::test::watchdog watchdog(20s, [] { return std::string("a capture was leaked"); });
    while (counted.use_count() != 1) std::this_thread::yield();
    CHECK(counted.use_count() == 1);
}

TEST_CASE("a detached call is left behind by a runtime that ends", "[blocking]") {
    const auto hold = std::make_shared<call_gate>();
    const auto ended = std::make_shared<std::atomic<bool>>(false);
    auto main = [](std::shared_ptr<call_gate> by,
                   std::shared_ptr<std::atomic<bool>> flag) -> weft::task<> {
        auto call = [](const std::shared_ptr<call_gate>& through,
                       const std::shared_ptr<std::atomic<bool>>& told) {
            through->pass();
            *told = true;
        };
        weft::blocking_detached(call, by, flag);
        co_await until([&] { return by->inside() == 1; });
    };
    weft::run(main(hold, ended), quiet());
    CHECK_FALSE(*ended);
    hold->open();
    weft::test::watchdog watchdog(20s, [] { return std::string("the call did not go on"); });
    while (!*ended) std::this_thread::yield();
    while (hold.use_count() != 1) std::this_thread::yield();
    CHECK(hold.use_count() == 1);
}

TEST_CASE("blocking_detached is refused outside a task", "[blocking]") {
    CHECK_THROWS_AS(weft::blocking_detached([] {}), std::logic_error);
}

TEST_CASE("nonsense in the options of the pool is rejected with the allowed range", "[blocking]") {
    const auto start = [](weft::runtime_options options) {
        weft::runtime made(std::move(options));
    };
    CHECK_THROWS_WITH(start({.processors = 1, .blocking_threads = 0}),
                      "weft: runtime_options::blocking_threads is 0; give 1 to 65536");
    CHECK_THROWS_AS(start({.processors = 1, .blocking_threads = 65'537}), std::invalid_argument);
    CHECK_THROWS_AS(start({.processors = 1, .blocking_idle_time = 0s}), std::invalid_argument);
}

TEST_CASE("a runtime that ends refuses queued calls and waits for one that runs", "[blocking]") {
    call_gate hold;
    std::atomic<int> made{0};
    std::atomic<bool> returned{false};
    const auto call = [](call_gate& by, std::atomic<int>& count) -> weft::task<> {
        co_await weft::blocking([&] {
            by.pass();
            ++count;
        });
    };
    weft::runtime_options options = quiet();
    options.blocking_threads = 1;
    options.shutdown_grace = 10ms;
    std::thread opener([&] {
        while (!returned) std::this_thread::sleep_for(1ms);
        std::this_thread::sleep_for(50ms);
        hold.open();
    });
    auto main = [&]() -> weft::task<> {
        for (int i = 0; i < 5; ++i) {
            weft::co_spawn(call, std::ref(hold), std::ref(made)).detach();
        }
        co_await until([&] { return hold.inside() == 1; });
        returned = true;
    };
    weft::run(main(), options);
    opener.join();
    CHECK(made == 1);
}
