// SPDX-License-Identifier: MIT
#include <weft/auto_reset_event.hpp>

#include "support/catch.hpp"
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
using weft::auto_reset_event;
using weft::test::run_alone;

namespace {

/// On one thread, whatever the machine does meanwhile.
weft::task<> note_after(auto_reset_event& awaited, std::vector<int>& into, int number) {
    co_await awaited.wait();
    into.push_back(number);
}

weft::task<std::error_code> wait_as_result(auto_reset_event& awaited) {
    const auto waited = co_await weft::as_result(awaited.wait());
    co_return waited ? std::error_code() : waited.error();
}

}  // namespace

TEST_CASE("an auto reset event remembers one set()") {
    const auto main = []() -> weft::task<> {
        auto_reset_event happened;
        CHECK_FALSE(happened.is_set());
        happened.set();
        happened.set();
        CHECK(happened.is_set());
        co_await happened.wait();
        CHECK_FALSE(happened.is_set());
        const auto late = co_await weft::as_result(weft::with_timeout(1ms, happened.wait()));
        REQUIRE_FALSE(late);
        CHECK(late.error() == std::errc::timed_out);
        CHECK_FALSE(happened.reset());
        happened.set();
        CHECK(happened.reset());
        CHECK_FALSE(happened.is_set());

        auto_reset_event from_the_start(true);
        co_await from_the_start.wait();
        CHECK_FALSE(from_the_start.is_set());
    };
    run_alone(main());
}

TEST_CASE("each set() of an auto reset event lets one task through, first in, first out") {
    const auto main = []() -> weft::task<> {
        auto_reset_event happened;
        std::vector<int> order;
        std::vector<weft::join_handle<void>> tasks;
        for (int i = 0; i < 4; ++i) {
            tasks.push_back(
                weft::co_spawn(note_after, std::ref(happened), std::ref(order), int(i)));
            co_await weft::test::settle();
        }
        for (int i = 0; i < 4; ++i) {
            happened.set();
            CHECK(order.size() == static_cast<std::size_t>(i));  // Not inside set().
            CHECK_FALSE(happened.is_set());
            co_await weft::test::settle();
        }
        CHECK(order == std::vector<int>{0, 1, 2, 3});
        for (auto& each : tasks) co_await std::move(each);
    };
    run_alone(main());
}

TEST_CASE("a wait for an auto reset event that is stopped uses up no set()") {
    const auto main = []() -> weft::task<> {
        auto_reset_event happened;
        auto first = weft::co_spawn(wait_as_result, std::ref(happened));
        auto second = weft::co_spawn(wait_as_result, std::ref(happened));
        auto third = weft::co_spawn(wait_as_result, std::ref(happened));
        co_await weft::test::settle();
        first.request_stop();
        happened.set();
        const std::error_code stopped = co_await std::move(first);
        CHECK(stopped == std::errc::operation_canceled);
        // One that was let through before its stop has waited.
        happened.set();
        second.request_stop();
        third.request_stop();
        const std::error_code second_error = co_await std::move(second);
        const std::error_code third_error = co_await std::move(third);
        CHECK_FALSE(second_error);
        CHECK_FALSE(third_error);
        CHECK_FALSE(happened.is_set());
    };
    run_alone(main());
}

TEST_CASE("an auto reset event passes a turn to and fro, and whoever has waited may free it") {
    const auto main = []() -> weft::task<> {
        auto here = std::make_unique<auto_reset_event>();
        auto there = std::make_unique<auto_reset_event>();
        auto other = weft::co_spawn(
            [](auto_reset_event& awaited, auto_reset_event& answer) -> weft::task<> {
                for (int i = 0; i < 1'000; ++i) {
                    co_await awaited.wait();
                    answer.set();
                }
            },
            std::ref(*there), std::ref(*here));
        for (int i = 0; i < 1'000; ++i) {
            there->set();
            co_await here->wait();
        }
        here.reset();
        co_await std::move(other);
    };
    for (const unsigned processors : {1U, 2U}) weft::run(main(), {.processors = processors});
}

TEST_CASE("at the end of a runtime tasks may still wait for an auto reset event") {
    const auto main = []() -> weft::task<> {
        auto happened = std::make_shared<auto_reset_event>();
        for (int i = 0; i < 3; ++i) {
            weft::co_spawn(
                [](std::shared_ptr<auto_reset_event> awaited) -> weft::task<> {
                    co_await weft::as_result(awaited->wait());
                    co_await weft::as_result(awaited->wait());
                },
                happened)
                .detach();
        }
        co_await weft::test::settle();
        happened->set();
    };
    run_alone(main());
}

TEST_CASE("a thread outside sets an auto reset event") {
    const weft::test::watchdog dog(60s, [] { return std::string(); });
    auto_reset_event happened;
    auto_reset_event taken;
    weft::runtime runtime({.processors = 2});
    auto waiting = runtime.co_spawn(
        [](auto_reset_event& awaited, auto_reset_event& answer) -> weft::task<int> {
            int count = 0;
            for (; count < 100; ++count) {
                co_await awaited.wait();
                answer.set();
            }
            co_return count;
        },
        std::ref(happened), std::ref(taken));
    std::thread outside([&happened, &taken, held = weft::runtime::guard(runtime)] {
        for (int i = 0; i < 100; ++i) {
            happened.set();
            while (!taken.reset()) std::this_thread::yield();
        }
    });
    CHECK(waiting.get() == 100);
    outside.join();
}
