// SPDX-License-Identifier: MIT
#include <weft/once.hpp>

#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/one_processor.hpp"
#include "support/watchdog.hpp"

#include <weft/as_result.hpp>
#include <weft/event.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using weft::once;
using weft::test::run_alone;

namespace {

/// On one thread, whatever the machine does meanwhile.
weft::task<> count(int& calls) {
    ++calls;
    co_return;
}

weft::task<> count_slowly(int& calls, weft::event& may_end) {
    ++calls;
    co_await may_end.wait();
}

weft::task<> fail(weft::event& may_fail) {
    co_await may_fail.wait();
    throw std::runtime_error("it has failed");
}

weft::task<bool> call(once& on, int& calls, weft::event& may_end) {
    co_return co_await on.call_once(count_slowly, std::ref(calls), std::ref(may_end));
}

/// What has left the call: 1 it has done it, 0 it had nothing to do, -1 an error.
weft::task<int> call_as_number(once& on, int& calls, weft::event& may_end) {
    const auto result = co_await weft::as_result(call(on, calls, may_end));
    if (!result) co_return -1;
    co_return *result ? 1 : 0;
}

}  // namespace

TEST_CASE("what is done once is done by the first call") {
    const auto main = []() -> weft::task<> {
        once initialised;
        int calls = 0;
        CHECK_FALSE(initialised.is_done());
        const bool first = co_await initialised.call_once(count, std::ref(calls));
        const bool second = co_await initialised.call_once(count, std::ref(calls));
        CHECK(first);
        CHECK_FALSE(second);
        CHECK(initialised.is_done());
        CHECK(calls == 1);
    };
    run_alone(main());
}

TEST_CASE("other calls wait until what is done once has ended") {
    const auto main = []() -> weft::task<> {
        once initialised;
        weft::event may_end;
        int calls = 0;
        std::vector<weft::join_handle<bool>> tasks;
        for (int i = 0; i < 5; ++i) {
            tasks.push_back(
                weft::co_spawn(call, std::ref(initialised), std::ref(calls), std::ref(may_end)));
        }
        co_await weft::test::settle();
        CHECK(calls == 1);
        CHECK_FALSE(initialised.is_done());
        for (auto& each : tasks) CHECK_FALSE(each.done());
        may_end.set();
        int done = 0;
        for (auto& each : tasks) {
            const bool own = co_await std::move(each);
            done += own ? 1 : 0;
        }
        CHECK(done == 1);
        CHECK(calls == 1);
    };
    run_alone(main());
}

TEST_CASE("after a failure the next call tries, and the exception is of the one that failed") {
    const auto main = []() -> weft::task<> {
        once initialised;
        weft::event may_fail;
        weft::event may_end(true);
        auto failing = weft::co_spawn(
            [](once& on, weft::event& until) -> weft::task<std::string> {
                try {
                    co_await on.call_once(fail, std::ref(until));
                } catch (const std::runtime_error& error) { co_return error.what(); }
                co_return "nothing";
            },
            std::ref(initialised), std::ref(may_fail));
        co_await weft::test::settle();
        int calls = 0;
        auto next = weft::co_spawn(call, std::ref(initialised), std::ref(calls), std::ref(may_end));
        co_await weft::test::settle();
        CHECK(calls == 0);
        may_fail.set();
        const std::string what = co_await std::move(failing);
        CHECK(what == "it has failed");
        const bool own = co_await std::move(next);
        CHECK(own);
        CHECK(calls == 1);
        CHECK(initialised.is_done());
    };
    run_alone(main());
}

TEST_CASE("a call that is stopped gives the turn to the one that has waited longest") {
    const auto main = []() -> weft::task<> {
        once initialised;
        weft::event may_end;
        int calls = 0;
        std::vector<weft::join_handle<int>> tasks;
        for (int i = 0; i < 3; ++i) {
            tasks.push_back(weft::co_spawn(call_as_number, std::ref(initialised), std::ref(calls),
                                           std::ref(may_end)));
            co_await weft::test::settle();
        }
        // The second one while it waits, the first one while it does it.
        tasks[1].request_stop();
        const int second = co_await std::move(tasks[1]);
        CHECK(second == -1);
        CHECK(calls == 1);
        tasks[0].request_stop();
        const int first = co_await std::move(tasks[0]);
        CHECK(first == -1);
        co_await weft::test::settle();
        CHECK(calls == 2);
        const auto late =
            co_await weft::as_result(weft::with_timeout(1ms, call(initialised, calls, may_end)));
        REQUIRE_FALSE(late);
        CHECK(late.error() == std::errc::timed_out);
        may_end.set();
        const int third = co_await std::move(tasks[2]);
        CHECK(third == 1);
        CHECK(calls == 2);
    };
    run_alone(main());
}

TEST_CASE("a once that is destroyed while a task waits is an assertion, or closed") {
    const auto main = []() -> weft::task<> {
        auto initialised = std::make_unique<once>();
        weft::event may_end;
        int calls = 0;
        auto first = weft::co_spawn(call_as_number, std::ref(*initialised), std::ref(calls),
                                    std::ref(may_end));
        co_await weft::test::settle();
        auto second = weft::co_spawn(call_as_number, std::ref(*initialised), std::ref(calls),
                                     std::ref(may_end));
        co_await weft::test::settle();
        initialised.reset();
        const int result = co_await std::move(second);
        CHECK(result == -1);
        may_end.set();
        co_await std::move(first);
    };
#ifdef NDEBUG
    run_alone(main());
#else
    const auto child = weft::test::run_in_child([&] { run_alone(main()); });
    INFO(child.describe());
    CHECK(child.aborted_with("while a call does what it is for"));
#endif
}

TEST_CASE("at the end of a runtime a turn goes to a task of another one, or nowhere") {
    const weft::test::watchdog dog(60s, [] { return std::string(); });
    once initialised;
    weft::event never;
    weft::event may_end(true);
    int calls = 0;
    weft::runtime survivor({.processors = 1});
    const weft::runtime::guard held(survivor);
    weft::join_handle<bool> behind;
    const auto ignore_stops = [](int& begun, weft::event& forever) -> weft::task<> {
        ++begun;
        for (;;) static_cast<void>(co_await weft::as_result(forever.wait()));
    };
    const auto main = [&]() -> weft::task<> {
        auto first = weft::co_spawn(
            [](once& on, decltype(ignore_stops) work, int& begun,
               weft::event& forever) -> weft::task<> {
                co_await on.call_once(work, std::ref(begun), std::ref(forever));
            },
            std::ref(initialised), ignore_stops, std::ref(calls), std::ref(never));
        co_await weft::test::settle();
        CHECK(calls == 1);
        behind = survivor.co_spawn(call, std::ref(initialised), std::ref(calls), std::ref(may_end));
        first.detach();
        // All of this one is destroyed, in any order.
        auto own = std::make_shared<once>();
        for (int i = 0; i < 3; ++i) {
            weft::co_spawn(
                [](std::shared_ptr<once> on, decltype(ignore_stops) work, int& begun,
                   weft::event& forever) -> weft::task<> {
                    co_await on->call_once(work, std::ref(begun), std::ref(forever));
                },
                own, ignore_stops, std::ref(calls), std::ref(never))
                .detach();
        }
        co_await weft::test::settle();
        CHECK(calls == 2);
    };
    weft::run(main(), {.processors = 1, .compensate = false, .shutdown_grace = 0ms});
    CHECK(behind.get());
    CHECK(initialised.is_done());
}
