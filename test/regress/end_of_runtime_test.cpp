// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/child_process.hpp"

#include <weft/weft.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
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

// The time in which the whole process was stopped was counted: the task had no chance to end.
TEST_CASE("a process that is stopped while its runtime ends does not run out of time",
          "[regress]") {
    const auto result = weft::test::run_in_child([] {
        std::array<int, 2> told;
        if (::pipe(told.data()) != 0) ::_exit(4);
        const pid_t stopped = ::getpid();
        if (::fork() == 0) {
            char byte;
            [[maybe_unused]] const auto got = ::read(told[0], &byte, 1);
            ::kill(stopped, SIGSTOP);
            std::this_thread::sleep_for(3s);
            ::kill(stopped, SIGCONT);
            ::_exit(0);
        }
        std::atomic<bool> hogs{false};
        std::atomic<bool> ends{false};
        weft::runtime runtime(
            {.processors = 1, .shutdown_grace = 0s, .shutdown_timeout = 2500ms});
        runtime.co_spawn([&]() { return hog(hogs, ends); }).detach();
        wait_for(hogs);
        std::thread teller([&] {
            std::this_thread::sleep_for(50ms);  // The runtime is ending, most likely.
            [[maybe_unused]] const auto sent = ::write(told[1], "x", 1);
            // The stop falls into one of them; after it the task still needs the others.
            for (int i = 0; i < 40; ++i) std::this_thread::sleep_for(10ms);
            ends = true;
        });
        runtime.shutdown();
        teller.join();
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}
