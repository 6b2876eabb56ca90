// SPDX-License-Identifier: MIT
#include <weft/on_end.hpp>

#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/one_processor.hpp"

#include <weft/as_result.hpp>
#include <weft/deadlock.hpp>
#include <weft/runtime.hpp>
#include <weft/select.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

using namespace std::chrono_literals;
using weft::channel;
using weft::test::run_alone;
using weft::test::settle;

namespace {

weft::task<std::unique_ptr<int>> give(channel<int>& begin) {
    const auto value = co_await begin.recv();
    co_return std::make_unique<int>(value.value_or(-1));
}

weft::task<int> fail() {
    throw std::runtime_error("as planned");
    co_return 0;
}

}  // namespace

TEST_CASE("a select makes the case of a task that has ended at once, and the handle keeps it") {
    const auto main = []() -> weft::task<> {
        channel<int> begin(1), empty;
        auto gives = weft::co_spawn(give, std::ref(begin));
        co_await begin.send(7);
        co_await settle();
        REQUIRE(gives.done());
        for (int i = 0; i < 3; ++i) {
            const auto made =
                co_await weft::select(empty.recv(), weft::on_end(gives), weft::sleep_for(1h));
            CHECK(made.index() == 1);
        }
        REQUIRE(gives);
        const auto got = co_await std::move(gives);
        CHECK(*got == 7);
        CHECK_FALSE(gives);
    };
    run_alone(main());
}

TEST_CASE("a select that waits is told of the end of a task") {
    const auto main = []() -> weft::task<> {
        channel<int> begin, empty;
        auto gives = weft::co_spawn(give, std::ref(begin));
        auto selects = weft::co_spawn(
            [](weft::join_handle<std::unique_ptr<int>>& of, channel<int>& none) -> weft::task<int> {
                const auto made = co_await weft::select(weft::on_end(of), none.recv());
                if (made.index() != 0) co_return -2;
                const auto got = co_await std::move(of);
                co_return *got;
            },
            std::ref(gives), std::ref(empty));
        co_await settle();
        co_await begin.send(8);
        const int got = co_await std::move(selects);
        CHECK(got == 8);
        // It has left the line of the other case.
        CHECK(empty.try_send(1).error() == std::errc::operation_would_block);
    };
    run_alone(main());
}

TEST_CASE("a select that makes another case leaves the task as it was") {
    const auto main = []() -> weft::task<> {
        channel<int> begin;
        auto gives = weft::co_spawn(give, std::ref(begin));
        for (int i = 0; i < 3; ++i) {
            const auto made = co_await weft::select(weft::on_end(gives), weft::sleep_for(1us));
            CHECK(made.index() == 1);
            const auto none = co_await weft::select(weft::on_end(gives), weft::otherwise);
            CHECK(none.index() == 1);
            const auto late = co_await weft::as_result(
                weft::with_timeout(1us, weft::select(weft::on_end(gives))));
            CHECK(late.error() == std::errc::timed_out);
            CHECK_FALSE(gives.done());
        }
        co_await begin.send(9);
        const auto got = co_await std::move(gives);
        CHECK(*got == 9);
    };
    run_alone(main());
}

TEST_CASE("the end of a task is a case also if an exception or a stop ended it") {
    const auto main = []() -> weft::task<> {
        auto fails = weft::co_spawn(fail());
        auto made = co_await weft::select(weft::on_end(fails));
        CHECK(made.index() == 0);
        std::string what;
        try {
            co_await std::move(fails);
        } catch (const std::runtime_error& failure) { what = failure.what(); }
        CHECK(what == "as planned");
        channel<int> begin;
        auto stopped = weft::co_spawn(give, std::ref(begin));
        co_await settle();
        stopped.request_stop();
        made = co_await weft::select(weft::on_end(stopped));
        const auto ended = co_await weft::as_result(std::move(stopped));
        CHECK(ended.error() == std::errc::operation_canceled);
    };
    run_alone(main());
}

