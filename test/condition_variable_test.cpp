// SPDX-License-Identifier: MIT
#include <weft/condition_variable.hpp>

#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/kept_log.hpp"
#include "support/one_processor.hpp"
#include "support/watchdog.hpp"

#include <weft/as_result.hpp>
#include <weft/deadlock.hpp>
#include <weft/error.hpp>
#include <weft/runtime.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using weft::condition_variable;
using weft::mutex;
using lock = weft::unique_lock<mutex>;
using weft::test::let_others_run;
using weft::test::run_alone;

namespace {

struct shared {
    mutex m;
    condition_variable changed;
    std::vector<int> order;

    /// Waits for one notification, and notes that it had the mutex then.
    weft::task<> wait_once(int who) {
        lock held = co_await m.scoped_lock();
        co_await changed.wait(held);
        order.push_back(held.owns_lock() && !m.try_lock() ? who : -who);
    }
    /// The same, and tells how the wait ended.
    weft::task<std::error_code> try_wait() {
        lock held = co_await m.scoped_lock();
        const auto waited = co_await weft::as_result(changed.wait(held));
        order.push_back(held.owns_lock() && !m.try_lock() ? 0 : -1);
        co_return waited ? std::error_code() : waited.error();
    }
};

}  // namespace

TEST_CASE("S36: tasks hand values over through a queue with a mutex and two conditions") {
    struct bounded {
        mutex m;
        condition_variable not_empty, not_full;
        std::deque<int> values;
    };
    const auto produce = [](bounded& to, int count) -> weft::task<> {
        for (int i = 1; i <= count; ++i) {
            lock held = co_await to.m.scoped_lock();
            co_await to.not_full.wait(held, [&] { return to.values.size() < 3; });
            to.values.push_back(i);
            to.not_empty.notify_one();
        }
    };
    const auto consume = [](bounded& from, int count) -> weft::task<long> {
        long sum = 0;
        for (int i = 0; i < count; ++i) {
            lock held = co_await from.m.scoped_lock();
            co_await from.not_empty.wait(held, [&] { return !from.values.empty(); });
            sum += from.values.front();
            from.values.pop_front();
            held.unlock();
            from.not_full.notify_one();
        }
        co_return sum;
    };
    const auto main = [](auto from, auto to) -> weft::task<long> {
        bounded between;
        std::vector<weft::join_handle<void>> producers;
        std::vector<weft::join_handle<long>> consumers;
        for (int i = 0; i < 3; ++i) {
            producers.push_back(weft::co_spawn(from, std::ref(between), 500));
            consumers.push_back(weft::co_spawn(to, std::ref(between), 500));
        }
        long sum = 0;
        for (auto& each : producers) co_await std::move(each);
        for (auto& each : consumers) sum += co_await std::move(each);
        co_return sum;
    };
    for (const unsigned processors : {1U, 2U, 8U}) {
        CHECK(weft::run(main(produce, consume), {.processors = processors}) == 3 * 125'250);
    }
}

TEST_CASE("S36: a notification wakes one, first in, first out, and it has the mutex") {
    const auto main = []() -> weft::task<> {
        shared all;
        std::vector<weft::join_handle<void>> tasks;
        all.changed.notify_one();  // Nobody waits: it is not kept.
        for (int who = 1; who <= 4; ++who) {
            tasks.push_back(weft::co_spawn(all.wait_once(who)));
            co_await let_others_run();
        }
        for (int count = 1; count <= 2; ++count) {
            all.changed.notify_one();
            co_await let_others_run();
            CHECK(all.order.size() == static_cast<std::size_t>(count));
        }
        all.changed.notify_all();
        for (auto& each : tasks) co_await std::move(each);
        CHECK(all.order.size() == 4);
        all.order.resize(2);
        CHECK(all.order == std::vector<int>{1, 2});
    };
    run_alone(main());
}

TEST_CASE("a condition that is true already is not waited for") {
    const auto main = []() -> weft::task<> {
        shared all;
        lock held = co_await all.m.scoped_lock();
        int looked = 0;
        co_await all.changed.wait(held, [&] { return ++looked == 1; });
        CHECK(looked == 1);
        CHECK(held.owns_lock());
    };
    run_alone(main());
}

TEST_CASE("a wait may go without a guard") {
    const auto main = []() -> weft::task<> {
        shared all;
        bool ready = false;
        co_await all.m.lock();
        auto other = weft::co_spawn(
            [](shared& with, bool& changed) -> weft::task<> {
                const lock held = co_await with.m.scoped_lock();
                changed = true;
                with.changed.notify_one();
            },
            std::ref(all), std::ref(ready));
        co_await all.changed.wait(all.m, [&] { return ready; });
        CHECK_FALSE(all.m.try_lock());
        const auto late =
            co_await weft::as_result(weft::with_timeout(1ms, all.changed.wait(all.m)));
        CHECK_FALSE(late);
        CHECK_FALSE(all.m.try_lock());
        all.m.unlock();
        co_await std::move(other);
    };
    run_alone(main());
}

TEST_CASE("a wait with a guard that locks nothing throws") {
    condition_variable changed;
    lock none;
    CHECK_THROWS_AS(static_cast<void>(changed.wait(none)), std::system_error);
}

TEST_CASE("a wait that is stopped or late has the mutex when it throws, and no notification") {
    const auto main = []() -> weft::task<> {
        shared all;
        auto stopped = weft::co_spawn(all.try_wait());
        co_await let_others_run();
        auto second = weft::co_spawn(all.wait_once(2));
        co_await let_others_run();
        {
            // It cannot come back before it has the mutex.
            const lock held = co_await all.m.scoped_lock();
            stopped.request_stop();
            co_await let_others_run();
            CHECK_FALSE(stopped.done());
        }
        const std::error_code error = co_await std::move(stopped);
        CHECK(error == std::errc::operation_canceled);
        all.changed.notify_one();
        co_await std::move(second);
        CHECK(all.order == std::vector<int>{0, 2});

        lock held = co_await all.m.scoped_lock();
        const auto late = co_await weft::as_result(weft::with_timeout(1ms, all.changed.wait(held)));
        REQUIRE_FALSE(late);
        CHECK(late.error() == std::errc::timed_out);
        CHECK(held.owns_lock());
        CHECK_FALSE(all.m.try_lock());
        // A scope that is stopped already does not unlock.
        const auto never =
            co_await weft::as_result(weft::with_timeout(0ms, all.changed.wait(held)));
        CHECK_FALSE(never);
        CHECK(held.owns_lock());
    };
    run_alone(main());
}

TEST_CASE("a task that was notified and then stopped uses its notification") {
    const auto main = []() -> weft::task<> {
        shared all;
        auto waiter = weft::co_spawn(all.try_wait());
        co_await let_others_run();
        {
            const lock held = co_await all.m.scoped_lock();
            all.changed.notify_one();
            SECTION("before it runs") {
                waiter.request_stop();
            }
            SECTION("while it waits for the mutex") {
                co_await let_others_run();
                waiter.request_stop();
                co_await let_others_run();
            }
            CHECK_FALSE(waiter.done());
        }
        const std::error_code error = co_await std::move(waiter);
        CHECK_FALSE(error);
        CHECK(all.order == std::vector<int>{0});
        CHECK(all.m.try_lock());
        all.m.unlock();
    };
    run_alone(main());
}

TEST_CASE("threads outside notify tasks") {
    const weft::test::watchdog dog(20s, [] { return std::string(); });
    shared all;
    std::atomic<bool> ready{false};
    weft::runtime runtime({.processors = 2});
    auto waiter = runtime.co_spawn(
        [](shared& with, std::atomic<bool>& seen) -> weft::task<> {
            lock held = co_await with.m.scoped_lock();
            co_await with.changed.wait(held, [&] { return seen.load(); });
        },
        std::ref(all), std::ref(ready));
    {
        lock held;
        while (!held) held = lock(all.m, std::try_to_lock);
        ready = true;
    }
    all.changed.notify_all();
    waiter.get();
}

TEST_CASE("fault 35: all tasks asleep: a condition that nobody notifies", "[deadlock]") {
    weft::test::kept_log log;
    const auto main = []() -> weft::task<> {
        shared all;
        co_await all.wait_once(1);
    };
    CHECK_THROWS_AS(weft::run(main(), {.processors = 1,
                                       .deadlock = weft::deadlock_action::throw_exception,
                                       .log = log.sink()}),
                    weft::deadlock_error);
    CHECK(log.count("waits for a condition at ") == 1);
}

namespace {

/// A task that was stopped while it waited for the condition, and so waits for the mutex, which
/// another one holds. Neither of them ends by itself.
struct leftover {
    shared all;
    bool waiting = false;

    weft::task<> hold() {
        while (!waiting) co_await weft::yield();
        const auto held = co_await weft::as_result(all.m.scoped_lock());
        for (;;) co_await weft::as_result(weft::sleep_for(1h));
    }
    weft::task<> wait() {
        lock held = co_await all.m.scoped_lock();
        waiting = true;
        co_await weft::as_result(all.changed.wait(held));
        for (;;) co_await weft::as_result(weft::sleep_for(1h));
    }
    weft::task<bool> leave(bool holder_first, bool notified) {
        // Frames are destroyed in the order in which their tasks were spawned.
        if (holder_first) weft::co_spawn(hold()).detach();
        auto waiter = weft::co_spawn(wait());
        if (!holder_first) weft::co_spawn(hold()).detach();
        while (!waiting || all.m.try_lock()) {
            if (waiting) all.m.unlock();
            co_await weft::yield();
        }
        co_await let_others_run();
        if (notified) all.changed.notify_one();
        co_await let_others_run();
        waiter.request_stop();
        co_await let_others_run();
        const bool waits = !waiter.done();
        waiter.detach();
        co_return waits;
    }
};

}  // namespace

TEST_CASE("at the end of a runtime a task may still wait for the mutex of its condition") {
    const weft::test::watchdog dog(20s, [] { return std::string("the runtime does not end"); });
    for (const bool holder_first : {true, false}) {
        for (const bool notified : {true, false}) {
            leftover left;
            CHECK(weft::run(left.leave(holder_first, notified),
                            {.processors = 1, .shutdown_grace = 0ms}));
            CHECK(left.all.m.try_lock());
            left.all.m.unlock();
        }
    }
}

namespace {

weft::task<> destroy_awaited() {
    auto m = std::make_unique<mutex>();
    auto changed = std::make_unique<condition_variable>();
    auto waiter = weft::co_spawn(
        [](mutex& guards, condition_variable& on) -> weft::task<std::error_code> {
            lock held = co_await guards.scoped_lock();
            const auto waited = co_await weft::as_result(on.wait(held));
            weft::test::child_check(held.owns_lock(), "the mutex is not locked");
            co_return waited ? std::error_code() : waited.error();
        },
        std::ref(*m), std::ref(*changed));
    co_await let_others_run();
    changed.reset();
    const std::error_code error = co_await std::move(waiter);
    weft::test::child_check(error == weft::errc::closed, "the waiter does not learn it");
}

}  // namespace

TEST_CASE("destroying a condition variable that is waited for is an assertion in debug builds") {
    const auto result = weft::test::run_in_child([] { run_alone(destroy_awaited()); });
    INFO(result.describe());
#ifndef NDEBUG
    CHECK(result.aborted_with("a weft::condition_variable was destroyed while tasks wait"));
#else
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
#endif
}
