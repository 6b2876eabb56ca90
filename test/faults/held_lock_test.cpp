// SPDX-License-Identifier: MIT
#include "lib/base/held_locks.hpp"
#include "support/catch.hpp"
#include "support/kept_log.hpp"
#include "support/one_processor.hpp"
#include "support/signal_cell.hpp"
#include "support/skip.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <source_location>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

// Row 19 of the fault catalogue: a std::mutex, or another lock of threads, that a task holds when
// it suspends is reported, where weft was built to count locks.

#define SKIP_UNLESS_COUNTED()                                                             \
    if constexpr (!weft::detail::counts_held_locks) {                                     \
        WEFT_SKIP("this build counts no locks of threads (the build option held_locks)"); \
    }                                                                                     \
    static_assert(true)

using namespace std::chrono_literals;
using weft::test::kept_log;
using weft::test::signal_cell;

namespace {

/// Runs a task alone on this thread, and gives what the runtime has logged.
template <class Task>
std::string log_of(Task task, bool report = true) {
    kept_log lines;
    weft::run(
        std::move(task),
        {.processors = 1, .compensate = false, .report_held_locks = report, .log = lines.sink()});
    return lines.text();
}

std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
}
std::size_t reports(const std::string& text) {
    return count(text, "while it holds");
}

/// A spin lock as a type that guards can lock.
class spin_lock_of_threads {
public:
    spin_lock_of_threads() { ::pthread_spin_init(&lock_, PTHREAD_PROCESS_PRIVATE); }
    ~spin_lock_of_threads() { ::pthread_spin_destroy(&lock_); }
    spin_lock_of_threads(const spin_lock_of_threads&) = delete;
    spin_lock_of_threads& operator=(const spin_lock_of_threads&) = delete;
    void lock() { ::pthread_spin_lock(&lock_); }
    bool try_lock() { return ::pthread_spin_trylock(&lock_) == 0; }
    void unlock() { ::pthread_spin_unlock(&lock_); }

private:
    pthread_spinlock_t lock_;
};

/// Each way to take a lock: `take` is called with one that is free, and `release` afterwards.
template <class Lock, class Take, class Release>
weft::task<> hold_over_await(Take take, Release release) {
    Lock held;
    take(held);
    co_await weft::yield();
    release(held);
}
template <class Lock, class Take, class Release>
weft::task<> release_before_await(Take take, Release release) {
    Lock held;
    take(held);
    release(held);
    co_await weft::yield();
}

/// A lock held over the await, then the same one released before.
template <class Lock, class Take, class Release>
void check_way(const char* name, Take take, Release release) {
    INFO(name);
    CHECK(reports(log_of(hold_over_await<Lock>(take, release))) == 1);
    CHECK(reports(log_of(release_before_await<Lock>(take, release))) == 0);
}

weft::task<> wait_for(signal_cell& cell) {
    co_await cell.wait();
}

}  // namespace

TEST_CASE("fault 19: a std::mutex held when its task suspends is reported with task and await",
          "[faults]") {
    SKIP_UNLESS_COUNTED();
    unsigned line = 0;
    const auto holder = [](unsigned& where) -> weft::task<> {
        std::mutex plain;
        const std::lock_guard held(plain);
        where = std::source_location::current().line() + 1;
        co_await weft::sleep_for(1ms);
    };
    const auto main = [&]() -> weft::task<> {
        auto handle = weft::co_spawn(weft::spawn_options{.name = "holder"}, holder, std::ref(line));
        co_await std::move(handle);
    };
    const std::string text = log_of(main());
    INFO(text);
    CHECK(reports(text) == 1);
    CHECK(count(text, "(holder), spawned at") == 1);
    CHECK(count(text, "held_lock_test.cpp:" + std::to_string(line) + " while it holds a lock") ==
          1);
    CHECK(count(text, "use weft::mutex") == 1);
}

TEST_CASE("fault 19: each place is reported once, however many tasks come by", "[faults]") {
    SKIP_UNLESS_COUNTED();
    const auto loop = []() -> weft::task<> {
        std::mutex first, second, third;
        for (int i = 0; i < 3; ++i) {
            const std::lock_guard one(first);
            co_await weft::yield();
            co_await weft::yield();  // It is held still, which was told.
            const std::scoped_lock more(second, third);
            co_await weft::yield();
        }
    };
    const auto main = [&]() -> weft::task<> {
        std::vector<weft::join_handle<void>> handles;
        for (int i = 0; i < 5; ++i) handles.push_back(weft::co_spawn(loop));
        for (auto& each : handles) co_await std::move(each);
    };
    const std::string text = log_of(main());
    INFO(text);
    CHECK(reports(text) == 2);
    CHECK(count(text, "while it holds a lock") == 1);
    CHECK(count(text, "while it holds 2 locks") == 1);
}