TEST_CASE("the first of several tasks that ends is found by a select") {
    const auto main = []() -> weft::task<> {
        channel<int> one, two;
        auto first = weft::co_spawn(give, std::ref(one));
        auto second = weft::co_spawn(give, std::ref(two));
        const auto send = [](channel<int>& to) -> weft::task<> { co_await to.send(1); };
        auto sends = weft::co_spawn(send, std::ref(two));
        const auto made = co_await weft::select(weft::on_end(first), weft::on_end(second));
        CHECK(made.index() == 1);
        co_await std::move(sends);
        CHECK(second.done());
        CHECK_FALSE(first.done());
        one.close();
        const auto nothing = co_await std::move(first);
        CHECK(*nothing == -1);
        const auto got = co_await std::move(second);
        CHECK(*got == 1);
    };
    run_alone(main());
    weft::run(main(), {.processors = 2});
}

TEST_CASE("an empty handle is refused") {
    weft::join_handle<int> empty;
    CHECK_THROWS_AS(weft::on_end(empty), std::logic_error);
}

TEST_CASE("a select of channels and tasks of its own runtime can be asleep for good") {
    const auto main = []() -> weft::task<> {
        channel<int> never;
        auto waits = weft::co_spawn(give, std::ref(never));
        co_await weft::select(weft::on_end(waits), never.recv());
    };
    CHECK_THROWS_AS(
        weft::run(main(), {.processors = 1, .deadlock = weft::deadlock_action::throw_exception}),
        weft::deadlock_error);
}

TEST_CASE("a select is told of the end of a task of another runtime") {
    weft::runtime other({.processors = 1});
    channel<int> begin;
    auto gives = other.co_spawn(give, std::ref(begin));
    const auto main = [](weft::join_handle<std::unique_ptr<int>>& of,
                         channel<int>& to) -> weft::task<int> {
        auto made = co_await weft::select(weft::on_end(of), weft::sleep_for(1ms));
        if (made.index() != 1) co_return -2;
        auto sends = weft::co_spawn(
            [](channel<int>& into) -> weft::task<> { co_await into.send(5); }, std::ref(to));
        made = co_await weft::select(weft::on_end(of), weft::sleep_for(1h));
        co_await std::move(sends);
        const auto got = co_await std::move(of);
        co_return made.index() == 0 ? *got : -3;
    };
    CHECK(weft::run(main(gives, begin), {.processors = 1}) == 5);
}

TEST_CASE("a runtime ends while a select waits for a task") {
    const auto main = []() -> weft::task<> {
        const auto waits = []() -> weft::task<> {
            channel<int> never;
            auto sleeps = weft::co_spawn([]() -> weft::task<> { co_await weft::sleep_for(1h); });
            co_await weft::select(weft::on_end(sleeps), never.recv());
        };
        weft::co_spawn(waits).detach();
        co_await settle();
    };
    run_alone(main());
    SUCCEED("nothing is touched too late");
}

namespace {

weft::task<> sleep_long() {
    co_await weft::sleep_for(1h);
}

weft::task<> select_end_of(weft::join_handle<>& of) {
    co_await weft::select(weft::on_end(of));
}

}  // namespace

TEST_CASE("a task that a select waits for is awaited by nobody else") {
    const auto result = weft::test::run_in_child([] {
        const auto main = []() -> weft::task<> {
            auto sleeper = weft::co_spawn(sleep_long);
            weft::co_spawn(select_end_of, std::ref(sleeper)).detach();
            co_await settle();
            co_await weft::select(weft::on_end(sleeper));
        };
        run_alone(main());
    });
    INFO(result.describe());
    CHECK(result.aborted_with("awaited by two at a time"));
}

TEST_CASE("a handle that goes while a select waits for it ends the process with a message") {
    const auto result = weft::test::run_in_child([] {
        const auto main = []() -> weft::task<> {
            auto sleeper = weft::co_spawn(sleep_long);
            weft::co_spawn(select_end_of, std::ref(sleeper)).detach();
            co_await settle();
            sleeper.detach();
        };
        run_alone(main());
    });
    INFO(result.describe());
    CHECK(result.aborted_with("while it is awaited"));
}
