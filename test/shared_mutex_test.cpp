// SPDX-License-Identifier: MIT
#include <weft/shared_mutex.hpp>

#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/leftover_lock.hpp"
#include "support/one_processor.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/as_result.hpp>
#include <weft/error.hpp>
#include <weft/runtime.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/this_task.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using weft::shared_mutex;
using lock = weft::unique_lock<shared_mutex>;
using shared = weft::shared_lock<shared_mutex>;
using weft::test::let_others_run;
using weft::test::run_alone;

namespace {

/// Locks for itself, and notes that it was there.
weft::task<> write_once(shared_mutex& m, std::string& order, char who) {
    const lock held = co_await m.scoped_lock();
    order += who;
}

/// The same to read; it stays until it may leave.
weft::task<> read_once(shared_mutex& m, std::string& order, char who, bool& may_leave) {
    const shared held = co_await m.scoped_lock_shared();
    order += who;
    while (!may_leave) co_await weft::yield();
}

weft::task<std::error_code> try_write(shared_mutex& m) {
    const auto held = co_await weft::as_result(m.scoped_lock());
    co_return held ? std::error_code() : held.error();
}

}  // namespace

TEST_CASE("readers share a shared mutex, and a writer has it alone") {
    struct account {
        shared_mutex m;
        std::atomic<int> readers{0}, writers{0};
        std::atomic<int> most{0};
        std::atomic<bool> wrong{false};
        long guarded = 0;
    };
    const auto work = [](account& all, int who) -> weft::task<> {
        for (int i = 0; i < 100; ++i) {
            if ((who + i) % 4 == 0) {
                const lock held = co_await all.m.scoped_lock();
                if (++all.writers != 1 || all.readers != 0) all.wrong = true;
                ++all.guarded;
                if (i % 3 == 0) co_await weft::yield();
                --all.writers;
            } else {
                const shared held = co_await all.m.scoped_lock_shared();
                const int together = ++all.readers;
                if (all.most < together) all.most = together;
                if (all.writers != 0) all.wrong = true;
                if (i % 3 == 0) co_await weft::yield();
                --all.readers;
            }
        }
    };
    const auto main = [](auto each, account& all) -> weft::task<> {
        std::vector<weft::join_handle<void>> tasks;
        for (int who = 0; who < 10; ++who) {
            tasks.push_back(weft::co_spawn(each, std::ref(all), int(who)));
        }
        for (auto& task : tasks) co_await std::move(task);
    };
    for (const unsigned processors : {1U, 2U, 8U}) {
        account all;
        weft::run(main(work, all), {.processors = processors});
        CHECK_FALSE(all.wrong);
        CHECK(all.guarded == 250);
        CHECK(all.most > 1);
        CHECK(all.m.try_lock());
        all.m.unlock();
    }
}

TEST_CASE("the try forms of a shared mutex do not wait, and do not overtake who does") {
    const auto main = []() -> weft::task<> {
        shared_mutex m;
        bool may_leave = false;
        std::string order;
        CHECK(m.try_lock_shared());
        CHECK(m.try_lock_shared());
        CHECK_FALSE(m.try_lock());
        m.unlock_shared();
        auto writer = weft::co_spawn(write_once, std::ref(m), std::ref(order), 'w');
        co_await let_others_run();
        CHECK_FALSE(m.try_lock_shared());  // The writer comes first.
        auto reader =
            weft::co_spawn(read_once, std::ref(m), std::ref(order), 'r', std::ref(may_leave));
        co_await let_others_run();
        CHECK(order.empty());
        m.unlock_shared();
        may_leave = true;
        co_await std::move(writer);
        co_await std::move(reader);
        CHECK(order == "wr");
        {
            const shared first(m, std::try_to_lock);
            const lock second(m, std::try_to_lock);
            CHECK(first);
            CHECK_FALSE(second);
        }
        CHECK(m.try_lock());
        CHECK(m.holder() == weft::this_task::id());
        CHECK_FALSE(m.try_lock_shared());
        m.unlock();
        CHECK(m.holder() == 0);
    };
    run_alone(main());
}

