// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/child_process.hpp"

#include <weft/weft.hpp>

#include <csignal>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

// Faults that were reported of other libraries, after which weft is asked the same: exceptions.
// Each case names the thread of the report.

namespace {

weft::task<> fails(std::string what) {
    co_await weft::yield();
    throw std::runtime_error(what);
}

}  // namespace

// cppalliance/capy#259, chriskohlhoff/asio#1110: the exception of a task that nobody waited for
// vanished.
TEST_CASE("reported: the exception of a detached task is not lost", "[regress]") {
    SECTION("it ends the process, and is told") {
        const auto result = weft::test::run_in_child([] {
            const auto main = []() -> weft::task<> {
                weft::co_spawn({.name = "culprit"}, fails, std::string("the reason")).detach();
                for (;;) co_await weft::yield();
            };
            weft::run(main(), {.processors = 1});
        });
        INFO(result.describe());
        CHECK(result.aborted_with("the reason"));
        CHECK(result.errors.find("culprit") != std::string::npos);
        CHECK(result.errors.find("reported_exception_test.cpp") != std::string::npos);
    }
    SECTION("or goes to the handler") {
        std::string name, what;
        const auto main = [&]() -> weft::task<> {
            weft::co_spawn({.name = "culprit"}, fails, std::string("the reason")).detach();
            while (what.empty()) co_await weft::yield();
        };
        weft::run(main(), {.processors = 1, .on_failure = [&](const weft::task_failure& failure) {
                               name = failure.task_name;
                               try {
                                   std::rethrow_exception(failure.exception);
                               } catch (const std::runtime_error& error) { what = error.what(); }
                           }});
        CHECK(name == "culprit");
        CHECK(what == "the reason");
    }
}

// tzcnt/TooManyCooks#24: an exception out of a task ended the process, whoever waited for it.
TEST_CASE("reported: an exception passes through awaits and joins", "[regress]") {
    const auto passes = [](int depth, const auto& self) -> weft::task<> {
        if (depth == 0) {
            co_await weft::co_spawn(fails, std::string("from below"));
        } else {
            co_await self(depth - 1, self);
        }
    };
    const auto main = [&]() -> weft::task<> {
        std::string what;
        try {
            co_await passes(100, passes);
        } catch (const std::runtime_error& error) { what = error.what(); }
        CHECK(what == "from below");
        co_await fails("out of run");
    };
    std::string what;
    try {
        weft::run(main(), {.processors = 2});
    } catch (const std::runtime_error& error) { what = error.what(); }
    CHECK(what == "out of run");
}
