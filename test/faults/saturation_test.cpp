// SPDX-License-Identifier: MIT
#include "support/call_gate.hpp"
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/kept_log.hpp"
#include "support/skip.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

// All threads of the blocking pool are busy, or the system refuses more of them.

using namespace std::chrono_literals;
using weft::test::call_gate;
using weft::test::kept_log;
using weft::test::until;

namespace {

weft::task<> pass(call_gate& through) {
    co_await weft::blocking([&through] { through.pass(); });
}

/// Fills all threads of the pool, and returns when the calls run.
weft::task<std::vector<weft::join_handle<void>>> fill(call_gate& hold, int threads) {
    std::vector<weft::join_handle<void>> handles;
    for (int i = 0; i < threads; ++i) handles.push_back(weft::co_spawn(pass(hold)));
    co_await until([&] { return hold.inside() == threads; });
    co_return handles;
}

weft::runtime_options pool(unsigned threads, unsigned queue = 1000) {
    return {.processors = 2,
            .blocking_threads = threads,
            .blocking_queue = queue,
            .log = [](std::string_view) {}};
}

std::error_code code_of(const weft::result<void>& ended) {
    return ended ? std::error_code() : ended.error();
}

std::string hangs() {
    return "a saturated pool stops the program";
}

void set_thread_limit(rlim_t count) {
    const rlimit limit{count, 1000};
    weft::test::child_check(::setrlimit(RLIMIT_NPROC, &limit) == 0, "the limit could not be set");
}

/// In a child process that is run by root: as a user without processes, with so many threads more.
void limit_threads(rlim_t count) {
    set_thread_limit(count);
    weft::test::become_another_user();
}

}  // namespace

TEST_CASE("fault 34: blocking pool saturated: reported once, and the workers keep going",
          "[faults]") {
    call_gate hold;
    kept_log log;
    weft::runtime_statistics seen;
    auto main = [&]() -> weft::task<> {
        auto running = co_await fill(hold, 3);
        for (int i = 0; i < 10; ++i) running.push_back(weft::co_spawn(pass(hold)));
        const auto begin = std::chrono::steady_clock::now();
        // Tasks and timers go on, until the report has come and for some time after it.
        int rounds = 0;
        while (log.size() == 0 || std::chrono::steady_clock::now() < begin + 2500ms) {
            co_await weft::sleep_for(1ms);
            co_await weft::co_spawn([](int& count) -> weft::task<> {
                ++count;
                co_return;
            }(rounds));
        }
        seen = weft::this_runtime::statistics();
        hold.open();
        for (auto& each : running) co_await std::move(each);
        CHECK(rounds > 100);
    };
    weft::runtime_options options = pool(3);
    options.log = log.sink();
    weft::test::watchdog watchdog(60s, hangs);
    weft::run(main(), options);
    CHECK(seen.blocking_threads == 3);
    CHECK(seen.blocking_queued == 10);
    CHECK(seen.blocking_waited == 10);
    CHECK(seen.blocking_refused == 0);
    CHECK(seen.blocking_longest_wait >= 1s);
    REQUIRE(log.size() == 1);
    const std::string line = log.lines()[0];
    INFO(line);
    CHECK(line.find("10 calls that were given to blocking() wait") != std::string::npos);
    CHECK(line.find("all 3 threads") != std::string::npos);
    CHECK(line.find("runtime_options::blocking_threads") != std::string::npos);
}

TEST_CASE("fault 34: blocking pool saturated: a short burst is not reported", "[faults]") {
    kept_log log;
    auto main = []() -> weft::task<> {
        for (int round = 0; round < 25; ++round) {
            std::vector<weft::join_handle<void>> handles;
            for (int i = 0; i < 20; ++i) {
                handles.push_back(weft::co_spawn([]() -> weft::task<> {
                    co_await weft::blocking([] { std::this_thread::sleep_for(5ms); });
                }));
            }
            for (auto& each : handles) co_await std::move(each);
        }
        CHECK(weft::this_runtime::statistics().blocking_waited > 0);
        CHECK(weft::this_runtime::statistics().blocking_longest_wait == 0ns);
    };
    weft::runtime_options options = pool(2);
    options.log = log.sink();
    weft::test::watchdog watchdog(60s, hangs);
    weft::run(main(), options);
    CHECK(log.size() == 0);
}

