// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/scheduler.hpp"
#include "support/skip.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

// Tasks that keep their worker, and what the runtime says about them.

using namespace std::chrono_literals;

namespace {

/// What was logged, from several threads.
class log_lines {
public:
    auto sink() {
        return [this](std::string_view line) {
            const std::lock_guard held(mutex_);
            text_ += std::string(line) + "\n";
        };
    }
    std::string text() {
        const std::lock_guard held(mutex_);
        return text_;
    }
    bool contains(const char* part) { return text().find(part) != std::string::npos; }

private:
    std::mutex mutex_;
    std::string text_;
};

std::chrono::nanoseconds used_by_thread() {
    timespec used{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

/// Computes for so long of the CPU's time.
void compute_for(std::chrono::nanoseconds time) {
    const auto until = used_by_thread() + time;
    while (used_by_thread() < until) {}
}

std::uint64_t overruns() {
    std::uint64_t sum = 0;
    for (const auto& each : weft::this_runtime::statistics().processors) sum += each.overruns;
    return sum;
}

}  // namespace

TEST_CASE("fault 36: a task that never suspends is reported, and the others go on", "[faults]") {
    log_lines lines;
    std::atomic<bool> others{false}, reported{false};
    std::uint64_t counted = 0;
    auto spinner = [&]() -> weft::task<> {
        co_await weft::yield();
        reported = weft::test::spin_until([&] { return lines.contains("lets nobody in"); });
        co_return;
    };
    auto main = [&]() -> weft::task<> {
        auto handle = weft::co_spawn({.name = "spinner"}, spinner);
        for (int i = 0; i < 20; ++i) co_await weft::sleep_for(100us);
        others = true;
        co_await std::move(handle);
        counted = overruns();
    };
    weft::run(main(), {.processors = 2, .hog_report = 20ms, .log = lines.sink()});
    INFO(lines.text());
    CHECK(others);
    CHECK(reported);
    CHECK(counted >= 1);
    CHECK(lines.contains("(spinner), spawned at "));
    CHECK(lines.contains("hog_test.cpp:"));
    CHECK(lines.contains("checkpoint()"));
}

TEST_CASE("fault 36: a task that blocks its thread is told of blocking()", "[faults]") {
    log_lines lines;
    auto main = [&]() -> weft::task<> {
        const auto until = std::chrono::steady_clock::now() + weft::test::watchdog_limit;
        while (!lines.contains("lets nobody in") && std::chrono::steady_clock::now() < until) {
            std::this_thread::sleep_for(50ms);
        }
        co_return;
    };
    weft::run(main(), {.processors = 1, .hog_report = 20ms, .log = lines.sink()});
    INFO(lines.text());
    CHECK(lines.contains(" (main), spawned at "));
    CHECK(lines.contains("has blocked worker 0"));
    CHECK(lines.contains("blocking(...)"));
}

TEST_CASE("fault 36: reports are few, however many tasks keep their worker", "[faults]") {
    log_lines lines;
    const auto began = std::chrono::steady_clock::now();
    auto main = [&]() -> weft::task<> {
        for (int i = 0; i < 20; ++i) {
            auto hog = []() -> weft::task<> {
                compute_for(25ms);
                co_return;
            };
            co_await weft::co_spawn(hog());
        }
    };
    weft::run(main(), {.processors = 1, .hog_report = 10ms, .log = lines.sink()});
    std::size_t reports = 0;
    const std::string text = lines.text();
    for (auto at = text.find("lets nobody"); at != std::string::npos;
         at = text.find("lets nobody", at + 1)) {
        ++reports;
    }
    const auto seconds = (std::chrono::steady_clock::now() - began) / 1s;
    CHECK(reports >= 1);
    CHECK(reports <= static_cast<std::size_t>(seconds) + 1);
}

TEST_CASE("fault 36: names are safe while tasks end beside the watchdog", "[faults]") {
    log_lines lines;
    const int count = static_cast<int>(weft::test::scaled_count(30, 300));
    auto main = [&]() -> weft::task<> {
        for (int i = 0; i < count; ++i) {
            // Both end about when they are reported.
            std::vector<weft::join_handle<void>> handles;
            for (int j = 0; j < 2; ++j) {
                const std::string name(200, static_cast<char>('a' + i % 26));
                auto hog = []() -> weft::task<> {
                    compute_for(10ms);
                    co_return;
                };
                handles.push_back(weft::co_spawn({.name = name}, hog));
            }
            for (auto& each : handles) co_await std::move(each);
        }
    };
    weft::run(main(), {.processors = 2, .hog_report = 10ms, .log = lines.sink()});
    SUCCEED("for the sanitizers");
}

TEST_CASE("fault 36: the time in which the process was stopped is not held against a task",
          "[faults]") {
    const auto result = weft::test::run_in_child([] {
        log_lines lines;
        std::uint64_t counted = 1;
        auto main = [&]() -> weft::task<> {
            const pid_t stopped = ::getpid();
            const pid_t other = ::fork();
            if (other == 0) {
                ::usleep(2'000);
                ::kill(stopped, SIGSTOP);
                ::usleep(500'000);
                ::kill(stopped, SIGCONT);
                ::_exit(0);
            }
            co_await weft::yield();
            // The stop falls into this run, which keeps the worker for less than a slice.
            const auto began = std::chrono::steady_clock::now();
            while (std::chrono::steady_clock::now() - began < 4ms) {}
            co_await weft::yield();
            counted = overruns();
        };
        weft::run(main(), {.processors = 1, .hog_report = 50ms, .log = lines.sink()});
        std::fprintf(stderr, "%s", lines.text().c_str());
        weft::test::child_check(!lines.contains("lets nobody in"), "it was reported");
        weft::test::child_check(counted == 0, "it was counted");
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

TEST_CASE("fault 48: a task whose thread gets no processor is not reported", "[faults]") {
    const auto result = weft::test::run_in_child([] {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
        weft::test::child_check(::sched_setaffinity(0, sizeof(one), &one) == 0, "one processor");
        log_lines lines;
        std::atomic<bool> ended{false};
        std::vector<std::thread> rivals;
        for (int i = 0; i < 8; ++i) {
            rivals.emplace_back([&] {
                while (!ended) {}
            });
        }
        auto main = []() -> weft::task<> {
            compute_for(60ms);  // Nine times as long by the clock.
            co_return;
        };
        weft::run(main(), {.processors = 1, .hog_report = 120ms, .log = lines.sink()});
        ended = true;
        for (auto& each : rivals) each.join();
        std::fprintf(stderr, "%s", lines.text().c_str());
        weft::test::child_check(!lines.contains("lets nobody in"), "it was reported");
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

TEST_CASE("fault 48: with one worker the watchdog costs nothing while it is idle", "[faults]") {
    weft::runtime runtime({.processors = 1});
    runtime.co_spawn([]() -> weft::task<> { co_await weft::sleep_for(1ms); }).get();
    std::this_thread::sleep_for(200ms);  // Until it rests.
    timespec before{}, after{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    std::this_thread::sleep_for(300ms);
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    const auto used = std::chrono::seconds(after.tv_sec - before.tv_sec) +
                      std::chrono::nanoseconds(after.tv_nsec - before.tv_nsec);
    CHECK(used < 3ms);
}

TEST_CASE("fault 49: a runtime that is a static object ends with its watchdog", "[faults]") {
    const auto result = weft::test::run_in_child([] {
        static weft::runtime runtime({.processors = 2});
        auto task = []() -> weft::task<> { co_await weft::sleep_for(1h); };
        runtime.co_spawn(task()).detach();
        ::exit(0);
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
    CHECK_FALSE(result.hung);
}

namespace {

/// A static object that is destroyed after the runtime, with the handle of one of its tasks.
struct keeps_handle {
    std::optional<weft::join_handle<void>> handle;
    ~keeps_handle() {
        if (!handle) return;
        weft::test::child_check(handle->done(), "a task of a runtime that is gone is not done");
        weft::test::child_check(ended_with(*handle, std::errc::operation_canceled),
                                "it did not end by the stop");
        std::fprintf(stderr, "the static object is destroyed\n");
    }
    template <class T, class Code>
    static bool ended_with(weft::join_handle<T>& of, Code wanted) {
        try {
            of.get();
        } catch (const std::system_error& error) { return error.code() == wanted; }
        return false;
    }
};

weft::runtime* static_runtime = nullptr;

weft::task<int> seven() {
    co_await weft::sleep_for(1ms);
    co_return 7;
}

/// What std::atexit() has, before static objects are destroyed.
void use_at_exit() {
    weft::test::child_check(static_runtime->co_spawn(seven()).get() == 7, "it does not run a task");
    static_runtime->shutdown();
    auto late = static_runtime->co_spawn(seven());
    weft::test::child_check(late.done(), "a late task is not done");
    weft::test::child_check(keeps_handle::ended_with(late, weft::errc::stopped),
                            "a late task is not stopped");
    std::fprintf(stderr, "the runtime was used at exit\n");
}

}  // namespace

TEST_CASE("fault 49: a runtime is used at exit, and its handles after it", "[faults]") {
    const auto result = weft::test::run_in_child([] {
        static keeps_handle kept;
        static weft::runtime runtime({.processors = 2});
        static_runtime = &runtime;
        auto task = []() -> weft::task<> { co_await weft::sleep_for(1h); };
        kept.handle = runtime.co_spawn(task());
        weft::test::child_check(std::atexit(use_at_exit) == 0, "atexit");
        ::exit(0);
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
    CHECK_FALSE(result.hung);
    const auto used = result.errors.find("the runtime was used at exit");
    const auto destroyed = result.errors.find("the static object is destroyed");
    CHECK(used != std::string::npos);
    CHECK(destroyed != std::string::npos);
    CHECK(used < destroyed);
}

TEST_CASE("fault 6: a runtime whose watchdog cannot start says so, and works", "[faults]") {
    if (::geteuid() != 0) WEFT_SKIP("the number of processes of this user is not known");
    const auto result = weft::test::run_in_child([] {
        const rlimit limit{1, 1};
        weft::test::child_check(::setrlimit(RLIMIT_NPROC, &limit) == 0, "the limit");
        weft::test::become_another_user();
        log_lines lines;
        auto main = []() -> weft::task<int> {
            co_await weft::sleep_for(10us);
            co_return 7;
        };
        const int result = weft::run(main(), {.processors = 1, .log = lines.sink()});
        std::fprintf(stderr, "%s", lines.text().c_str());
        weft::test::child_check(result == 7, "the work was not done");
        weft::test::child_check(lines.contains("without its watchdog"), "no log line");
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

TEST_CASE("fault 9: a task that keeps the only worker is given shutdown_timeout, then told of",
          "[faults]") {
    // The worker is the calling thread itself, so nobody but the watchdog can tell.
    std::atomic<bool> told{false};
    std::mutex mutex;
    std::string report;
    auto hog = [&]() -> weft::task<> {
        weft::test::spin_until([&] { return told.load(); });
        co_return;
    };
    auto main = [&]() -> weft::task<> {
        weft::co_spawn({.name = "stubborn"}, hog).detach();
        co_return;
    };
    weft::run(main(), {.processors = 1,
                       .shutdown_grace = 10ms,
                       .shutdown_timeout = 50ms,
                       .on_hang =
                           [&](std::string_view text) {
                               const std::lock_guard held(mutex);
                               report = text;
                               told = true;
                           },
                       .log = [](std::string_view) {}});
    INFO(report);
    CHECK(report.find("1 of 1 workers still run a task") != std::string::npos);
    CHECK(report.find("(stubborn)") != std::string::npos);
}
