// SPDX-License-Identifier: MIT
#include <weft/semaphore.hpp>

#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/one_processor.hpp"
#include "support/watchdog.hpp"

#include <weft/as_result.hpp>
#include <weft/error.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using weft::semaphore;
using weft::semaphore_permits;
using weft::test::run_alone;

namespace {

/// On one thread, whatever the machine does meanwhile.
weft::task<> note_after(semaphore& permits, std::size_t wanted, std::vector<int>& into,
                        int number) {
    co_await permits.acquire(wanted);
    into.push_back(number);
}

weft::task<std::error_code> acquire_as_result(semaphore& permits, std::size_t wanted) {
    const auto acquired = co_await weft::as_result(permits.acquire(wanted));
    co_return acquired ? std::error_code() : acquired.error();
}

/// Goes on until it is destroyed, whoever stops it.
weft::task<> stay() {
    for (;;) static_cast<void>(co_await weft::as_result(weft::yield()));
}

/// Acquires again and again, never waits.
weft::task<> keep_busy(semaphore& permits) {
    for (;;) {
        co_await permits.acquire();
        permits.release();
    }
}

}  // namespace

TEST_CASE("a semaphore gives as many permits as it has") {
    const auto main = []() -> weft::task<> {
        semaphore permits(3);
        CHECK(permits.available() == 3);
        co_await permits.acquire();
        co_await permits.acquire(2);
        CHECK(permits.available() == 0);
        CHECK_FALSE(permits.try_acquire());
        CHECK(permits.try_acquire(0));
        permits.release(2);
        CHECK_FALSE(permits.try_acquire(3));
        CHECK(permits.try_acquire(2));
        permits.release(5);
        CHECK(permits.available() == 5);
    };
    run_alone(main());
}

TEST_CASE("permits are granted first in, first out, and never inside release()") {
    const auto main = []() -> weft::task<> {
        semaphore permits(0);
        std::vector<int> order;
        std::vector<weft::join_handle<void>> tasks;
        for (int i = 0; i < 4; ++i) {
            tasks.push_back(weft::co_spawn(note_after, std::ref(permits), std::size_t{1},
                                           std::ref(order), int(i)));
            co_await weft::test::settle();
        }
        permits.release();
        CHECK(order.empty());
        CHECK(permits.available() == 0);
        co_await weft::test::settle();
        CHECK(order == std::vector<int>{0});
        permits.release(3);
        for (auto& each : tasks) co_await std::move(each);
        CHECK(order.size() == 4);
        CHECK(permits.available() == 0);
    };
    run_alone(main());
}

TEST_CASE("who wants many permits is not overtaken by who wants few") {
    const auto main = []() -> weft::task<> {
        semaphore permits(2);
        std::vector<int> order;
        auto many =
            weft::co_spawn(note_after, std::ref(permits), std::size_t{3}, std::ref(order), 3);
        co_await weft::test::settle();
        auto few =
            weft::co_spawn(note_after, std::ref(permits), std::size_t{1}, std::ref(order), 1);
        co_await weft::test::settle();
        CHECK_FALSE(permits.try_acquire());
        CHECK(permits.available() == 2);
        permits.release();
        co_await std::move(many);
        CHECK(order == std::vector<int>{3});
        CHECK_FALSE(few.done());
        permits.release();
        co_await std::move(few);
        CHECK(order == std::vector<int>{3, 1});
    };
    run_alone(main());
}

TEST_CASE("an acquire that is stopped or late has taken nothing, and lets those behind it go on") {
    const auto main = []() -> weft::task<> {
        semaphore permits(2);
        std::vector<int> order;
        auto many = weft::co_spawn(acquire_as_result, std::ref(permits), std::size_t{3});
        co_await weft::test::settle();
        auto few =
            weft::co_spawn(note_after, std::ref(permits), std::size_t{1}, std::ref(order), 1);
        auto more =
            weft::co_spawn(note_after, std::ref(permits), std::size_t{1}, std::ref(order), 2);
        co_await weft::test::settle();
        CHECK(order.empty());
        many.request_stop();
        const std::error_code error = co_await std::move(many);
        CHECK(error == std::errc::operation_canceled);
        co_await std::move(few);
        co_await std::move(more);
        CHECK(permits.available() == 0);

        const auto late = co_await weft::as_result(weft::with_timeout(1ms, permits.acquire()));
        REQUIRE_FALSE(late);
        CHECK(late.error() == std::errc::timed_out);
        permits.release();
        CHECK(permits.available() == 1);
        // A stopped scope comes first.
        const auto stopped = co_await weft::as_result(weft::with_timeout(0ms, permits.acquire()));
        CHECK_FALSE(stopped);
        CHECK(permits.available() == 1);
    };
    run_alone(main());
}

