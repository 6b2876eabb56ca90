// SPDX-License-Identifier: MIT
#include <weft/task.hpp>

#include "support/catch.hpp"
#include "support/nothing.hpp"

#include <weft/runtime.hpp>
#include <weft/yield.hpp>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using weft::test::nothing;

namespace {

weft::task<int> give(int value) {
    co_return value;
}
weft::task<std::unique_ptr<int>> give_unique(int value) {
    co_return std::make_unique<int>(value);
}
weft::task<std::string&> refer(std::string& text) {
    co_return text;
}
weft::task<std::pair<int, std::string>> give_braces() {
    co_return {1, "two"};
}
weft::task<int> give_empty_braces() {
    co_return {};
}
weft::task<int> fail() {
    throw std::runtime_error("failed on purpose");
    co_return 0;
}

}  // namespace

TEST_CASE("run gives the result of the main task", "[task]") {
    CHECK(weft::run(give(42), {.processors = 1}) == 42);
    CHECK(*weft::run(give_unique(7), {.processors = 2}) == 7);
}

TEST_CASE("run throws what the main task throws", "[task]") {
    CHECK_THROWS_AS(weft::run(fail(), {.processors = 1}), std::runtime_error);
}

TEST_CASE("an awaited task gives values, references, nothing and move-only results", "[task]") {
    auto main = []() -> weft::task<int> {
        std::string text = "a";
        std::string& same = co_await refer(text);
        same += "b";
        co_await nothing();
        auto owned = co_await give_unique(40);
        co_return *owned + co_await give(1) + (text == "ab" ? 1 : 0);
    };
    CHECK(weft::run(main(), {.processors = 1}) == 42);
}

TEST_CASE("an exception passes through a chain of awaits", "[task]") {
    auto middle = []() -> weft::task<int> { co_return co_await fail() + 1; };
    auto main = [&]() -> weft::task<std::string> {
        try {
            co_await middle();
        } catch (const std::runtime_error& error) {
            co_return error.what();
        }
        co_return "nothing was thrown";
    };
    CHECK(weft::run(main(), {.processors = 1}) == "failed on purpose");
}

TEST_CASE("an empty task cannot be awaited or run", "[task]") {
    auto main = []() -> weft::task<bool> {
        weft::task<int> once = give(1);
        weft::task<int> moved = std::move(once);
        const int value = co_await std::move(moved);
        CHECK(value == 1);
        bool thrown = false;
        try {
            co_await std::move(once);
        } catch (const std::logic_error&) {
            thrown = true;
        }
        co_return thrown;
    };
    CHECK(weft::run(main(), {.processors = 1}));
    CHECK_THROWS_AS(weft::run(weft::task<int>(), {.processors = 1}), std::logic_error);
}

TEST_CASE("a result may be given in braces", "[task]") {
    CHECK(weft::run(give_braces(), {.processors = 1}) == std::pair<int, std::string>(1, "two"));
    CHECK(weft::run(give_empty_braces(), {.processors = 1}) == 0);
}