// The timer that looks after queued calls is due while all workers are kept, so the watchdog fires
// it, and the call that is queued then has not waited for long enough.
TEST_CASE("fault 34: blocking pool saturated: reported although the watchdog fires the timer",
          "[faults]") {
    using clock_type = std::chrono::steady_clock;
    call_gate first_hold, second_hold;
    kept_log log;
    std::atomic<int> kept{0};
    const auto keep_until = [&kept](clock_type::time_point end) -> weft::task<> {
        ++kept;
        while (clock_type::now() < end) {}
        co_return;
    };
    auto main = [&]() -> weft::task<> {
        auto running = co_await fill(first_hold, 1);
        running.push_back(weft::co_spawn(pass(second_hold)));
        co_await until([&] { return weft::this_runtime::statistics().blocking_queued == 1; });
        const auto started = clock_type::now();
        co_await weft::sleep_for(500ms);
        first_hold.open();
        co_await until([&] { return second_hold.inside() == 1; });
        running.push_back(weft::co_spawn(pass(second_hold)));
        co_await until([&] { return weft::this_runtime::statistics().blocking_queued == 1; });
        // 300 ms later the timer of the first call is due.
        co_await weft::sleep_until(started + 700ms);
        for (int i = 0; i < 2; ++i) running.push_back(weft::co_spawn(keep_until, started + 1300ms));
        co_await until([&] {
            return kept == 2 && (log.size() != 0 || clock_type::now() > started + 15s);
        });
        second_hold.open();
        for (auto& each : running) co_await std::move(each);
    };
    weft::runtime_options options = pool(1);
    options.hog_report = 1h;
    options.log = log.sink();
    weft::test::watchdog watchdog(60s, hangs);
    weft::run(main(), options);
    REQUIRE(log.size() == 1);
    const std::string line = log.lines()[0];
    INFO(line);
    CHECK(line.find("1 calls that were given to blocking() wait") != std::string::npos);
}

TEST_CASE("fault 34: blocking pool saturated: try_blocking does not wait", "[faults]") {
    call_gate hold;
    bool made = false;
    auto refused = [&]() -> weft::task<std::error_code> {
        const int three = co_await weft::try_blocking([](int a) { return a + 1; }, 2);
        if (three != 3) co_return std::make_error_code(std::errc::io_error);
        auto running = co_await fill(hold, 2);
        auto call = [&made] { made = true; };
        const auto ended = co_await weft::as_result(weft::try_blocking(std::move(call)));
        const auto statistics = weft::this_runtime::statistics();
        hold.open();
        for (auto& each : running) co_await std::move(each);
        if (statistics.blocking_refused != 1 || statistics.blocking_queued != 0) co_return {};
        // There is room again.
        co_await until([&] { return weft::this_runtime::statistics().blocking_queued == 0; });
        bool again = false;
        while (!again) {
            auto second = [&again] { again = true; };
            static_cast<void>(co_await weft::as_result(weft::try_blocking(std::move(second))));
        }
        co_return code_of(ended);
    };
    weft::test::watchdog watchdog(60s, hangs);
    CHECK(weft::run(refused(), pool(2)) == std::errc::device_or_resource_busy);
    CHECK_FALSE(made);
}

TEST_CASE("fault 34: blocking pool saturated: the queue has a limit", "[faults]") {
    call_gate hold;
    std::error_code awaited;
    bool detached_refused = false;
    const auto captured = std::make_shared<int>(0);
    auto main = [&]() -> weft::task<> {
        auto running = co_await fill(hold, 1);
        for (int i = 0; i < 2; ++i) running.push_back(weft::co_spawn(pass(hold)));
        co_await until([&] { return weft::this_runtime::statistics().blocking_queued == 2; });
        awaited = code_of(co_await weft::as_result(weft::blocking([] {})));
        try {
            auto call = [kept = captured] { return *kept; };
            weft::blocking_detached(std::move(call));
        } catch (const std::system_error& error) {
            detached_refused = error.code() == std::errc::device_or_resource_busy;
        }
        hold.open();
        for (auto& each : running) co_await std::move(each);
        co_await weft::blocking([] {});
    };
    weft::test::watchdog watchdog(60s, hangs);
    weft::run(main(), pool(1, 2));
    CHECK(awaited == std::errc::device_or_resource_busy);
    CHECK(detached_refused);
    CHECK(captured.use_count() == 1);
}

