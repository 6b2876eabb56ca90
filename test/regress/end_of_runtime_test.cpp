// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/child_process.hpp"

#include <weft/weft.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <string_view>
#include <thread>

#include <unistd.h>

// The end of a runtime waits for tasks that do not come back.

using namespace std::chrono_literals;

namespace {

/// Blocks its worker until it is told to end.
weft::task<> hog(std::atomic<bool>& hogs, const std::atomic<bool>& ends) {
    hogs = true;
    while (!ends) std::this_thread::sleep_for(1ms);
    co_return;
}

void wait_for(const std::atomic<bool>& flag) {
    while (!flag) std::this_thread::sleep_for(1ms);
}

}  // namespace

// The report was made under the runtime's lock: a log that let go of a handle waited for itself.
TEST_CASE("the log may use the runtime whose hanging task it is told of", "[regress]") {
    const auto result = weft::test::run_in_child(
        [] {
            weft::join_handle<void> held;
            const auto log = [&held](std::string_view) {
                held.detach();
                ::_exit(3);
            };
            weft::runtime runtime({.processors = 1,
                                   .shutdown_grace = 0s,
                                   .shutdown_timeout = 50ms,
                                   .log = log});
            held = runtime.co_spawn([]() -> weft::task<> { co_return; });
            while (!held.done()) std::this_thread::sleep_for(1ms);
            std::atomic<bool> hogs{false};
            const std::atomic<bool> never{false};
            runtime.co_spawn([&]() { return hog(hogs, never); }).detach();
            wait_for(hogs);
            runtime.shutdown();
        },
        20s);
    INFO(result.describe());
    CHECK_FALSE(result.hung);
    CHECK(result.status == 3);
}

namespace {

/// A process that stops this one (SIGSTOP) for three seconds, once it is told to.
class stopping_process {
public:
    stopping_process() {
        if (::pipe(told_.data()) != 0) ::_exit(4);
        const pid_t stopped = ::getpid();
        if (::fork() != 0) return;
        char byte;
        [[maybe_unused]] const auto got = ::read(told_[0], &byte, 1);
        ::kill(stopped, SIGSTOP);
        std::this_thread::sleep_for(3s);
        ::kill(stopped, SIGCONT);
        ::_exit(0);
    }
    void tell() { [[maybe_unused]] const auto sent = ::write(told_[1], "x", 1); }

private:
    std::array<int, 2> told_;
};

/// The stop falls into one of them; whoever waits so long still needs the others afterwards.
void sleep_in_steps() {
    for (int i = 0; i < 40; ++i) std::this_thread::sleep_for(10ms);
}

/// The process is stopped while its runtime ends and waits for a task, made by make(begun, ends),
/// that sets `begun` and goes on until `ends` is set.
template <class Make>
weft::test::child_result stop_while_ending(Make make) {
    return weft::test::run_in_child([make] {
        stopping_process stops;
        std::atomic<bool> begun{false};
        std::atomic<bool> ends{false};
        weft::runtime runtime(
            {.processors = 1, .shutdown_grace = 0s, .shutdown_timeout = 2500ms});
        runtime.co_spawn([&]() { return make(begun, ends); }).detach();
        wait_for(begun);
        std::thread teller([&] {
            std::this_thread::sleep_for(50ms);  // The runtime is ending, most likely.
            stops.tell();
            sleep_in_steps();
            ends = true;
        });
        runtime.shutdown();
        teller.join();
    });
}

weft::task<> read_slowly(std::atomic<bool>& reads, const std::atomic<bool>& ends) {
    co_await weft::blocking([&] {
        reads = true;
        wait_for(ends);
    });
}

}  // namespace

