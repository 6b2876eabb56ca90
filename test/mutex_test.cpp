// SPDX-License-Identifier: MIT
#include <weft/mutex.hpp>

#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/kept_log.hpp"
#include "support/leftover_lock.hpp"
#include "support/one_processor.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/as_result.hpp>
#include <weft/deadlock.hpp>
#include <weft/error.hpp>
#include <weft/runtime.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/this_task.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using weft::mutex;
using lock = weft::unique_lock<mutex>;
using weft::test::let_others_run;
using weft::test::run_alone;

namespace {

/// Longer than a waiter is patient.
void keep_the_thread() {
    const auto until = std::chrono::steady_clock::now() + 2ms;
    while (std::chrono::steady_clock::now() < until) {}
}

/// Locks once and notes that it was there.
weft::task<> pass(mutex& m, std::vector<int>& order, int who) {
    const lock held = co_await m.scoped_lock();
    order.push_back(who);
}

/// Waits for the mutex, and tells how that ended.
weft::task<std::error_code> try_pass(mutex& m) {
    const auto held = co_await weft::as_result(m.scoped_lock());
    co_return held ? std::error_code() : held.error();
}

}  // namespace

TEST_CASE("sections of a mutex never overlap, also where they suspend") {
    struct shared {
        mutex m;
        int inside = 0;
        int sections = 0;
        bool overlapped = false;
    };
    const auto work = [](shared& all) -> weft::task<> {
        for (int i = 0; i < 200; ++i) {
            const lock held = co_await all.m.scoped_lock();
            all.overlapped |= all.inside++ != 0;
            if (i % 3 == 0) co_await weft::yield();
            --all.inside;
            ++all.sections;
        }
    };
    const auto main = [](auto each, shared& all) -> weft::task<> {
        std::vector<weft::join_handle<void>> tasks;
        for (int i = 0; i < 10; ++i) tasks.push_back(weft::co_spawn(each, std::ref(all)));
        for (auto& task : tasks) co_await std::move(task);
    };
    for (const unsigned processors : {1U, 2U, 8U}) {
        shared all;
        weft::run(main(work, all), {.processors = processors});
        CHECK_FALSE(all.overlapped);
        CHECK(all.sections == 2000);
        CHECK(all.m.try_lock());
        all.m.unlock();
    }
}

TEST_CASE("a mutex that is free is locked at once, and one that is held is not tried in vain") {
    const auto main = []() -> weft::task<> {
        mutex m;
        co_await m.lock();
        CHECK_FALSE(m.try_lock());
        const lock tried(m, std::try_to_lock);
        CHECK_FALSE(tried.owns_lock());
        m.unlock();
        CHECK(m.try_lock());
        m.unlock();
    };
    run_alone(main());
}

TEST_CASE("S36: who waits for a mutex is served first in, first out") {
    const auto main = []() -> weft::task<> {
        mutex m;
        std::vector<int> order;
        std::vector<weft::join_handle<void>> tasks;
        {
            const lock held = co_await m.scoped_lock();
            for (int who = 0; who < 5; ++who) {
                tasks.push_back(weft::co_spawn(pass, std::ref(m), std::ref(order), int(who)));
                co_await weft::yield();
            }
            CHECK(order.empty());
        }
        // Unlocking has not run the next one; it runs as soon as this task lets it.
        CHECK(order.empty());
        for (auto& each : tasks) co_await std::move(each);
        CHECK(order == std::vector<int>{0, 1, 2, 3, 4});
    };
    run_alone(main());
}

TEST_CASE("a mutex knows the task that holds it") {
    const auto main = []() -> weft::task<> {
        mutex m;
        CHECK(m.holder() == 0);
        co_await m.lock();
        CHECK(m.holder() == weft::this_task::id());
        std::uint64_t seen = 0;
        auto other = weft::co_spawn(
            [](mutex& shared, std::uint64_t& holder) -> weft::task<> {
                const lock held = co_await shared.scoped_lock();
                holder = shared.holder();
            },
            std::ref(m), std::ref(seen));
        const std::uint64_t id = other.id();
        co_await weft::yield();
        CHECK(m.holder() == weft::this_task::id());
        m.unlock();
        co_await std::move(other);
        CHECK(seen == id);
        CHECK(m.holder() == 0);
        CHECK(m.try_lock());
        CHECK(m.holder() == weft::this_task::id());
        m.unlock();
    };
    run_alone(main());
}

