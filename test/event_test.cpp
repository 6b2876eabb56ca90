// SPDX-License-Identifier: MIT
#include <weft/event.hpp>

#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/one_processor.hpp"
#include "support/watchdog.hpp"

#include <weft/as_result.hpp>
#include <weft/error.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using weft::event;
using weft::test::run_alone;

namespace {

/// On one thread, whatever the machine does meanwhile.
weft::task<> note_after(event& awaited, std::vector<int>& into, int number) {
    co_await awaited.wait();
    into.push_back(number);
}

weft::task<std::error_code> wait_as_result(event& awaited) {
    const auto waited = co_await weft::as_result(awaited.wait());
    co_return waited ? std::error_code() : waited.error();
}

}  // namespace

TEST_CASE("an event that is set keeps nobody, until it is reset") {
    const auto main = []() -> weft::task<> {
        event happened(true);
        CHECK(happened.is_set());
        co_await happened.wait();
        co_await happened.wait();
        happened.reset();
        CHECK_FALSE(happened.is_set());
        happened.reset();
        const auto waited = co_await weft::as_result(weft::with_timeout(0ms, happened.wait()));
        REQUIRE_FALSE(waited);
        CHECK(waited.error() == std::errc::timed_out);
        happened.set();
        happened.set();
        CHECK(happened.is_set());
        co_await happened.wait();
    };
    run_alone(main());
}

TEST_CASE("setting an event lets all go on in their order, but none inside set()") {
    const auto main = []() -> weft::task<> {
        event happened;
        std::vector<int> order;
        std::vector<weft::join_handle<void>> tasks;
        for (int i = 0; i < 5; ++i) {
            tasks.push_back(
                weft::co_spawn(note_after, std::ref(happened), std::ref(order), int(i)));
            co_await weft::test::settle();
        }
        CHECK(order.empty());
        happened.set();
        CHECK(order.empty());
        happened.reset();  // They go on all the same.
        for (auto& each : tasks) co_await std::move(each);
        // The last one of a batch stays in runnext, and runs first if the time slice allows it.
        REQUIRE(order.size() == 5);
        if (order.front() == 4) std::rotate(order.begin(), order.begin() + 1, order.end());
        CHECK(order == std::vector<int>{0, 1, 2, 3, 4});
        CHECK_FALSE(happened.is_set());
    };
    run_alone(main());
}

// cppcoro 129 and 97, andreasbuhr/cppcoro 65, async_simple 404: the stack overflows where a set()
// resumes one waiter inside the other.
TEST_CASE("a hundred thousand tasks that wait for one event are not resumed inside each other") {
    const auto main = []() -> weft::task<> {
        constexpr int many = 100'000;
        event happened;
        std::vector<int> order;
        std::vector<weft::join_handle<void>> tasks;
        for (int i = 0; i < many; ++i) {
            tasks.push_back(
                weft::co_spawn(note_after, std::ref(happened), std::ref(order), int(i)));
            if (i % 100 == 0) co_await weft::test::settle();
        }
        co_await weft::test::settle();
        happened.set();
        for (auto& each : tasks) co_await std::move(each);
        CHECK(order.size() == many);
    };
    run_alone(main());
}

TEST_CASE("a wait for an event that is stopped or late ends, and the others stay in line") {
    const auto main = []() -> weft::task<> {
        event happened;
        std::vector<int> order;
        auto first = weft::co_spawn(note_after, std::ref(happened), std::ref(order), 1);
        co_await weft::test::settle();
        auto second = weft::co_spawn(wait_as_result, std::ref(happened));
        co_await weft::test::settle();
        auto third = weft::co_spawn(note_after, std::ref(happened), std::ref(order), 3);
        co_await weft::test::settle();
        second.request_stop();
        const std::error_code error = co_await std::move(second);
        CHECK(error == std::errc::operation_canceled);
        const auto late = co_await weft::as_result(weft::with_timeout(1ms, happened.wait()));
        REQUIRE_FALSE(late);
        CHECK(late.error() == std::errc::timed_out);
        happened.set();
        co_await std::move(first);
        co_await std::move(third);
        CHECK(order.size() == 2);
        // A stopped scope comes first, or a loop that never waits could not be stopped.
        const auto stopped = co_await weft::as_result(weft::with_timeout(0ms, happened.wait()));
        CHECK_FALSE(stopped);
    };
    run_alone(main());
}

