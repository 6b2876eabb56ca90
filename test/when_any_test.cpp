// SPDX-License-Identifier: MIT
#include <weft/when_any.hpp>

#include "support/catch.hpp"
#include "support/kept_log.hpp"
#include "support/one_processor.hpp"
#include "support/scale.hpp"
#include "support/signal_cell.hpp"

#include <weft/as_result.hpp>
#include <weft/blocking.hpp>
#include <weft/channel.hpp>
#include <weft/runtime.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <variant>
#include <vector>

using namespace std::chrono_literals;
using weft::test::signal_cell;

namespace {

weft::task<int> number_after(int value, int yields) {
    for (int i = 0; i < yields; ++i) co_await weft::yield();
    co_return value;
}

weft::task<int> fails_after(std::string what, int yields) {
    for (int i = 0; i < yields; ++i) co_await weft::yield();
    throw std::runtime_error(what);
}

weft::task<int> waits(std::atomic<int>& stopped) {
    weft::channel<int> nobody;
    try {
        static_cast<void>(co_await nobody.recv());
    } catch (const std::system_error&) {
        ++stopped;
        throw;
    }
    co_return -1;
}

/// Gives a value although it is stopped.
weft::task<int> stubborn(int value) {
    weft::channel<int> nobody;
    static_cast<void>(co_await weft::as_result(nobody.recv()));
    co_return value;
}

struct failures {
    std::vector<std::string> suppressed;

    auto handler() {
        return [this](const weft::task_failure& failure) {
            if (!failure.suppressed) suppressed.emplace_back("not suppressed");
            try {
                std::rethrow_exception(failure.exception);
            } catch (const std::exception& error) { suppressed.emplace_back(error.what()); }
        };
    }
};

}  // namespace

TEST_CASE("when_any gives the first one, and stops the others", "[when_any]") {
    std::atomic<int> stopped{0};
    const auto main = [](std::atomic<int>& counter) -> weft::task<bool> {
        const auto got =
            co_await weft::when_any(waits(counter), number_after(7, 3), waits(counter));
        co_return got.index == 1 && std::get<1>(got.values) == 7 && !std::get<0>(got.values) &&
            !std::get<2>(got.values);
    };
    for (const unsigned processors : {1U, 2U, 8U}) {
        stopped = 0;
        CHECK(weft::run(main(stopped), {.processors = processors}));
        CHECK(stopped <= 2);
    }
}

TEST_CASE("one that has not started when the first one ends never does", "[when_any]") {
    bool ran = false;
    const auto marks = [](bool& flag) -> weft::task<> {
        flag = true;
        co_return;
    };
    const auto main = [](auto& make, bool& flag) -> weft::task<bool> {
        const auto got = co_await weft::when_any(number_after(1, 0), make(flag));
        co_return got.index == 0 && !std::get<1>(got.values).has_value();
    };
    CHECK(weft::run(main(marks, ran), {.processors = 1}));
    CHECK_FALSE(ran);
}

TEST_CASE("a value that a loser gives in spite of the stop is returned", "[when_any]") {
    const auto main = []() -> weft::task<int> {
        const auto got = co_await weft::when_any(stubborn(20), number_after(1, 2));
        co_return got.index == 1 ? *std::get<0>(got.values) + *std::get<1>(got.values) : -1;
    };
    CHECK(weft::run(main(), {.processors = 1}) == 21);
}

TEST_CASE("when_any takes times, handles, and what gives nothing or a reference", "[when_any]") {
    int there = 0;
    const auto refer = [](int& to) -> weft::task<int&> {
        co_await weft::yield();
        co_return to;
    };
    const auto main = [](auto& make, int& place) -> weft::task<bool> {
        const auto timed =
            co_await weft::when_any(weft::sleep_for(1h), weft::sleep_for(1us), stubborn(0));
        const auto referred = co_await weft::when_any(make(place), weft::sleep_for(1h));
        std::get<0>(referred.values)->get() = 5;
        auto handle = weft::co_spawn(number_after(2, 1000));
        const auto kept = co_await weft::when_any(handle, weft::yield());
        const bool still = static_cast<bool>(handle);
        co_return timed.index == 1 && std::get<1>(timed.values).has_value() &&
            referred.index == 0 && kept.index == 1 && still&& co_await std::move(handle) == 2;
    };
    CHECK(weft::run(main(refer, there), {.processors = 1}));
    CHECK(there == 5);
}

TEST_CASE("when_any of a range, also of what can only be moved", "[when_any]") {
    const auto make = [](int value, int yields) -> weft::task<std::unique_ptr<int>> {
        for (int i = 0; i < yields; ++i) co_await weft::yield();
        co_return std::make_unique<int>(value);
    };
    const auto main = [](auto& maker) -> weft::task<bool> {
        std::vector<weft::task<std::unique_ptr<int>>> tasks;
        for (int i = 0; i < 10; ++i) tasks.push_back(maker(i, i == 6 ? 1 : 50));
        const auto got = co_await weft::when_any(std::move(tasks));
        if (got.index != 6 || **got.values[6] != 6) co_return false;
        std::vector<weft::task<int>> none;
        try {
            static_cast<void>(co_await weft::when_any(std::move(none)));
        } catch (const std::invalid_argument&) { co_return true; }
        co_return false;
    };
    CHECK(weft::run(main(make), {.processors = 1}));
}

