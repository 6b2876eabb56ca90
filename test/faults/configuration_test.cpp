// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <weft/weft.hpp>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

// Options and environment variables that make no sense are rejected, with the value and the range.

using namespace std::chrono_literals;

namespace {

weft::task<unsigned> count_processors() {
    co_return weft::this_runtime::processors();
}

std::string rejection(weft::runtime_options options) {
    std::string message = "nothing was thrown";
    try {
        weft::run(count_processors(), options);
    } catch (const std::invalid_argument& error) { message = error.what(); }
    try {
        weft::runtime runtime(options);
        return "the constructor did not throw";
    } catch (const std::invalid_argument& error) {
        if (message != error.what()) return "the two messages differ";
    }
    return message;
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("fault 47: config nonsense: the number of processors", "[faults]") {
    const weft::test::environment_variable none("WEFT_MAXPROCS", nullptr);
    for (const unsigned count : {1025U, 1'000'000U, 0xffffffffU}) {
        const std::string message = rejection({.processors = count});
        INFO(message);
        CHECK(contains(message, std::to_string(count)));
        CHECK(contains(message, "from 1 to 1024"));
    }
    CHECK(weft::run(count_processors(), {.processors = 3}) == 3);
    CHECK(weft::run(count_processors()) >= 1);
}

TEST_CASE("fault 47: config nonsense: WEFT_MAXPROCS", "[faults]") {
    for (const char* text :
         {"0", "-1", "two", "4x", " 4", "1e3", "99999999999999999999", "1025", "+2"}) {
        const weft::test::environment_variable set("WEFT_MAXPROCS", text);
        const std::string message = rejection({.processors = 2});
        INFO(message);
        CHECK(contains(message, "WEFT_MAXPROCS"));
        CHECK(contains(message, "\"" + std::string(text) + "\""));
        CHECK(contains(message, "from 1 to 1024"));
    }
    {
        const weft::test::environment_variable set("WEFT_MAXPROCS", "5");
        CHECK(weft::run(count_processors(), {.processors = 2}) == 5);
    }
    const weft::test::environment_variable empty("WEFT_MAXPROCS", "");
    CHECK(weft::run(count_processors(), {.processors = 2}) == 2);
}

TEST_CASE("fault 47: config nonsense: WEFT_NETPOLL", "[faults]") {
    for (const char* text : {"kqueue", "EPOLL", "io-uring", "1"}) {
        const weft::test::environment_variable set("WEFT_NETPOLL", text);
        const std::string message = rejection({.processors = 1});
        INFO(message);
        CHECK(contains(message, text));
        CHECK(contains(message, "auto, io_uring or epoll"));
    }
}

TEST_CASE("fault 47: config nonsense: WEFT_PIN", "[faults]") {
    for (const char* text : {"2", "yes", "true", "01", "-1", " 1"}) {
        const weft::test::environment_variable set("WEFT_PIN", text);
        const std::string message = rejection({.processors = 1});
        INFO(message);
        CHECK(contains(message, "WEFT_PIN is \"" + std::string(text) + "\""));
        CHECK(contains(message, "must be 0 or 1"));
    }
}

TEST_CASE("fault 47: config nonsense: durations of the end", "[faults]") {
    const weft::test::environment_variable none("WEFT_MAXPROCS", nullptr);
    CHECK(
        contains(rejection({.processors = 1, .shutdown_grace = -1ns}), "shutdown_grace is -1 ns"));
    CHECK(contains(rejection({.processors = 1, .shutdown_timeout = 0ns}),
                   "shutdown_timeout is 0 ns"));
    CHECK(contains(rejection({.processors = 1, .shutdown_timeout = -5s}), "must be positive"));
    // The largest ones are no nonsense: they wait for ever.
    CHECK(weft::run(count_processors(), {.processors = 1,
                                         .shutdown_grace = std::chrono::nanoseconds::max(),
                                         .shutdown_timeout = std::chrono::nanoseconds::max()}) ==
          1);
}