// The time in which the whole process was stopped was counted: the task had no chance to end.
TEST_CASE("a process that is stopped while its runtime ends does not run out of time",
          "[regress]") {
    const auto result = stop_while_ending(
        [](auto& begun, auto& ends) -> weft::task<> { return hog(begun, ends); });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

// A call was waited for by a clock that runs while the process is stopped.
TEST_CASE("a process that is stopped while its runtime waits for a call does not run out of time",
          "[regress]") {
    const auto result = stop_while_ending(
        [](auto& begun, auto& ends) -> weft::task<> { return read_slowly(begun, ends); });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

// It ended the process without a word to on_hang, and named nobody.
TEST_CASE("a call that outlives its runtime is reported with the task that waits for it",
          "[regress]") {
    const auto result = weft::test::run_in_child(
        [] {
            std::atomic<bool> reads{false};
            std::atomic<bool> ends{false};
            int reports = 0;
            std::string report;
            const auto on_hang = [&](std::string_view text) {
                ++reports;
                report = text;
                ends = true;  // Waited for on, the call returns, and all is well.
            };
            {
                weft::runtime runtime({.processors = 2,
                                       .shutdown_grace = 0s,
                                       .shutdown_timeout = 50ms,
                                       .on_hang = on_hang});
                runtime
                    .co_spawn({.name = "reader"}, [&]() { return read_slowly(reads, ends); })
                    .detach();
                wait_for(reads);
                runtime.shutdown();
            }
            weft::test::child_check(reports == 1, "reported once");
            weft::test::child_check(report.find("blocking()") != report.npos, "what");
            weft::test::child_check(report.find("(reader), spawned at ") != report.npos, "who");
            weft::test::child_check(report.find("end_of_runtime_test.cpp") != report.npos, "where");
        },
        20s);
    INFO(result.describe());
    CHECK_FALSE(result.hung);
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

TEST_CASE("a call that outlives its runtime ends the process by default", "[regress]") {
    const auto result = weft::test::run_in_child(
        [] {
            std::atomic<bool> reads{false};
            const std::atomic<bool> never{false};
            weft::runtime runtime(
                {.processors = 1, .shutdown_grace = 0s, .shutdown_timeout = 50ms});
            runtime.co_spawn({.name = "reader"}, [&]() { return read_slowly(reads, never); })
                .detach();
            wait_for(reads);
            runtime.shutdown();
        },
        20s);
    INFO(result.describe());
    CHECK(result.aborted_with("(reader), spawned at "));
}

namespace {

/// Its destructor waits for others.
struct waits_at_end {
    const std::atomic<bool>& released;
    ~waits_at_end() { wait_for(released); }
};

weft::task<> leave_behind(const std::atomic<bool>& released) {
    const waits_at_end kept{released};
    for (;;) co_await weft::as_result(weft::sleep_for(1h));
}

}  // namespace

// Nobody watched any more when destructors of what tasks have left behind ran.
TEST_CASE("a destructor that keeps the end of a runtime is reported with its task", "[regress]") {
    const auto result = weft::test::run_in_child(
        [] {
            std::atomic<bool> released{false};
            int reports = 0;
            std::string report;
            const auto on_hang = [&](std::string_view text) {
                ++reports;
                report = text;
                released = true;  // Waited for on, the destructor returns, and all is well.
            };
            auto main = [&]() -> weft::task<> {
                weft::co_spawn({.name = "owner"}, [&] { return leave_behind(released); }).detach();
                co_await weft::sleep_for(1ms);
            };
            weft::run(main(), {.processors = 1,
                               .shutdown_grace = 0s,
                               .shutdown_timeout = 50ms,
                               .on_hang = on_hang});
            weft::test::child_check(reports == 1, "reported once");
            weft::test::child_check(report.find("destructor") != report.npos, "what");
            weft::test::child_check(report.find("(owner), spawned at ") != report.npos, "who");
        },
        10s);
    INFO(result.describe());
    CHECK_FALSE(result.hung);
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

// The end waited for the call, the call for the task, and the task was destroyed after the call
// only.
TEST_CASE("a call that waits for a task of its ending runtime is told that it is stopped",
          "[regress]") {
    const auto result = weft::test::run_in_child(
        [] {
            std::atomic<int> stopped{0};
            const auto wait = [&](weft::join_handle<void>& awaited) {
                try {
                    awaited.get();
                } catch (const std::system_error& error) {
                    if (error.code() == weft::errc::stopped) ++stopped;
                }
            };
            weft::runtime runtime({.processors = 2, .shutdown_grace = 0s, .shutdown_timeout = 5s});
            auto forever = []() -> weft::task<> {
                for (;;) co_await weft::as_result(weft::sleep_for(1h));
            };
            std::atomic<int> waiting{0};
            auto early = [&](weft::join_handle<void> awaited) -> weft::task<> {
                auto call = [&] {
                    ++waiting;
                    wait(awaited);
                };
                co_await weft::blocking(std::move(call));
            };
            // Begins to wait when the others have been told, and is waited for itself.
            auto late = [&](weft::join_handle<void> awaited) -> weft::task<> {
                auto call = [&] {
                    ++waiting;
                    while (stopped == 0) std::this_thread::sleep_for(1ms);
                    wait(awaited);
                };
                co_await weft::blocking(std::move(call));
            };
            runtime.co_spawn(early, runtime.co_spawn(forever)).detach();
            runtime.co_spawn(late, runtime.co_spawn(forever)).detach();
            while (waiting != 2) std::this_thread::sleep_for(1ms);
            runtime.shutdown();
            weft::test::child_check(stopped == 2, "both were told");
        },
        20s);
    INFO(result.describe());
    CHECK_FALSE(result.hung);
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}