TEST_CASE("when_any throws what the first one throws; later failures are suppressed",
          "[when_any]") {
    failures seen;
    const auto fails_late = []() -> weft::task<int> {
        static_cast<void>(co_await stubborn(0));
        throw std::runtime_error("late");
    };
    std::atomic<int> stopped{0};
    const auto main = [](auto& late, std::atomic<int>& counter) -> weft::task<std::string> {
        try {
            static_cast<void>(
                co_await weft::when_any(late(), waits(counter), fails_after("early", 2)));
        } catch (const std::runtime_error& error) { co_return error.what(); }
        co_return "nothing";
    };
    CHECK(weft::run(main(fails_late, stopped), {.processors = 1, .on_failure = seen.handler()}) ==
          "early");
    CHECK(stopped == 1);
    CHECK(seen.suppressed == std::vector<std::string>{"late"});
}

TEST_CASE("a stop from outside ends when_any and race", "[when_any]") {
    std::atomic<int> stopped{0};
    const auto main = [](std::atomic<int>& counter, bool racing,
                         std::chrono::nanoseconds limit) -> weft::task<std::error_code> {
        try {
            if (racing) {
                static_cast<void>(
                    co_await weft::with_timeout(limit, weft::race(waits(counter), waits(counter))));
            } else {
                static_cast<void>(co_await weft::with_timeout(
                    limit, weft::when_any(waits(counter), waits(counter))));
            }
        } catch (const std::system_error& error) { co_return error.code(); }
        co_return std::error_code();
    };
    const auto stops = [](auto& waiting, std::atomic<int>& counter,
                          bool racing) -> weft::task<std::error_code> {
        auto handle = weft::co_spawn(waiting(counter, racing, 1h));
        co_await weft::test::settle();
        handle.request_stop();
        co_return co_await handle;
    };
    for (const bool racing : {false, true}) {
        CHECK(weft::run(main(stopped, racing, 0ns), {.processors = 1}) == std::errc::timed_out);
        CHECK(weft::run(stops(main, stopped, racing), {.processors = 1, .compensate = false}) ==
              std::errc::operation_canceled);
    }
    CHECK(stopped == 4);
}

TEST_CASE("the stop of when_any ends with it", "[when_any]") {
    const auto main = []() -> weft::task<bool> {
        static_cast<void>(co_await weft::when_any(number_after(1, 0), weft::sleep_for(1h)));
        co_await weft::sleep_for(1us);
        co_return true;
    };
    CHECK(weft::run(main(), {.processors = 1}));
}

TEST_CASE("a blocking call that cannot be stopped delays when_any", "[when_any]") {
    std::atomic<bool> returned{false};
    const auto main = [](std::atomic<bool>& flag) -> weft::task<bool> {
        std::atomic<bool> entered{false};
        const auto waits_for_call = [](std::atomic<bool>& call) -> weft::task<> {
            while (!call) co_await weft::yield();
        };
        const auto got = co_await weft::when_any(weft::blocking([&] {
                                                     entered = true;
                                                     std::this_thread::sleep_for(20ms);
                                                     flag = true;
                                                     return 3;
                                                 }),
                                                 waits_for_call(entered));
        // The value of the call is there: it has ended all the same.
        co_return flag&& got.index == 1 && std::get<0>(got.values) == 3;
    };
    CHECK(weft::run(main(returned), {.processors = 1}));
}

TEST_CASE("race gives the first value, whoever fails before", "[when_any]") {
    failures seen;
    const auto main = []() -> weft::task<std::string> {
        const auto got = co_await weft::race(fails_after("at once", 0), number_after(8, 4),
                                             number_after(9, 1000));
        if (got.index != 1 || std::get<1>(got.values) != 8 || got.failures[1] != nullptr) {
            co_return "the wrong one";
        }
        try {
            std::rethrow_exception(got.failures[0]);
        } catch (const std::runtime_error& error) { co_return error.what(); }
    };
    CHECK(weft::run(main(), {.processors = 1, .on_failure = seen.handler()}) == "at once");
    CHECK(seen.suppressed.empty());
}

TEST_CASE("race throws where none gives a value: the first in order, the others are suppressed",
          "[when_any]") {
    failures seen;
    const auto main = []() -> weft::task<std::string> {
        std::vector<weft::task<int>> tasks;
        tasks.push_back(fails_after("first", 3));
        tasks.push_back(fails_after("second", 0));
        try {
            static_cast<void>(co_await weft::race(std::move(tasks)));
        } catch (const std::runtime_error& error) { co_return error.what(); }
        co_return "nothing";
    };
    CHECK(weft::run(main(), {.processors = 1, .on_failure = seen.handler()}) == "first");
    CHECK(seen.suppressed == std::vector<std::string>{"second"});
}

TEST_CASE("when_any of when_any, a hundred thousand times", "[when_any]") {
    const int rounds = weft::test::sanitized ? 5'000 : 50'000;
    const auto main = [](int count) -> weft::task<int> {
        int sum = 0;
        for (int i = 0; i < count; ++i) {
            const auto got =
                co_await weft::when_any(weft::when_any(number_after(1, i % 3), weft::sleep_for(1h)),
                                        number_after(2, i % 2), weft::sleep_for(1h));
            if (got.index < 2) ++sum;
        }
        co_return sum;
    };
    for (const unsigned processors : {1U, 2U}) {
        CHECK(weft::run(main(rounds), {.processors = processors}) == rounds);
    }
}
