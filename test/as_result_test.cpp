// SPDX-License-Identifier: MIT
#include <weft/as_result.hpp>

#include "support/catch.hpp"

#include <weft/error.hpp>
#include <weft/runtime.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/yield.hpp>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <type_traits>

using namespace std::chrono_literals;

namespace {

weft::task<std::unique_ptr<int>> pointer(bool fail) {
    co_await weft::yield();
    if (fail) throw std::system_error(std::make_error_code(std::errc::address_in_use));
    co_return std::make_unique<int>(4);
}

weft::task<> throws_logic_error() {
    co_await weft::yield();
    throw std::logic_error("on purpose");
}

}  // namespace

TEST_CASE("as_result gives a value or the code of a system_error", "[as_result]") {
    auto main = []() -> weft::task<bool> {
        auto good = co_await weft::as_result(pointer(false));
        static_assert(std::is_same_v<decltype(good), weft::result<std::unique_ptr<int>>>);
        auto bad = co_await weft::as_result(pointer(true));
        co_return good && **good == 4 && !bad && bad.error() == std::errc::address_in_use;
    };
    CHECK(weft::run(main(), {.processors = 1}));
}

TEST_CASE("as_result of what gives nothing", "[as_result]") {
    auto main = []() -> weft::task<bool> {
        auto result = co_await weft::as_result(weft::sleep_for(1us));
        static_assert(std::is_same_v<decltype(result), weft::result<void>>);
        co_return result.has_value();
    };
    CHECK(weft::run(main(), {.processors = 1}));
}

TEST_CASE("other exceptions pass through as_result", "[as_result]") {
    auto main = []() -> weft::task<> {
        static_cast<void>(co_await weft::as_result(throws_logic_error()));
    };
    CHECK_THROWS_AS(weft::run(main(), {.processors = 1}), std::logic_error);
}

TEST_CASE("as_result of a handle, and of what the end of its scope stops", "[as_result]") {
    auto sleeper = []() -> weft::task<int> {
        co_await weft::sleep_for(1h);
        co_return 1;
    };
    auto seven = []() -> weft::task<int> { co_return 7; };
    auto main = [](auto make_sleeper, auto make_seven) -> weft::task<bool> {
        auto stopped = weft::co_spawn(make_sleeper());
        auto ended = weft::co_spawn(make_seven());
        stopped.request_stop();
        auto first = co_await weft::as_result(std::move(stopped));
        auto second = co_await weft::as_result(std::move(ended));
        co_return !first && first.error() == std::errc::operation_canceled && second &&
            *second == 7;
    };
    CHECK(weft::run(main(sleeper, seven), {.processors = 1}));
}