TEST_CASE("S36: who waits for a shared mutex is served in order, readers together") {
    const auto main = []() -> weft::task<> {
        shared_mutex m;
        std::string order;
        bool may_leave = false;
        std::vector<weft::join_handle<void>> tasks;
        co_await m.lock();
        for (const char who : {'1', '2'}) {
            tasks.push_back(weft::co_spawn(read_once(m, order, who, may_leave)));
            co_await let_others_run();
        }
        tasks.push_back(weft::co_spawn(write_once(m, order, 'w')));
        co_await let_others_run();
        tasks.push_back(weft::co_spawn(read_once(m, order, '3', may_leave)));
        co_await let_others_run();
        m.unlock();
        CHECK(order.empty());  // Unlocking runs nobody.
        co_await let_others_run();
        CHECK((order == "12" || order == "21"));
        may_leave = true;
        for (auto& each : tasks) co_await std::move(each);
        CHECK(order.substr(2) == "w3");
    };
    run_alone(main());
}

TEST_CASE("guards of a shared mutex unlock once") {
    const auto main = []() -> weft::task<> {
        shared_mutex m;
        {
            shared first = co_await m.scoped_lock_shared();
            shared second(std::move(first));
            CHECK_FALSE(first);
            CHECK(second.mutex() == &m);
            first = co_await m.scoped_lock_shared();
            second.unlock();
            CHECK_THROWS_AS(second.unlock(), std::system_error);
            CHECK_FALSE(m.try_lock());
            second = std::move(first);
            CHECK(second.release() == &m);
            CHECK_FALSE(m.try_lock());
            const shared adopted(m, std::adopt_lock);
        }
        {
            lock alone = co_await m.scoped_lock();
            const lock moved(std::move(alone));
            CHECK_FALSE(m.try_lock_shared());
        }
        co_await m.lock_shared();
        m.unlock_shared();
        CHECK(m.try_lock());
        m.unlock();
    };
    run_alone(main());
}

TEST_CASE("a writer that is stopped lets the readers behind it in") {
    const auto main = []() -> weft::task<> {
        shared_mutex m;
        std::string order;
        bool may_leave = false;
        co_await m.lock_shared();
        auto writer = weft::co_spawn(try_write(m));
        co_await let_others_run();
        auto reader = weft::co_spawn(read_once(m, order, 'r', may_leave));
        co_await let_others_run();
        CHECK(order.empty());
        writer.request_stop();
        co_await let_others_run();
        CHECK(order == "r");  // Together with the one that has it still.
        may_leave = true;
        const std::error_code error = co_await std::move(writer);
        CHECK(error == std::errc::operation_canceled);
        co_await std::move(reader);
        const auto late = co_await weft::as_result(weft::with_timeout(1ms, m.scoped_lock()));
        REQUIRE_FALSE(late);
        CHECK(late.error() == std::errc::timed_out);
        m.unlock_shared();
        CHECK(m.try_lock());
        m.unlock();
    };
    run_alone(main());
}

TEST_CASE("a task that was served and then stopped has the shared mutex all the same") {
    const auto main = []() -> weft::task<> {
        shared_mutex m;
        co_await m.lock();
        auto writer = weft::co_spawn(try_write(m));
        co_await let_others_run();
        m.unlock();
        CHECK(m.holder() == writer.id());
        CHECK_FALSE(m.try_lock_shared());
        writer.request_stop();
        const std::error_code error = co_await std::move(writer);
        CHECK_FALSE(error);
        CHECK(m.try_lock());
        m.unlock();
    };
    run_alone(main());
}