TEST_CASE("fault 19: every kind of lock counts, and none that was released before", "[faults]") {
    SKIP_UNLESS_COUNTED();
    const auto lock = [](auto& each) { each.lock(); };
    const auto unlock = [](auto& each) { each.unlock(); };
    const auto try_lock = [](auto& each) { static_cast<void>(each.try_lock()); };
    const auto lock_for = [](auto& each) { static_cast<void>(each.try_lock_for(1s)); };
    const auto lock_until = [](auto& each) {
        static_cast<void>(each.try_lock_until(std::chrono::system_clock::now() + 1s));
    };
    const auto share = [](auto& each) { each.lock_shared(); };
    const auto share_for = [](auto& each) { static_cast<void>(each.try_lock_shared_for(1s)); };
    const auto try_share = [](auto& each) { static_cast<void>(each.try_lock_shared()); };
    const auto unshare = [](auto& each) { each.unlock_shared(); };
    check_way<std::mutex>("mutex", lock, unlock);
    check_way<std::mutex>("mutex, tried", try_lock, unlock);
    check_way<std::recursive_mutex>("recursive mutex", lock, unlock);
    check_way<std::recursive_mutex>(
        "recursive mutex, twice", [](auto& each) { each.lock(), each.lock(); },
        [](auto& each) { each.unlock(), each.unlock(); });
    check_way<std::timed_mutex>("timed mutex, for a time", lock_for, unlock);
    check_way<std::timed_mutex>("timed mutex, until a time", lock_until, unlock);
    check_way<std::shared_mutex>("shared mutex", lock, unlock);
    check_way<std::shared_mutex>("shared mutex, tried", try_lock, unlock);
    check_way<std::shared_mutex>("shared mutex, shared", share, unshare);
    check_way<std::shared_mutex>("shared mutex, tried to share", try_share, unshare);
    check_way<std::shared_timed_mutex>("shared timed mutex, for a time", lock_for, unlock);
    check_way<std::shared_timed_mutex>("shared timed mutex, until a time", lock_until, unlock);
    check_way<std::shared_timed_mutex>("shared timed mutex, shared", share_for, unshare);
    check_way<spin_lock_of_threads>("spin lock", lock, unlock);
    check_way<spin_lock_of_threads>("spin lock, tried", try_lock, unlock);
}

TEST_CASE("fault 19: every way to suspend is looked at, and an await that goes on is not",
          "[faults]") {
    SKIP_UNLESS_COUNTED();
    const auto suspends = []() -> weft::task<> {
        std::mutex plain;
        signal_cell cell;
        auto other = weft::co_spawn(wait_for, std::ref(cell));
        std::unique_lock held(plain);
        co_await weft::yield();
        held.unlock();
        cell.signal();
        held.lock();
        co_await std::move(other);
        held.unlock();
        held.lock();
        co_await weft::when_all(weft::yield(), weft::yield());
        held.unlock();
        co_await weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
            group.spawn(weft::shield(weft::yield()));
            held.lock();
            co_return;
        });
        held.unlock();
        weft::channel<int> values;
        held.lock();
        static_cast<void>(co_await weft::as_result(weft::with_timeout(1ms, values.recv())));
        held.unlock();
        held.lock();
        co_await weft::blocking([] {});
    };
    const std::string text = log_of(suspends());
    INFO(text);
    // The yield, the join, the fork, the end of the group, the receive and the blocking call. The
    // children hold nothing.
    CHECK(reports(text) == 6);
    const auto goes_on = []() -> weft::task<> {
        std::mutex plain;
        const std::lock_guard held(plain);
        weft::channel<int> values(1);
        co_await values.send(1);
        co_await values.recv();
        co_await [](int) -> weft::task<> { co_return; }(1);
        weft::mutex of_tasks;
        (co_await of_tasks.scoped_lock()).unlock();
    };
    // Where the machine is busy the task may be asked to let others in, and is that a suspension.
    bool silent = false;
    for (int i = 0; i < 10 && !silent; ++i) silent = log_of(goes_on()).empty();
    CHECK(silent);
}