TEST_CASE("a guard unlocks once: at the end of its scope, by unlock(), or where it was moved to") {
    STATIC_REQUIRE_FALSE(std::is_copy_constructible_v<lock>);
    STATIC_REQUIRE(std::is_nothrow_move_constructible_v<lock>);
    const auto main = []() -> weft::task<> {
        mutex m;
        mutex other;
        {
            lock first = co_await m.scoped_lock();
            CHECK(first.owns_lock());
            CHECK(first.mutex() == &m);
            lock second(std::move(first));
            CHECK_FALSE(first);
            CHECK(second);
            CHECK_FALSE(m.try_lock());
            first = std::move(second);
            CHECK_FALSE(m.try_lock());
            first.unlock();
            CHECK(first.mutex() == nullptr);
            CHECK(m.try_lock());
            const lock adopted(m, std::adopt_lock);
            CHECK_THROWS_AS(first.unlock(), std::system_error);
        }
        {
            lock held = co_await m.scoped_lock();
            held = co_await other.scoped_lock();  // Unlocks what it had.
            CHECK(m.try_lock());
            CHECK(held.release() == &other);
        }
        CHECK(m.holder() == other.holder());
        CHECK_FALSE(other.try_lock());
        other.unlock();
        m.unlock();
    };
    run_alone(main());
}

TEST_CASE("a wait for a mutex that is stopped leaves the line") {
    const auto main = []() -> weft::task<> {
        mutex m;
        std::vector<int> order;
        co_await m.lock();
        auto first = weft::co_spawn(try_pass, std::ref(m));
        co_await weft::yield();
        auto second = weft::co_spawn(pass, std::ref(m), std::ref(order), 2);
        co_await weft::yield();
        first.request_stop();
        const std::error_code error = co_await std::move(first);
        CHECK(error == std::errc::operation_canceled);
        const auto late = co_await weft::as_result(weft::with_timeout(1ms, m.scoped_lock()));
        REQUIRE_FALSE(late);
        CHECK(late.error() == std::errc::timed_out);
        m.unlock();
        co_await std::move(second);
        CHECK(order == std::vector<int>{2});
        // A scope that is stopped already comes first, even if the mutex is free.
        const auto never = co_await weft::as_result(weft::with_timeout(0ms, m.scoped_lock()));
        CHECK_FALSE(never);
        CHECK(m.try_lock());
        m.unlock();
    };
    run_alone(main());
}

TEST_CASE("a task that was woken and then stopped wakes the next one") {
    const auto main = []() -> weft::task<> {
        mutex m;
        std::vector<int> order;
        co_await m.lock();
        auto first = weft::co_spawn(try_pass, std::ref(m));
        co_await weft::yield();
        auto second = weft::co_spawn(pass, std::ref(m), std::ref(order), 2);
        co_await weft::yield();
        m.unlock();  // The first one is woken, and has not run yet.
        first.request_stop();
        const std::error_code error = co_await std::move(first);
        CHECK(error == std::errc::operation_canceled);
        co_await std::move(second);
        CHECK(order == std::vector<int>{2});
        CHECK(m.try_lock());
        m.unlock();
    };
    run_alone(main());
}

TEST_CASE("a task that was woken and then stopped forgets nobody while the mutex is held again") {
    const auto main = []() -> weft::task<> {
        mutex m;
        std::vector<int> order;
        co_await m.lock();
        auto first = weft::co_spawn(try_pass, std::ref(m));
        co_await weft::yield();
        auto second = weft::co_spawn(pass, std::ref(m), std::ref(order), 2);
        co_await weft::yield();
        m.unlock();
        CHECK(m.try_lock());  // A running task is faster than one that was woken.
        first.request_stop();
        const std::error_code error = co_await std::move(first);
        CHECK(error == std::errc::operation_canceled);
        CHECK(order.empty());
        m.unlock();
        co_await std::move(second);
        CHECK(order == std::vector<int>{2});
    };
    run_alone(main());
}

TEST_CASE("a task that loses for more than a millisecond is handed the mutex") {
    const auto main = []() -> weft::task<> {
        mutex m;
        std::vector<int> order;
        co_await m.lock();
        auto first = weft::co_spawn(pass, std::ref(m), std::ref(order), 1);
        co_await weft::yield();
        auto second = weft::co_spawn(pass, std::ref(m), std::ref(order), 2);
        co_await weft::yield();
        keep_the_thread();
        m.unlock();
        CHECK(m.try_lock());
        co_await let_others_run();  // The first one tries in vain.
        CHECK(order.empty());
        m.unlock();
        CHECK_FALSE(m.try_lock());  // It is the first one's now.
        CHECK(m.holder() == first.id());
        co_await std::move(first);
        co_await std::move(second);
        CHECK(order == std::vector<int>{1, 2});
        CHECK(m.try_lock());
        m.unlock();
    };
    run_alone(main());
}