TEST_CASE("at the end of a runtime a shared mutex and its users are destroyed in any order") {
    const auto read = [](shared_mutex& m) { return m.scoped_lock_shared(); };
    const auto write = [](shared_mutex& m) { return m.scoped_lock(); };
    for (const bool owner_first : {true, false}) {
        CHECK(weft::test::leave_behind<shared_mutex>(owner_first, [&](auto& left) {
            for (int i = 0; i < 3; ++i) weft::co_spawn(left.hold(read)).detach();
            for (int i = 0; i < 3; ++i) weft::co_spawn(left.wait(write)).detach();
        }));
    }
}

namespace {

/// Two runtimes share it, and one of them ends while its tasks wait, hold it, or were served.
struct contest {
    shared_mutex m;
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> sections{0};

    weft::task<> take_part(bool counts, bool writes) {
        while (!over) {
            bool held = false;
            if (writes) {
                const auto locked = co_await weft::as_result(m.scoped_lock());
                held = locked.has_value();
                co_await weft::as_result(weft::with_timeout(1ms, weft::yield()));
            } else {
                const auto locked = co_await weft::as_result(m.scoped_lock_shared());
                held = locked.has_value();
                co_await weft::as_result(weft::with_timeout(1ms, weft::yield()));
            }
            if (held && counts) ++sections;
        }
    }
};

}  // namespace

TEST_CASE("what a runtime that ends leaves of a shared mutex goes on to tasks of another one") {
    const weft::test::watchdog dog(30s, [] { return std::string("nobody gets the mutex"); });
    contest all;
    weft::test::outlast_runtimes(all, weft::test::long_run() ? 500 : 10, [&](int who, bool counts) {
        return all.take_part(counts, who % 2 == 0);
    });
    CHECK(all.m.try_lock());
    all.m.unlock();
}

namespace {

/// How a child process ends that misuses a shared mutex.
template <class Body>
auto misuse(Body body) {
    return weft::test::run_in_child([&] { run_alone(body()); });
}

weft::task<> unlock_free() {
    shared_mutex m;
    m.unlock();
    weft::test::child_check(m.try_lock(), "the mutex is locked");
    m.unlock();
    co_return;
}

weft::task<> unlock_unshared() {
    shared_mutex m;
    m.unlock_shared();
    weft::test::child_check(m.try_lock(), "the mutex is locked");
    m.unlock();
    co_return;
}

weft::task<> unlock_of_another() {
    shared_mutex m;
    co_await m.lock();
    co_await weft::co_spawn(
        [](shared_mutex& held) -> weft::task<> {
            held.unlock();
            co_return;
        },
        std::ref(m));
    weft::test::child_check(m.try_lock(), "the mutex is locked");
    m.unlock();
}

weft::task<> destroy_locked_alone() {
    auto m = std::make_unique<shared_mutex>();
    const lock held = co_await m->scoped_lock();
    m.reset();
    weft::test::child_check(!held, "the guard still locks what is gone");
}

weft::task<> destroy_locked() {
    auto m = std::make_unique<shared_mutex>();
    const shared held = co_await m->scoped_lock_shared();
    m.reset();
    weft::test::child_check(!held, "the guard still locks what is gone");
}

weft::task<> destroy_awaited() {
    auto m = std::make_unique<shared_mutex>();
    co_await m->lock();
    auto waiter = weft::co_spawn(try_write(*m));
    co_await weft::yield();
    m.reset();
    const std::error_code error = co_await std::move(waiter);
    weft::test::child_check(error == weft::errc::closed, "the waiter does not learn it");
}

}  // namespace

TEST_CASE("misuse of a shared mutex is an assertion in debug builds, and defined in others") {
    const std::pair<weft::test::child_result, const char*> ends[] = {
        {misuse(unlock_free), "was unlocked that is not locked"},
        {misuse(unlock_unshared), "that nobody shares"},
        {misuse(unlock_of_another), "by another task than its holder"},
        {misuse(destroy_locked_alone), "was destroyed that is locked"},
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
