// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/signal_cell.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

// A task that awaits an object of another runtime.

using namespace std::chrono_literals;

namespace {

weft::task<unsigned> after_a_while(int yields) {
    for (int i = 0; i < yields; ++i) co_await weft::yield();
    co_return weft::this_runtime::processors();
}

/// Awaits a handle; then this task's own runtime must be the one that runs it again.
weft::task<unsigned> relay(weft::join_handle<unsigned> handle) {
    const unsigned there = co_await handle;
    co_return there * 100 + weft::this_runtime::processors();
}

}  // namespace

TEST_CASE("fault 18: the end of a task wakes its awaiter on the awaiter's own runtime",
          "[faults]") {
    weft::runtime one({.processors = 1});
    weft::runtime three({.processors = 3});
    const std::size_t rounds = weft::test::scaled_count(2000, 100'000);
    for (std::size_t i = 0; i < rounds; ++i) {
        const int yields = static_cast<int>(i % 7);
        CHECK(one.co_spawn(relay(three.co_spawn(after_a_while(yields)))).get() == 301);
        CHECK(three.co_spawn(relay(one.co_spawn(after_a_while(yields)))).get() == 103);
    }
}

TEST_CASE("fault 18: a signal from another runtime wakes the task at home", "[faults]") {
    weft::runtime one({.processors = 1});
    weft::runtime two({.processors = 2});
    const std::size_t rounds = weft::test::scaled_count(2000, 100'000);
    for (std::size_t i = 0; i < rounds; ++i) {
        weft::test::signal_cell cell;
        auto waiter = one.co_spawn(
            [](weft::test::signal_cell& awaited) -> weft::task<unsigned> {
                co_await awaited.wait();
                co_return weft::this_runtime::processors();
            },
            std::ref(cell));
        two.co_spawn(
               [](weft::test::signal_cell& signalled) -> weft::task<> {
                   co_await weft::yield();
                   signalled.signal();
               },
               std::ref(cell))
            .get();
        CHECK(waiter.get() == 1);
    }
}

TEST_CASE("fault 18: the awaited runtime ends: the await says stopped", "[faults]") {
    weft::runtime home({.processors = 2});
    for (int round = 0; round < 100; ++round) {
        weft::test::signal_cell never;
        std::optional<weft::runtime> other;
        other.emplace(weft::runtime_options{.processors = 1, .shutdown_grace = 0s});
        auto stubborn = other->co_spawn(
            [](weft::test::signal_cell& cell) -> weft::task<unsigned> {
                while (!co_await weft::as_result(cell.wait())) {
                    co_await weft::as_result(weft::yield());
                }
                co_return 0;
            },
            std::ref(never));
        auto waiter = home.co_spawn(
            [](auto handle) -> weft::task<std::error_code> {
                auto result = co_await weft::as_result(std::move(handle));
                co_return result ? std::error_code{} : result.error();
            },
            std::move(stubborn));
        if (round % 2 == 0) std::this_thread::yield();
        other.reset();
        CHECK(waiter.get() == weft::errc::stopped);
    }
}

TEST_CASE("fault 18: the runtime of the waiting task ends before the awaited task does",
          "[faults]") {
    weft::runtime other({.processors = 1});
    for (int round = 0; round < 100; ++round) {
        weft::test::signal_cell gate;
        auto awaited = other.co_spawn(
            [](weft::test::signal_cell& cell) -> weft::task<unsigned> {
                co_await cell.wait();
                co_return 1;
            },
            std::ref(gate));
        {
            // The waiting task ignores its stop, so that it is destroyed where it waits.
            weft::runtime home({.processors = 2, .shutdown_grace = 0s});
            home.co_spawn(
                    [](weft::join_handle<unsigned>& handle) -> weft::task<> {
                        while (!co_await weft::as_result([](auto& h) -> weft::task<unsigned> {
                            co_return co_await h;
                        }(handle))) {}
                    },
                    std::ref(awaited))
                .detach();
            // The end of the awaited task races with the end of the runtime.
            if (round % 2 == 0) gate.signal();
        }
        gate.signal();
        while (awaited && !awaited.done()) std::this_thread::yield();
        if (awaited) awaited.detach();
    }
}