TEST_CASE("fault 6: thread creation fails: calls of blocking() share the threads that there are",
          "[faults]") {
    if (::geteuid() != 0) WEFT_SKIP("other processes of this user would count");
    const auto result = weft::test::run_in_child([] {
        limit_threads(5);  // The caller, another worker, the watchdog, and what is left for calls.
        std::atomic<int> made{0};
        std::error_code tried;
        std::size_t threads = 0;
        auto main = [&]() -> weft::task<> {
            call_gate hold;
            std::vector<weft::join_handle<void>> running;
            for (int i = 0; i < 20; ++i) running.push_back(weft::co_spawn(pass(hold)));
            co_await until([&] {
                const auto seen = weft::this_runtime::statistics();
                threads = static_cast<std::size_t>(hold.inside());
                return threads != 0 && seen.blocking_threads == threads &&
                       seen.blocking_queued + threads == 20;
            });
            auto call = [&made] { ++made; };
            tried = code_of(co_await weft::as_result(weft::try_blocking(std::move(call))));
            hold.open();
            for (auto& each : running) co_await std::move(each);
        };
        weft::run(main(), pool(512));
        weft::test::child_check(threads >= 1 && threads <= 4, "the number of threads");
        weft::test::child_check(made == 0, "the call was made");
        weft::test::child_check(tried == std::errc::device_or_resource_busy, "the error");
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

TEST_CASE("fault 6: thread creation fails: the queue of blocking() has its limit all the same",
          "[faults]") {
    if (::geteuid() != 0) WEFT_SKIP("other processes of this user would count");
    const auto result = weft::test::run_in_child([] {
        limit_threads(5);
        int refused = 0;
        weft::runtime_statistics seen;
        auto main = [&]() -> weft::task<> {
            call_gate hold;
            const auto call = [&]() -> weft::task<> {
                const auto ended =
                    co_await weft::as_result(weft::blocking([&hold] { hold.pass(); }));
                if (code_of(ended) == std::errc::device_or_resource_busy) ++refused;
            };
            std::vector<weft::join_handle<void>> running;
            for (int i = 0; i < 20; ++i) running.push_back(weft::co_spawn(call()));
            co_await until([&] {
                seen = weft::this_runtime::statistics();
                return seen.blocking_calls == 20 && seen.blocking_queued == 3 &&
                       static_cast<std::size_t>(hold.inside()) == seen.blocking_threads;
            });
            hold.open();
            for (auto& each : running) co_await std::move(each);
        };
        // One worker, so that `refused` is counted by one thread.
        weft::runtime_options options = pool(512, 3);
        options.processors = 1;
        const weft::test::watchdog watchdog(60s, hangs);
        weft::run(main(), options);
        weft::test::child_check(seen.blocking_threads >= 1, "no thread");
        weft::test::child_check(seen.blocking_threads + 3 + static_cast<unsigned>(refused) == 20,
                                "the number of refused calls");
        weft::test::child_check(seen.blocking_refused == static_cast<unsigned>(refused),
                                "the statistics");
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

// A thread that can be made again runs the call that was queued first, so a call that came later
// and does not wait would have to.
TEST_CASE("fault 6: thread creation fails: try_blocking does not wait behind what was queued then",
          "[faults]") {
    if (::geteuid() != 0) WEFT_SKIP("other processes of this user would count");
    const auto result = weft::test::run_in_child([] {
        // The caller, another worker, the watchdogs of weft and of this test, those of a sanitizer,
        // and fewer for calls than there are calls.
        limit_threads(8);
        std::error_code tried;
        auto main = [&]() -> weft::task<> {
            call_gate hold;
            std::vector<weft::join_handle<void>> running;
            for (int i = 0; i < 6; ++i) running.push_back(weft::co_spawn(pass(hold)));
            co_await until([&] {
                const auto seen = weft::this_runtime::statistics();
                return seen.blocking_calls == 6 && hold.inside() != 0 &&
                       seen.blocking_queued + static_cast<std::size_t>(hold.inside()) == 6;
            });
            set_thread_limit(1000);
            auto call = [] {};
            auto trial = weft::try_blocking(std::move(call));
            tried = code_of(co_await weft::as_result(weft::with_timeout(2s, std::move(trial))));
            hold.open();
            for (auto& each : running) co_await std::move(each);
        };
        const weft::test::watchdog watchdog(60s, hangs);
        weft::run(main(), pool(512));
        weft::test::child_check(tried == std::errc::device_or_resource_busy,
                                tried.message().c_str());
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

TEST_CASE("fault 6: thread creation fails: without a single thread blocking() says so",
          "[faults]") {
    if (::geteuid() != 0) WEFT_SKIP("other processes of this user would count");
    const auto result = weft::test::run_in_child([] {
        limit_threads(1);
        auto main = []() -> weft::task<> {
            for (int i = 0; i < 3; ++i) {
                bool thrown = false;
                try {
                    co_await weft::blocking([] {});
                } catch (const std::system_error& error) {
                    thrown = error.code() == std::errc::resource_unavailable_try_again &&
                             std::string(error.what()).find("ulimit -u") != std::string::npos;
                }
                weft::test::child_check(thrown, "no error");
            }
            weft::test::child_check(weft::this_runtime::statistics().blocking_threads == 0,
                                    "a thread is counted that does not exist");
        };
        weft::run(main(), {.processors = 1, .log = [](std::string_view) {}});
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

namespace {

/// Makes a detached call that counts itself. False: the system refuses the thread for it.
bool detach(std::atomic<int>& made, const std::shared_ptr<int>& captured) {
    try {
        weft::blocking_detached([&made, kept = captured] { ++made; });
        return true;
    } catch (const std::system_error& error) {
        weft::test::child_check(error.code() == std::errc::resource_unavailable_try_again,
                                error.what());
        weft::test::child_check(std::string(error.what()).find("ulimit -u") != std::string::npos,
                                "no advice");
        return false;
    }
}

}  // namespace

TEST_CASE("fault 6: thread creation fails: without a single thread blocking_detached() says so",
          "[faults]") {
    if (::geteuid() != 0) WEFT_SKIP("other processes of this user would count");
    const auto result = weft::test::run_in_child([] {
        limit_threads(1);
        std::atomic<int> made{0};
        const auto captured = std::make_shared<int>(0);
        auto main = [&]() -> weft::task<> {
            for (int i = 0; i < 3; ++i) {
                weft::test::child_check(!detach(made, captured), "a thread was made");
                weft::test::child_check(captured.use_count() == 1, "the call is left");
            }
            weft::test::child_check(weft::this_runtime::statistics().blocking_threads == 0,
                                    "a thread is counted that does not exist");
            // It has passed, and the server still runs.
            set_thread_limit(1000);
            weft::test::child_check(detach(made, captured), "no thread was made");
            co_await until([&] { return made == 1; });
        };
        weft::run(main(), {.processors = 1, .log = [](std::string_view) {}});
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
    CHECK_FALSE(result.hung);
}

// A call that was queued behind the thread that another worker could not make then.
TEST_CASE("fault 6: thread creation fails: a detached call that is left alone is told of",
          "[faults]") {
    if (::geteuid() != 0) WEFT_SKIP("other processes of this user would count");
    const auto result = weft::test::run_in_child([] {
        limit_threads(100);
        std::atomic<int> made{0}, refused{0}, told{0};
        const auto captured = std::make_shared<int>(0);
        constexpr int calls = 2'000;
        auto caller = [&]() -> weft::task<> {
            for (int i = 0; i < calls; ++i) {
                if (!detach(made, captured)) ++refused;
                if (i % 100 == 0) co_await weft::yield();
            }
        };
        auto main = [&]() -> weft::task<> {
            set_thread_limit(1);
            auto first = weft::co_spawn({.name = "first"}, caller);
            auto second = weft::co_spawn({.name = "second"}, caller);
            co_await std::move(first);
            co_await std::move(second);
        };
        weft::runtime_options options = pool(1, 2 * calls);
        options.on_failure = [&](const weft::task_failure& failure) {
            try {
                std::rethrow_exception(failure.exception);
            } catch (const std::system_error& error) {
                if (error.code() == std::errc::resource_unavailable_try_again &&
                    failure.task_id > 1) {
                    ++told;
                }
            } catch (...) {}
        };
        const weft::test::watchdog watchdog(60s, hangs);
        weft::run(main(), options);
        weft::test::child_check(made == 0, "a call was made");
        weft::test::child_check(refused + told == 2 * calls, "a call is lost");
        weft::test::child_check(captured.use_count() == 1, "a call is left");
        std::fprintf(stderr, "told of %d of %d\n", told.load(), 2 * calls);
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
    CHECK_FALSE(result.hung);
}