TEST_CASE("a permit that was granted before the stop is taken") {
    const auto main = []() -> weft::task<> {
        semaphore permits(0);
        auto waiting = weft::co_spawn(acquire_as_result, std::ref(permits), std::size_t{1});
        co_await weft::test::settle();
        permits.release();
        waiting.request_stop();
        const std::error_code error = co_await std::move(waiting);
        CHECK_FALSE(error);
        CHECK(permits.available() == 0);
    };
    run_alone(main());
}

TEST_CASE("a task that never waits for its permits lets others in, and is stopped") {
    const auto main = []() -> weft::task<> {
        semaphore permits(1);
        auto busy = weft::co_spawn(keep_busy, std::ref(permits));
        co_await weft::yield();  // Comes back although the other one never has to wait.
        busy.request_stop();
        const auto result = co_await weft::as_result(std::move(busy));
        REQUIRE_FALSE(result);
        CHECK(result.error() == std::errc::operation_canceled);
        CHECK(permits.available() == 1);
    };
    run_alone(main());
}

TEST_CASE("more permits than the limit of a semaphore are refused") {
    const auto main = []() -> weft::task<> {
        semaphore permits(1, 2);
        CHECK_THROWS_AS(permits.acquire(3), std::invalid_argument);
        CHECK_FALSE(permits.try_acquire(3));
        permits.release();
        co_await permits.acquire(2);
        permits.release(2);
        CHECK_THROWS_AS(semaphore(3, 2), std::invalid_argument);
    };
    run_alone(main());

    const auto exceed = [] {
        semaphore permits(1, 2);
        permits.release(2);
        return permits.available();
    };
#ifdef NDEBUG
    CHECK(exceed() == 2);
#else
    const auto child = weft::test::run_in_child([&] { exceed(); });
    INFO(child.describe());
    CHECK(child.aborted_with("was released above its limit"));
#endif
}

TEST_CASE("a semaphore that is destroyed while a task waits is an assertion, or closed") {
    const auto main = []() -> weft::task<> {
        auto permits = std::make_unique<semaphore>(0);
        auto waiting = weft::co_spawn(acquire_as_result, std::ref(*permits), std::size_t{1});
        co_await weft::test::settle();
        permits.reset();
        const std::error_code error = co_await std::move(waiting);
        CHECK(error == weft::errc::closed);
    };
#ifdef NDEBUG
    run_alone(main());
#else
    const auto child = weft::test::run_in_child([&] { run_alone(main()); });
    INFO(child.describe());
    CHECK(child.aborted_with("was destroyed while tasks wait"));
#endif
}

TEST_CASE("a guard gives its permits back at the end of its scope") {
    const auto main = []() -> weft::task<> {
        semaphore permits(3);
        {
            const auto two = co_await permits.scoped_acquire(2);
            CHECK(two.count() == 2);
            CHECK(permits.available() == 1);
            const auto late =
                co_await weft::as_result(weft::with_timeout(1ms, permits.scoped_acquire(2)));
            REQUIRE_FALSE(late);
            CHECK(late.error() == std::errc::timed_out);
        }
        CHECK(permits.available() == 3);
        const auto none = co_await permits.scoped_acquire(0);
        CHECK_FALSE(none);
        CHECK_THROWS_AS(semaphore(1, 1).scoped_acquire(2), std::invalid_argument);

        semaphore_permits first(permits, 1, std::try_to_lock);
        CHECK(first);
        semaphore_permits second = std::move(first);
        CHECK(second.count() == 1);
        CHECK(first.count() == 0);  // That is what is tested.
        second = co_await permits.scoped_acquire(2);  // While it keeps the third.
        CHECK(second.count() == 2);
        CHECK(permits.available() == 1);
        const semaphore_permits too_many(permits, 2, std::try_to_lock);
        CHECK_FALSE(too_many);
        second.give_back();
        CHECK(permits.available() == 3);
        CHECK_THROWS_AS(second.give_back(), std::system_error);

        second = co_await permits.scoped_acquire(3);
        CHECK(second.forget() == 3);
        CHECK(permits.available() == 0);
        CHECK_FALSE(second);
        first = semaphore_permits(permits, 3, std::adopt_lock);
    };
    run_alone(main());
}

