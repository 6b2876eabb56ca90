// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/signal_cell.hpp"

#include <weft/weft.hpp>

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <vector>

// Very many timers, and times that make no sense.

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

namespace {

// A cancelled sleep throws, which takes several microseconds without optimisation.
#ifdef NDEBUG
constexpr std::size_t normal_count = 1'000'000;
constexpr auto allowed_stall = 10ms;
#else
constexpr std::size_t normal_count = 200'000;
constexpr auto allowed_stall = weft::test::sanitized ? 500ms : 50ms;
#endif
std::size_t many() {
    return weft::test::scaled_count(normal_count, 1'000'000);
}

/// What the calling thread has used of its CPU: the machine may be busy with something else.
std::chrono::nanoseconds used_cpu() {
    timespec used{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

/// The longest time for which a task that does nothing but yield was not let run.
struct stall {
    std::chrono::nanoseconds longest{0};
    bool ended = false;
};
weft::task<> watch_stalls(stall& seen) {
    auto last = used_cpu();
    while (!seen.ended) {
        co_await weft::yield();
        const auto now = used_cpu();
        seen.longest = std::max(seen.longest, now - last);
        last = now;
    }
}

}  // namespace

TEST_CASE("fault 40: 10^6 timers at the same instant", "[faults]") {
    stall seen;
    std::size_t woken = 0;
    weft::test::signal_cell all;
    const std::size_t count = many();
    auto main = [&]() -> weft::task<bool> {
        const auto instant = steady::now() + 1500ms;
        bool early = false;
        auto sleeper = [&]() -> weft::task<> {
            co_await weft::sleep_until(instant);
            early = early || steady::now() < instant;
            if (++woken == count) all.signal();
        };
        for (std::size_t i = 0; i < count; ++i) {
            weft::co_spawn(sleeper()).detach();
            if (i % 256 == 0) co_await weft::yield();
        }
        auto watching = weft::co_spawn(watch_stalls, std::ref(seen));
        co_await all.wait();
        seen.ended = true;
        co_await watching;
        co_return early;
    };
    CHECK_FALSE(weft::run(main(), {.processors = 1}));
    CHECK(woken == count);
    // Fired in batches: what else can run is not held up for long.
    INFO("longest stall " << seen.longest.count() << " ns of CPU time");
    CHECK(seen.longest < allowed_stall);
}

TEST_CASE("fault 40: 10^6 timers that are cancelled", "[faults]") {
    const std::size_t count = many();
    auto main = [&]() -> weft::task<std::size_t> {
        std::vector<weft::join_handle<void>> handles;
        handles.reserve(count);
        for (std::size_t i = 0; i < count; ++i) {
            handles.push_back(
                weft::co_spawn([]() -> weft::task<> { co_await weft::sleep_for(1h); }));
            if (i % 256 == 0) co_await weft::yield();
        }
        std::size_t cancelled = 0;
        for (auto& each : handles) each.request_stop();
        for (auto& each : handles) {
            const auto result = co_await weft::as_result(std::move(each));
            if (!result && result.error() == std::errc::operation_canceled) ++cancelled;
        }
        co_return cancelled;
    };
    CHECK(weft::run(main(), {.processors = 1}) == count);
}

TEST_CASE("fault 41: sleeping for nothing or less yields once", "[faults]") {
    auto main = []() -> weft::task<int> {
        bool ended = false;
        int turns = 0;
        auto other = weft::co_spawn(
            [](bool& end, int& count) -> weft::task<> {
                while (!end) {
                    ++count;
                    co_await weft::yield();
                }
            },
            std::ref(ended), std::ref(turns));
        int let_run = 0;
        for (const auto duration : {0ns, -1ns, std::chrono::nanoseconds::min()}) {
            const int before = turns;
            co_await weft::sleep_for(duration);
            if (turns != before) ++let_run;
        }
        const int before = turns;
        co_await weft::sleep_until(steady::time_point::min());
        if (turns != before) ++let_run;
        ended = true;
        co_await other;
        co_return let_run;
    };
    CHECK(weft::run(main(), {.processors = 1}) == 4);
}

TEST_CASE("fault 41: huge durations do not wrap around", "[faults]") {
    auto main = []() -> weft::task<int> {
        using namespace std::chrono;
        int timed_out = 0;
        const auto count = [&](weft::result<void> result) {
            if (!result && result.error() == std::errc::timed_out) ++timed_out;
        };
        auto first = weft::with_timeout(1ms, weft::sleep_for(hours::max()));
        count(co_await weft::as_result(std::move(first)));
        auto second = weft::with_timeout(1ms, weft::sleep_for(nanoseconds::max()));
        count(co_await weft::as_result(std::move(second)));
        auto third = weft::with_timeout(
            1ms, weft::sleep_for(duration<double>(std::numeric_limits<double>::infinity())));
        count(co_await weft::as_result(std::move(third)));
        auto fourth = weft::with_timeout(1ms, weft::sleep_until(steady::time_point::max()));
        count(co_await weft::as_result(std::move(fourth)));
        // As limits they are none at all.
        co_await weft::with_timeout(hours::max(), weft::sleep_for(1ms));
        co_await weft::with_deadline(steady::time_point::max(), weft::sleep_for(1ms));
        // A limit in the past stops from the start.
        auto fifth = weft::with_timeout(-1h, weft::sleep_for(1h));
        count(co_await weft::as_result(std::move(fifth)));
        auto sixth = weft::with_deadline(steady::time_point::min(), weft::sleep_for(1h));
        count(co_await weft::as_result(std::move(sixth)));
        co_return timed_out;
    };
    CHECK(weft::run(main(), {.processors = 1}) == 6);
}
