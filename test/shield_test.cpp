// SPDX-License-Identifier: MIT
#include <weft/shield.hpp>

#include "support/catch.hpp"
#include "support/signal_cell.hpp"

#include <weft/as_result.hpp>
#include <weft/channel.hpp>
#include <weft/runtime.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/task_group.hpp>
#include <weft/this_task.hpp>
#include <weft/timeout.hpp>
#include <weft/when_all.hpp>
#include <weft/yield.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <system_error>

using namespace std::chrono_literals;
using weft::test::signal_cell;

namespace {

weft::task<int> slowly(int value) {
    co_await weft::sleep_for(2ms);
    if (weft::this_task::stop_requested()) throw std::runtime_error("it has seen the stop");
    co_return value;
}

/// Ends in any case; how its awaits end.
weft::task<std::error_code> error_of(weft::task<> inner) {
    const auto result = co_await weft::as_result(std::move(inner));
    co_return result ? std::error_code() : result.error();
}

}  // namespace

TEST_CASE("what is shielded does not see a deadline; what follows does", "[shield]") {
    const auto inside = [](int& got) -> weft::task<> {
        got = co_await weft::shield(slowly(7));
        co_await weft::yield();
        got = 0;
    };
    const auto main = [](auto& make) -> weft::task<int> {
        int got = 0;
        const auto error = co_await error_of(weft::with_timeout(1us, make(got)));
        co_return error == std::errc::timed_out ? got : -1;
    };
    CHECK(weft::run(main(inside), {.processors = 1}) == 7);
    CHECK(weft::run(main(inside), {.processors = 2}) == 7);
}

TEST_CASE("a stop that was there before does not reach what is shielded", "[shield]") {
    const auto inside = [](int& got) -> weft::task<> {
        got = co_await weft::shield(slowly(7));
        if (!weft::this_task::stop_requested()) got = -2;
    };
    const auto main = [](auto& make) -> weft::task<int> {
        int got = 0;
        co_await weft::with_timeout(0ns, make(got));
        co_return got;
    };
    CHECK(weft::run(main(inside), {.processors = 1}) == 7);
}

TEST_CASE("a stop of the task does not reach what is shielded, in any of its branches",
          "[shield]") {
    const auto stays = [](signal_cell& cell, std::atomic<int>& waiting) -> weft::task<> {
        ++waiting;
        co_await weft::shield(weft::when_all(cell.wait(), slowly(1)));
    };
    const auto all = [](auto& make, signal_cell& first, signal_cell& second,
                        std::atomic<int>& waiting) -> weft::task<> {
        co_await weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
            group.spawn(make(first, waiting));
            co_await make(second, waiting);
        });
    };
    const auto main = [](auto& stay, auto& make) -> weft::task<std::error_code> {
        signal_cell first, second;
        std::atomic<int> waiting{0};
        auto handle = weft::co_spawn(make(stay, first, second, waiting));
        while (waiting != 2) co_await weft::yield();
        handle.request_stop();
        for (int i = 0; i < 100; ++i) co_await weft::yield();
        if (handle.done()) co_return std::make_error_code(std::errc::io_error);
        first.signal();
        second.signal();
        const auto result = co_await weft::as_result(std::move(handle));
        co_return result ? std::error_code() : result.error();
    };
    for (const unsigned processors : {1U, 2U}) {
        CHECK_FALSE(weft::run(main(stays, all), {.processors = processors}));
    }
}

TEST_CASE("a deadline inside a shield works", "[shield]") {
    const auto main = []() -> weft::task<std::error_code> {
        signal_cell never;
        const auto waits = [](signal_cell& cell) -> weft::task<> { co_await cell.wait(); };
        co_return co_await error_of(weft::shield(weft::with_timeout(1ms, waits(never))));
    };
    CHECK(weft::run(main(), {.processors = 1}) == std::errc::timed_out);
}

TEST_CASE("a shield inside a shield, and around a group, gives what it gives", "[shield]") {
    const auto main = []() -> weft::task<int> {
        const auto made = co_await weft::shield(weft::shield(
            []() -> weft::task<std::unique_ptr<int>> { co_return std::make_unique<int>(4); }()));
        int sum = *made;
        co_await weft::shield(weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
            group.spawn([&]() -> weft::task<> {
                co_await weft::yield();
                sum += 3;
            });
            co_return;
        }));
        co_return sum;
    };
    CHECK(weft::run(main(), {.processors = 1}) == 7);
}

TEST_CASE("a failure behind a shield comes out", "[shield]") {
    const auto main = []() -> weft::task<> {
        co_await weft::shield([]() -> weft::task<> {
            co_await weft::yield();
            throw std::domain_error("behind");
        }());
    };
    CHECK_THROWS_AS(weft::run(main(), {.processors = 1}), std::domain_error);
}

TEST_CASE("what waits behind a shield is destroyed when the grace period is over", "[shield]") {
    const auto token = std::make_shared<int>(1);
    const auto waits = [](std::shared_ptr<int>, bool& began) -> weft::task<> {
        weft::channel<int> nobody;
        began = true;
        static_cast<void>(co_await weft::shield(nobody.recv()));
    };
    // The channel is in an outer frame, and goes after the wait at it.
    const auto waits_shortly = [](std::shared_ptr<int>, bool& began) -> weft::task<> {
        weft::channel<int> nobody;
        began = true;
        static_cast<void>(co_await weft::shield(weft::with_timeout(1h, nobody.recv())));
    };
    const auto waits_for_all = [](std::shared_ptr<int>, bool& began) -> weft::task<> {
        weft::channel<int> nobody;
        began = true;
        co_await weft::shield(weft::when_all(nobody.recv(), weft::shield(nobody.recv())));
    };
    const auto main = [](auto& first, auto& second, auto& third,
                         std::shared_ptr<int> held) -> weft::task<> {
        bool began[3] = {};
        weft::co_spawn(first(held, began[0])).detach();
        weft::co_spawn(second(held, began[1])).detach();
        weft::co_spawn(third(held, began[2])).detach();
        while (!began[0] || !began[1] || !began[2]) co_await weft::yield();
        for (int i = 0; i < 4; ++i) co_await weft::yield();
    };
    weft::run(main(waits, waits_shortly, waits_for_all, token),
              {.processors = 1, .shutdown_grace = 5ms});
    CHECK(token.use_count() == 1);
}