TEST_CASE("a guard gives its permits to who waits, also from another task") {
    const auto main = []() -> weft::task<> {
        semaphore permits(1);
        auto guard = co_await permits.scoped_acquire();
        auto waiting = weft::co_spawn([](semaphore& from) -> weft::task<std::size_t> {
            const auto own = co_await from.scoped_acquire();
            co_return own.count();
        }, std::ref(permits));
        co_await weft::test::settle();
        auto keeper = weft::co_spawn([](semaphore_permits kept) -> weft::task<> {
            co_await weft::yield();
            kept.give_back();
        }, std::move(guard));
        CHECK(permits.available() == 0);
        const std::size_t got = co_await std::move(waiting);
        CHECK(got == 1);
        co_await std::move(keeper);
        CHECK(permits.available() == 1);
    };
    run_alone(main());
}

TEST_CASE("a semaphore that is destroyed before a guard is an assertion, or the guard lets go") {
    const auto main = []() -> weft::task<> {
        auto permits = std::make_unique<semaphore>(2);
        const auto guard = co_await permits->scoped_acquire();
        permits.reset();
        CHECK_FALSE(guard);
    };
#ifdef NDEBUG
    run_alone(main());
#else
    const auto child = weft::test::run_in_child([&] { run_alone(main()); });
    INFO(child.describe());
    CHECK(child.aborted_with("while a guard keeps permits of it"));
#endif
}

TEST_CASE("at the end of a runtime a semaphore and its guards are destroyed in any order") {
    const auto main = []() -> weft::task<> {
        const auto keep = [](semaphore& from) -> weft::task<> {
            const auto guard = co_await from.scoped_acquire();
            co_await stay();
        };
        const auto own = [](auto body, bool first) -> weft::task<> {
            semaphore permits(2);
            if (!first) weft::co_spawn(body, std::ref(permits)).detach();
            const auto guard = co_await permits.scoped_acquire();
            for (int i = 0; i < 3; ++i) weft::co_spawn(body, std::ref(permits)).detach();
            co_await stay();
        };
        weft::co_spawn(own, keep, true).detach();
        weft::co_spawn(own, keep, false).detach();
        co_await weft::test::let_others_run();
    };
    weft::run(main(), {.processors = 1, .compensate = false, .shutdown_grace = 0ms});
}

TEST_CASE("at the end of a runtime tasks may still wait at a semaphore that is destroyed first") {
    const auto main = []() -> weft::task<> {
        auto permits = std::make_shared<semaphore>(1);
        for (int i = 0; i < 4; ++i) {
            weft::co_spawn(
                [](std::shared_ptr<semaphore> from) -> weft::task<> {
                    co_await weft::as_result(from->acquire());
                    co_await weft::as_result(from->acquire());
                    co_await weft::as_result(from->acquire());
                },
                permits)
                .detach();
        }
        co_await weft::test::settle();
    };
    run_alone(main());
}

TEST_CASE("a permit of a task that ends with its runtime before it could run is passed on") {
    const weft::test::watchdog dog(60s, [] { return std::string(); });
    semaphore permits(0);
    weft::runtime survivor({.processors = 1});
    const weft::runtime::guard held(survivor);
    const auto main = [](semaphore& from, weft::runtime& other,
                         weft::join_handle<std::error_code>& behind) -> weft::task<> {
        auto first = weft::co_spawn(acquire_as_result, std::ref(from), std::size_t{1});
        co_await weft::test::settle();
        behind = other.co_spawn(acquire_as_result, std::ref(from), std::size_t{1});
        // Behind so many tasks that the runtime has ended before it is the turn of the first one.
        const auto spawn_another = [] {
            weft::co_spawn([]() -> weft::task<> { co_return; }).detach();
        };
        for (int i = 0; i < 200; ++i) spawn_another();
        from.release();
        spawn_another();
        first.detach();
    };
    weft::join_handle<std::error_code> behind;
    weft::run(main(permits, survivor, behind),
              {.processors = 1, .compensate = false, .shutdown_grace = 0ms});
    CHECK_FALSE(behind.get());
    CHECK(permits.available() == 0);
}

TEST_CASE("threads outside release permits for tasks of two runtimes") {
    const weft::test::watchdog dog(60s, [] { return std::string(); });
    semaphore permits(0);
    weft::runtime one({.processors = 1});
    weft::runtime other({.processors = 2});
    std::vector<weft::join_handle<std::error_code>> tasks;
    for (int i = 0; i < 20; ++i) {
        tasks.push_back(one.co_spawn(acquire_as_result, std::ref(permits), std::size_t{1}));
        tasks.push_back(other.co_spawn(acquire_as_result, std::ref(permits), std::size_t{2}));
    }
    const weft::runtime::guard of_one(one);
    const weft::runtime::guard of_other(other);
    std::thread outside([&] {
        for (int i = 0; i < 60; ++i) permits.release();
    });
    outside.join();
    for (auto& each : tasks) CHECK_FALSE(each.get());
    CHECK(permits.available() == 0);
}
