// SPDX-License-Identifier: MIT
#include <weft/timeout.hpp>

#include "support/catch.hpp"
#include "support/signal_cell.hpp"

#include <weft/as_result.hpp>
#include <weft/runtime.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/yield.hpp>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <system_error>

using namespace std::chrono_literals;
using weft::test::signal_cell;

namespace {

weft::task<int> seven_after(std::chrono::nanoseconds duration) {
    co_await weft::sleep_for(duration);
    co_return 7;
}

/// Notices the stop and gives a value all the same.
weft::task<int> seven_in_spite(signal_cell& cell) {
    const auto waited = co_await weft::as_result(cell.wait());
    co_return waited ? 0 : 7;
}

template <class Task>
std::error_code error_of(Task made) {
    auto main = [](Task inner) -> weft::task<std::error_code> {
        const auto result = co_await weft::as_result(std::move(inner));
        co_return result ? std::error_code() : result.error();
    };
    return weft::run(main(std::move(made)), {.processors = 1});
}

}  // namespace

TEST_CASE("with_timeout gives the value of what ends in time, moved if need be", "[timeout]") {
    auto make = []() -> weft::task<std::unique_ptr<int>> {
        co_await weft::yield();
        co_return std::make_unique<int>(3);
    };
    auto main = [](auto made) -> weft::task<int> {
        const std::unique_ptr<int> value = co_await weft::with_timeout(1h, made());
        co_return *value + co_await weft::with_timeout(1h, seven_after(1us));
    };
    CHECK(weft::run(main(make), {.processors = 1}) == 10);
}

TEST_CASE("what is late is stopped with timed_out, from the start if the time is over",
          "[timeout]") {
    CHECK(error_of(weft::with_timeout(1ms, seven_after(1h))) == std::errc::timed_out);
    CHECK(error_of(weft::with_timeout(0ns, seven_after(1h))) == std::errc::timed_out);
    CHECK(error_of(weft::with_timeout(-1h, seven_after(1h))) == std::errc::timed_out);
    const auto past = std::chrono::steady_clock::now() - 1s;
    CHECK(error_of(weft::with_deadline(past, seven_after(1h))) == std::errc::timed_out);
    const auto soon = std::chrono::steady_clock::now() + 1ms;
    CHECK(error_of(weft::with_deadline(soon, seven_after(1h))) == std::errc::timed_out);
}

TEST_CASE("what never suspends ends in spite of a deadline that has passed", "[timeout]") {
    auto at_once = []() -> weft::task<int> { co_return 1; };
    auto main = [](auto make) -> weft::task<int> {
        co_return co_await weft::with_timeout(0ns, make());
    };
    CHECK(weft::run(main(at_once), {.processors = 1}) == 1);
}

TEST_CASE("a value that arrives after the stop is returned", "[timeout]") {
    auto main = []() -> weft::task<int> {
        signal_cell never;
        co_return co_await weft::with_timeout(1ms, seven_in_spite(never));
    };
    CHECK(weft::run(main(), {.processors = 1}) == 7);
}

TEST_CASE("an exception of what is stopped comes out as it is", "[timeout]") {
    auto fails = []() -> weft::task<> {
        static_cast<void>(co_await weft::as_result(weft::sleep_for(1h)));
        throw std::domain_error("after the stop");
    };
    CHECK_THROWS_AS(weft::run(weft::with_timeout(1ms, fails()), {.processors = 1}),
                    std::domain_error);
}

TEST_CASE("of nested deadlines the first one stops what is inside it, and no more", "[timeout]") {
    enum class seen { outer_threw, inner_threw, nothing };
    auto nested = [](std::chrono::nanoseconds outer,
                     std::chrono::nanoseconds inner) -> weft::task<seen> {
        auto body = [](std::chrono::nanoseconds within) -> weft::task<seen> {
            const auto result = co_await weft::as_result(
                weft::with_timeout(within, weft::sleep_for(1h)));
            // Outside of the inner deadline the task goes on, if the outer one allows.
            co_await weft::sleep_for(1us);
            co_return result ? seen::nothing : seen::inner_threw;
        };
        try {
            co_return co_await weft::with_timeout(outer, body(inner));
        } catch (const std::system_error& error) {
            co_return error.code() == std::errc::timed_out ? seen::outer_threw : seen::nothing;
        }
    };
    CHECK(weft::run(nested(1h, 1ms), {.processors = 1}) == seen::inner_threw);
    CHECK(weft::run(nested(1ms, 1h), {.processors = 1}) == seen::outer_threw);
    CHECK(weft::run(nested(0ns, 0ns), {.processors = 1}) == seen::outer_threw);
}

TEST_CASE("a stop of the task inside a deadline is operation_canceled", "[timeout]") {
    auto inside = []() -> weft::task<> { co_await weft::with_timeout(1h, weft::sleep_for(1h)); };
    auto main = [](auto make) -> weft::task<std::error_code> {
        auto handle = weft::co_spawn(make());
        co_await weft::yield();
        handle.request_stop();
        const auto result = co_await weft::as_result(std::move(handle));
        co_return result ? std::error_code() : result.error();
    };
    CHECK(weft::run(main(inside), {.processors = 1}) == std::errc::operation_canceled);
}

TEST_CASE("a deadline that was not reached leaves no timer behind", "[timeout]") {
    auto main = []() -> weft::task<std::uint64_t> {
        for (int i = 0; i < 1000; ++i) co_await weft::with_timeout(1h, weft::yield());
        co_return weft::this_runtime::statistics().processors[0].timers;
    };
    CHECK(weft::run(main(), {.processors = 1}) == 0);
}