TEST_CASE("a task that was let through before its stop has waited") {
    const auto main = []() -> weft::task<> {
        event happened;
        auto waiting = weft::co_spawn(wait_as_result, std::ref(happened));
        co_await weft::test::settle();
        happened.set();
        waiting.request_stop();
        const std::error_code error = co_await std::move(waiting);
        CHECK_FALSE(error);
    };
    run_alone(main());
}

TEST_CASE("a task that only waits for what is set lets others in") {
    const auto main = []() -> weft::task<> {
        event happened(true);
        auto busy = weft::co_spawn(
            [](event& always) -> weft::task<> {
                for (;;) co_await always.wait();
            },
            std::ref(happened));
        co_await weft::yield();  // Comes back although the other one never has to wait.
        busy.request_stop();
        const auto result = co_await weft::as_result(std::move(busy));
        REQUIRE_FALSE(result);
        CHECK(result.error() == std::errc::operation_canceled);
    };
    run_alone(main());
}

TEST_CASE("whoever has waited for an event may destroy it") {
    const auto main = []() -> weft::task<> {
        for (int i = 0; i < 1'000; ++i) {
            auto happened = std::make_unique<event>();
            auto setter = weft::co_spawn(
                [](event& to_set) -> weft::task<> {
                    to_set.set();
                    co_return;
                },
                std::ref(*happened));
            co_await happened->wait();
            happened.reset();
            co_await std::move(setter);
        }
    };
    weft::run(main(), {.processors = 2});
}

TEST_CASE("at the end of a runtime tasks may still wait for an event of a frame that goes first") {
    const auto main = []() -> weft::task<> {
        auto happened = std::make_shared<event>();
        for (int i = 0; i < 3; ++i) {
            weft::co_spawn(
                [](std::shared_ptr<event> awaited) -> weft::task<> {
                    co_await weft::as_result(awaited->wait());
                    co_await weft::as_result(awaited->wait());
                },
                happened)
                .detach();
        }
        co_await weft::test::settle();
    };
    run_alone(main());
}

TEST_CASE("an event that is destroyed while a task waits is an assertion, or closed") {
    const auto main = []() -> weft::task<> {
        auto happened = std::make_unique<event>();
        auto waiting = weft::co_spawn(wait_as_result, std::ref(*happened));
        co_await weft::test::settle();
        happened.reset();
        const std::error_code error = co_await std::move(waiting);
        CHECK(error == weft::errc::closed);
    };
#ifdef NDEBUG
    run_alone(main());
#else
    const auto child = weft::test::run_in_child([&] { run_alone(main()); });
    INFO(child.describe());
    CHECK(child.aborted_with("was destroyed while tasks wait for it"));
#endif
}

TEST_CASE("a thread outside sets an event, and tasks of two runtimes wait for it") {
    const weft::test::watchdog dog(20s, [] { return std::string(); });
    event happened;
    weft::runtime one({.processors = 1});
    weft::runtime other({.processors = 2});
    const auto wait = [](event& awaited) -> weft::task<> { co_await awaited.wait(); };
    std::vector<weft::join_handle<void>> tasks;
    {
        const weft::runtime::guard of_one(one);
        const weft::runtime::guard of_other(other);
        for (int i = 0; i < 10; ++i) {
            tasks.push_back(one.co_spawn(wait, std::ref(happened)));
            tasks.push_back(other.co_spawn(wait, std::ref(happened)));
        }
        std::thread outside([&] { happened.set(); });
        outside.join();
    }
    for (auto& each : tasks) each.get();
    CHECK(happened.is_set());
}