TEST_CASE("a task that was handed the mutex and then stopped has it all the same") {
    const auto main = []() -> weft::task<> {
        mutex m;
        co_await m.lock();
        auto waiter = weft::co_spawn(try_pass, std::ref(m));
        co_await weft::yield();
        keep_the_thread();
        m.unlock();
        CHECK(m.try_lock());
        co_await let_others_run();
        m.unlock();
        CHECK(m.holder() == waiter.id());
        waiter.request_stop();
        const std::error_code error = co_await std::move(waiter);
        CHECK_FALSE(error);
        CHECK(m.try_lock());
        m.unlock();
    };
    run_alone(main());
}

TEST_CASE("a task that locks and never waits is stopped, and lets others in") {
    const auto main = []() -> weft::task<> {
        mutex m;
        auto busy = weft::co_spawn(
            [](mutex& own) -> weft::task<> {
                for (;;) { const lock held = co_await own.scoped_lock(); }
            },
            std::ref(m));
        co_await weft::yield();  // Comes back although the other one is always ready.
        busy.request_stop();
        const auto result = co_await weft::as_result(std::move(busy));
        REQUIRE_FALSE(result);
        CHECK(result.error() == std::errc::operation_canceled);
    };
    run_alone(main());
}

TEST_CASE("a task never goes behind others between locking and its section") {
    const auto main = []() -> weft::task<> {
        mutex m;
        auto busy = weft::co_spawn(
            [](mutex& shared) -> weft::task<> {
                for (int i = 0; i < 2'000; ++i) const lock held = co_await shared.scoped_lock();
            },
            std::ref(m));
        int turns = 0;
        for (; !busy.done(); ++turns) {
            // Its sections do not suspend, so it is in none of them while this task runs.
            if (!m.try_lock()) break;
            m.unlock();
            co_await weft::yield();
        }
        CHECK(busy.done());
        CHECK(turns > 2);  // It has gone behind this task.
        co_await std::move(busy);
    };
    run_alone(main());
}

TEST_CASE("threads outside lock a mutex of tasks without waiting") {
    struct shared {
        mutex m;
        std::atomic<bool> ended{false};
        int sections = 0;
    } all;
    const weft::test::watchdog dog(20s, [] { return std::string(); });
    weft::runtime runtime({.processors = 2});
    auto tasks = runtime.co_spawn(
        [](shared& with) -> weft::task<> {
            for (int i = 0; i < 10'000; ++i) {
                const lock held = co_await with.m.scoped_lock();
                ++with.sections;
            }
            with.ended = true;
        },
        std::ref(all));
    int outside = 0;
    while (!all.ended) {
        if (const lock held(all.m, std::try_to_lock); held) {
            ++all.sections;
            ++outside;
        }
    }
    tasks.get();
    CHECK(all.sections == 10'000 + outside);
}

TEST_CASE("fault 35: all tasks asleep: the report says who holds the mutex", "[deadlock]") {
    weft::test::kept_log log;
    mutex first;
    mutex second;
    std::string ids[2];
    const auto lock_both = [](mutex& one, mutex& other) -> weft::task<> {
        const lock held = co_await one.scoped_lock();
        co_await weft::yield();
        const lock never = co_await other.scoped_lock();
    };
    const auto main = [&](auto both) -> weft::task<> {
        auto opposite = weft::co_spawn(both, std::ref(second), std::ref(first));
        ids[0] = std::to_string(weft::this_task::id());
        ids[1] = std::to_string(opposite.id());
        co_await both(first, second);
        co_await std::move(opposite);
    };
    CHECK_THROWS_AS(weft::run(main(lock_both), {.processors = 1,
                                                .deadlock = weft::deadlock_action::throw_exception,
                                                .log = log.sink()}),
                    weft::deadlock_error);
    INFO(log.text());
    for (const std::string& each : ids) {
        CHECK(log.count("waits for a lock that task " + each + " holds at ") == 1);
    }
}

TEST_CASE("at the end of a runtime a mutex and those who use it are destroyed in any order") {
    const auto lock_it = [](mutex& m) { return m.scoped_lock(); };
    for (const bool owner_first : {true, false}) {
        CHECK(weft::test::leave_behind<mutex>(owner_first, [&](auto& left) {
            weft::co_spawn(left.hold(lock_it)).detach();
            for (int i = 0; i < 3; ++i) weft::co_spawn(left.wait(lock_it)).detach();
        }));
    }
}

namespace {

/// Two runtimes share it, and one of them ends while its tasks wait, hold it, or were handed it.
struct contest {
    mutex m;
    std::atomic<int> inside{0};
    std::atomic<bool> overlapped{false};
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> sections{0};

    /// Counts those who are in a section, also where their frame is destroyed in it.
    struct visit {
        explicit visit(contest& in) : at(in) { at.overlapped = at.overlapped || ++at.inside != 1; }
        ~visit() { --at.inside; }
        visit(const visit&) = delete;
        visit& operator=(const visit&) = delete;
        contest& at;
    };

    weft::task<> take_part(bool counts) {
        for (unsigned i = 0; !over; ++i) {
            const auto held = co_await weft::as_result(m.scoped_lock());
            if (!held) {
                co_await weft::yield();  // Stopped: goes on until it is destroyed.
                continue;
            }
            const visit here(*this);
            // So that those who wait lose their patience, and are handed the mutex.
            if (i % 16 == 0) keep_the_thread();
            if (i % 2 == 0) co_await weft::yield();
            if (counts) ++sections;
        }
    }
};

}  // namespace

TEST_CASE("what a runtime that ends leaves of a mutex goes on to the tasks of another one") {
    const weft::test::watchdog dog(30s, [] { return std::string("nobody gets the mutex"); });
    contest all;
    weft::test::outlast_runtimes(all, weft::test::long_run() ? 500 : 10,
                                 [&](int, bool counts) { return all.take_part(counts); });
    CHECK_FALSE(all.overlapped);
    CHECK(all.inside == 0);
    CHECK(all.m.try_lock());
    all.m.unlock();
}

namespace {

/// How a child process ends that misuses a mutex.
template <class Body>
auto misuse(Body body) {
    return weft::test::run_in_child([&] { run_alone(body()); });
}

weft::task<> unlock_free() {
    mutex m;
    m.unlock();
    weft::test::child_check(m.try_lock(), "the mutex is locked");
    m.unlock();
    co_return;
}

weft::task<> unlock_of_another() {
    mutex m;
    co_await m.lock();
    co_await weft::co_spawn(
        [](mutex& held) -> weft::task<> {
            held.unlock();
            co_return;
        },
        std::ref(m));
    weft::test::child_check(m.try_lock(), "the mutex is locked");
    m.unlock();
}

/// By the first task of another runtime, as this one is the first one of its own.
weft::task<> unlock_of_another_runtime() {
    mutex m;
    co_await m.lock();
    weft::runtime other({.processors = 1});
    co_await other.co_spawn(
        [](mutex& held) -> weft::task<> {
            held.unlock();
            co_return;
        },
        std::ref(m));
    weft::test::child_check(m.try_lock(), "the mutex is locked");
    m.unlock();
}

weft::task<> destroy_locked() {
    auto m = std::make_unique<mutex>();
    lock held = co_await m->scoped_lock();
    m.reset();
    weft::test::child_check(!held, "the guard still locks what is gone");
}

weft::task<> destroy_awaited() {
    auto m = std::make_unique<mutex>();
    co_await m->lock();
    auto waiter = weft::co_spawn(try_pass, std::ref(*m));
    co_await weft::yield();
    m.reset();
    const std::error_code error = co_await std::move(waiter);
    weft::test::child_check(error == weft::errc::closed, "the waiter does not learn it");
}

}  // namespace

TEST_CASE("misuse of a mutex is an assertion in debug builds, and has a defined end in others") {
    const std::pair<weft::test::child_result, const char*> ends[] = {
        {misuse(unlock_free), "was unlocked that is not locked"},
        {misuse(unlock_of_another), "by another task than its holder"},
        {misuse(unlock_of_another_runtime), "by another task than its holder"},
        {misuse(destroy_locked), "was destroyed that is locked"},
        {misuse(destroy_awaited), "was destroyed"},
    };
    for (const auto& [result, text] : ends) {
        INFO(text << ": " << result.describe());
#ifndef NDEBUG
        CHECK(result.aborted_with(text));
#else
        CHECK(result.signal == 0);
        CHECK(result.status == 0);
#endif
    }
}
