// SPDX-License-Identifier: MIT
#include <weft/wait_group.hpp>

#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/one_processor.hpp"
#include "support/watchdog.hpp"

#include <weft/as_result.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using weft::wait_group;
using weft::test::run_alone;

namespace {

/// On one thread, whatever the machine does meanwhile.
weft::task<> write_and_finish(int& into, wait_group& group) {
    co_await weft::yield();
    into = 1;
    group.done();
}

weft::task<std::error_code> wait_as_result(wait_group& group) {
    const auto waited = co_await weft::as_result(group.wait());
    co_return waited ? std::error_code() : waited.error();
}

}  // namespace

TEST_CASE("a wait group waits until all that was added is done, and again") {
    const auto main = []() -> weft::task<> {
        wait_group group;
        co_await group.wait();
        for (int round = 0; round < 3; ++round) {
            std::vector<int> done(100);
            group.add(done.size());
            for (int& each : done) {
                weft::co_spawn(write_and_finish, std::ref(each), std::ref(group)).detach();
            }
            co_await group.wait();
            CHECK(group.count() == 0);
            CHECK(done == std::vector<int>(100, 1));
        }
    };
    for (const unsigned processors : {1U, 2U}) weft::run(main(), {.processors = processors});
}

TEST_CASE("all who wait for a group go on after the last done(), and not inside it") {
    const auto main = []() -> weft::task<> {
        wait_group group(2);
        std::vector<weft::join_handle<std::error_code>> tasks;
        for (int i = 0; i < 3; ++i) {
            tasks.push_back(weft::co_spawn(wait_as_result, std::ref(group)));
        }
        co_await weft::test::settle();
        group.done();
        co_await weft::test::settle();
        CHECK_FALSE(tasks[0].done());
        group.done();
        CHECK_FALSE(tasks[0].done());
        group.add();  // They go on all the same.
        for (auto& each : tasks) {
            const std::error_code error = co_await std::move(each);
            CHECK_FALSE(error);
        }
        CHECK(group.count() == 1);
        group.done();
    };
    run_alone(main());
}

TEST_CASE("a wait for a group that is stopped or late ends, and the group goes on counting") {
    const auto main = []() -> weft::task<> {
        wait_group group(1);
        auto waiting = weft::co_spawn(wait_as_result, std::ref(group));
        co_await weft::test::settle();
        waiting.request_stop();
        const std::error_code stopped = co_await std::move(waiting);
        CHECK(stopped == std::errc::operation_canceled);
        const auto late = co_await weft::as_result(weft::with_timeout(1ms, group.wait()));
        REQUIRE_FALSE(late);
        CHECK(late.error() == std::errc::timed_out);
        CHECK(group.count() == 1);
        group.done();
        co_await group.wait();
    };
    run_alone(main());
}

TEST_CASE("more that is done than was added is an assertion, or nothing") {
    const auto exceed = [] {
        wait_group group(1);
        group.done();
        group.done();
        return group.count();
    };
#ifdef NDEBUG
    CHECK(exceed() == 0);
#else
    const auto child = weft::test::run_in_child([&] { exceed(); });
    INFO(child.describe());
    CHECK(child.aborted_with("more was done than was added"));
#endif
}

TEST_CASE("whoever has waited for a group may destroy it") {
    const auto main = []() -> weft::task<> {
        for (int i = 0; i < 1'000; ++i) {
            auto group = std::make_unique<wait_group>(2);
            int written[2] = {};
            auto first = weft::co_spawn(write_and_finish, std::ref(written[0]), std::ref(*group));
            auto second = weft::co_spawn(write_and_finish, std::ref(written[1]), std::ref(*group));
            co_await group->wait();
            group.reset();
            co_await std::move(first);
            co_await std::move(second);
        }
    };
    weft::run(main(), {.processors = 2});
}

TEST_CASE("threads outside finish what a task waits for") {
    const weft::test::watchdog dog(60s, [] { return std::string(); });
    wait_group group(3);
    weft::runtime runtime({.processors = 1});
    auto waiting = runtime.co_spawn(wait_as_result, std::ref(group));
    std::vector<std::thread> outside;
    for (int i = 0; i < 3; ++i) {
        outside.emplace_back([&group, held = weft::runtime::guard(runtime)] { group.done(); });
    }
    CHECK_FALSE(waiting.get());
    for (auto& each : outside) each.join();
}
