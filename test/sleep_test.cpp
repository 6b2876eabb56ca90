// SPDX-License-Identifier: MIT
#include <weft/sleep.hpp>

#include "support/catch.hpp"
#include "support/scheduler.hpp"

#include <weft/as_result.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>

#include <chrono>
#include <functional>
#include <limits>
#include <system_error>
#include <vector>

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

namespace {

weft::task<> note_at(std::vector<int>& order, steady::time_point time, int id) {
    co_await weft::sleep_until(time);
    order.push_back(id);
}

weft::task<> note(std::vector<int>& order, int id) {
    order.push_back(id);
    co_return;
}

/// How a sleep ended that was stopped after the task had gone to sleep.
weft::task<std::error_code> stopped_sleep(std::chrono::nanoseconds time) {
    auto sleeper = [](std::chrono::nanoseconds how_long) -> weft::task<> {
        co_await weft::sleep_for(how_long);
    };
    auto handle = weft::co_spawn(sleeper, time);
    co_await weft::sleep_for(100us);
    handle.request_stop();
    const auto result = co_await weft::as_result(std::move(handle));
    co_return result ? std::error_code() : result.error();
}

}  // namespace

TEST_CASE("a sleep lasts at least as long as it was asked for, in any unit", "[sleep]") {
    auto main = []() -> weft::task<> {
        const auto begin = steady::now();
        co_await weft::sleep_for(2ms);
        const auto after_milliseconds = steady::now();
        co_await weft::sleep_for(150us);
        const auto after_microseconds = steady::now();
        co_await weft::sleep_for(std::chrono::duration<double>(0.001));
        const auto after_fraction = steady::now();
        co_await weft::sleep_until(after_fraction + 1ms);
        const auto end = steady::now();
        CHECK(after_milliseconds - begin >= 2ms);
        CHECK(after_microseconds - after_milliseconds >= 150us);
        CHECK(after_fraction - after_microseconds >= 1ms);
        CHECK(end - after_fraction >= 1ms);
    };
    weft::run(main(), {.processors = 1});
}

// Those that are due at one look may run in another order (the last of them takes runnext), so a
// thread that did not get a CPU for a millisecond is given another chance.
TEST_CASE("sleepers wake in the order of their times, whatever order they fell asleep in",
          "[sleep]") {
    auto main = []() -> weft::task<std::vector<int>> {
        std::vector<int> order;
        std::vector<weft::join_handle<void>> handles;
        const auto base = steady::now();
        for (const int id : {5, 1, 4, 2, 3}) {
            handles.push_back(weft::co_spawn(note_at, std::ref(order), base + id * 2ms, id));
        }
        for (auto& each : handles) co_await each;
        co_return order;
    };
    const std::vector<int> expected{1, 2, 3, 4, 5};
    std::vector<int> order;
    for (int attempt = 0; attempt < 20 && order != expected; ++attempt) {
        order = weft::run(main(), {.processors = 1});
    }
    CHECK(order == expected);
}

TEST_CASE("a sleep of nothing, or until a time that is over, lets others run once", "[sleep]") {
    auto main = []() -> weft::task<std::vector<int>> {
        const weft::test::held_slice_clock clock;
        std::vector<int> order;
        auto first = weft::co_spawn(note, std::ref(order), 1);
        co_await weft::sleep_for(0ns);
        order.push_back(2);
        auto second = weft::co_spawn(note, std::ref(order), 3);
        co_await weft::sleep_for(-1h);
        order.push_back(4);
        auto third = weft::co_spawn(note, std::ref(order), 5);
        co_await weft::sleep_until(steady::now() - 1s);
        order.push_back(6);
        co_await std::move(first);
        co_await std::move(second);
        co_await std::move(third);
        co_return order;
    };
    CHECK(weft::run(main(), {.processors = 1}) == std::vector<int>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("a sleeper that is stopped wakes at once, however long it would have slept", "[sleep]") {
    for (const std::chrono::nanoseconds time : {std::chrono::nanoseconds(1h),
                                                std::chrono::nanoseconds::max()}) {
        CHECK(weft::run(stopped_sleep(time), {.processors = 1}) == std::errc::operation_canceled);
        CHECK(weft::run(stopped_sleep(time), {.processors = 2}) == std::errc::operation_canceled);
    }
}

TEST_CASE("a sleep in a scope that has been stopped does not begin", "[sleep]") {
    auto late = []() -> weft::task<> { co_await weft::sleep_for(1h); };
    auto main = [&]() -> weft::task<std::error_code> {
        const auto result = co_await weft::as_result(weft::with_timeout(0ns, late()));
        co_return result ? std::error_code() : result.error();
    };
    CHECK(weft::run(main(), {.processors = 1}) == std::errc::timed_out);
}

TEST_CASE("durations too long for nanoseconds sleep until they are stopped", "[sleep]") {
    using years = std::chrono::duration<std::int64_t, std::ratio<31'556'952>>;
    auto sleeper = []() -> weft::task<> {
        co_await weft::sleep_for(years(std::numeric_limits<std::int64_t>::max()));
    };
    auto main = [&]() -> weft::task<std::error_code> {
        const auto result = co_await weft::as_result(weft::with_timeout(1ms, sleeper()));
        co_return result ? std::error_code() : result.error();
    };
    CHECK(weft::run(main(), {.processors = 1}) == std::errc::timed_out);
}