TEST_CASE("fault 19: locks that are balanced when the task suspends are not reported", "[faults]") {
    SKIP_UNLESS_COUNTED();
    const auto balanced = []() -> weft::task<> {
        std::mutex one, other;
        std::condition_variable changed;
        std::condition_variable_any changed_any;
        { const std::scoped_lock both(one, other); }
        co_await weft::yield();
        {
            // A wait for a condition releases the mutex and takes it again, in the C library.
            std::unique_lock held(one);
            changed.wait_for(held, 1ms);
            changed_any.wait_for(held, 1ms);
        }
        co_await weft::yield();
        {
            std::unique_lock held(one);
            std::thread thread([&] {
                if (one.try_lock()) one.unlock();  // In vain: that counts nothing.
            });
            thread.join();
            held.unlock();
            co_await weft::yield();
            held.lock();
        }
        co_await weft::yield();
        std::once_flag flag;
        std::call_once(flag, [] {});
        co_await weft::yield();
    };
    CHECK(log_of(balanced()).empty());
    const auto waits_for_condition = []() -> weft::task<> {
        std::mutex plain;
        std::condition_variable changed;
        std::unique_lock held(plain);
        changed.wait_for(held, 1ms);
        co_await weft::yield();
    };
    const std::string text = log_of(waits_for_condition());
    INFO(text);
    CHECK(count(text, "while it holds a lock") == 1);
}

TEST_CASE("fault 19: what the thread holds that calls run() is no lock of a task", "[faults]") {
    SKIP_UNLESS_COUNTED();
    std::mutex outer;
    const std::lock_guard held(outer);
    CHECK(log_of(weft::test::let_others_run()).empty());
}

TEST_CASE("fault 19: a task that ends with a lock is reported, and no other one for it",
          "[faults]") {
    SKIP_UNLESS_COUNTED();
    std::mutex left;
    const auto leaves = [](std::mutex& locked) -> weft::task<> {
        co_await weft::yield();
        locked.lock();
    };
    const auto main = [&]() -> weft::task<> {
        co_await weft::co_spawn(leaves, std::ref(left));
        co_await weft::test::let_others_run();
        left.unlock();
        co_await weft::test::let_others_run();
    };
    const std::string text = log_of(main());
    INFO(text);
    CHECK(reports(text) == 1);
    CHECK(count(text, "has ended while it holds a lock") == 1);
}

TEST_CASE("fault 19: a lock released on another thread than it was taken on is reported once",
          "[faults]") {
    SKIP_UNLESS_COUNTED();
    // A spin lock, which does not mind.
    spin_lock_of_threads shared;
    signal_cell cell;
    std::atomic<bool> waits{false};
    const auto carries = [&]() -> weft::task<> {
        shared.lock();
        waits = true;
        co_await cell.wait();
        shared.unlock();
        co_await weft::test::let_others_run();
    };
    const auto uses = []() -> weft::task<> {
        std::mutex own;
        for (int i = 0; i < 20; ++i) {
            { const std::lock_guard held(own); }
            co_await weft::yield();
        }
    };
    const auto main = [&]() -> weft::task<> {
        auto carrier = weft::co_spawn(carries);
        // The other worker takes it, and sleeps when it waits; this one goes on with it.
        weft::test::spin_until([&] {
            return waits.load() && weft::test::this_core().idle.parked_hint() != 0;
        });
        cell.signal();
        co_await std::move(carrier);
        std::vector<weft::join_handle<void>> others;
        for (int i = 0; i < 8; ++i) others.push_back(weft::co_spawn(uses));
        for (auto& each : others) co_await std::move(each);
    };
    kept_log lines;
    weft::run(main(), {.processors = 2, .log = lines.sink()});
    INFO(lines.text());
    CHECK(reports(lines.text()) == 1);
}

TEST_CASE("fault 19: the reports of held locks can be turned off", "[faults]") {
    SKIP_UNLESS_COUNTED();
    const auto holder = []() -> weft::task<> {
        std::mutex plain;
        const std::lock_guard held(plain);
        co_await weft::yield();
    };
    CHECK(reports(log_of(holder())) == 1);
    CHECK(log_of(holder(), false).empty());
}
