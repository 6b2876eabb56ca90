// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/network.hpp"
#include "support/scale.hpp"
#include "support/scheduler.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

// Faults that were reported of other libraries, after which weft is asked the same: starts and ends
// of a runtime. Each case names the thread of the report.

using namespace std::chrono_literals;
using weft::test::on_each_backend;
using weft::test::scaled_count;

namespace {

void ignore(std::string_view) {}

/// Counts those that are alive.
class counted {
public:
    explicit counted(std::atomic<int>& alive) noexcept : alive_(&alive) { ++*alive_; }
    counted(counted&& other) noexcept : alive_(other.alive_) { ++*alive_; }
    counted& operator=(counted&&) = delete;
    ~counted() { --*alive_; }

private:
    std::atomic<int>* alive_;
};

}  // namespace

// jbaldwin/libcoro#361: the threads were stopped before the timers, which then resumed tasks.
TEST_CASE("reported: a runtime ends while a thousand tasks sleep below deadlines", "[regress]") {
    for (const char* backend : weft::test::backends()) {
        const weft::test::forced_backend forced(backend);
        const weft::test::watchdog dog(60s, [] { return std::string("the runtime does not end"); });
        std::atomic<int> alive{0};
        const auto sleeps = [](counted, std::chrono::microseconds time) -> weft::task<> {
            for (;;) co_await weft::as_result(weft::with_timeout(time, weft::sleep_for(time)));
        };
        const std::size_t rounds = scaled_count(20, 200);
        for (std::size_t round = 0; round < rounds; ++round) {
            std::minstd_rand random(static_cast<unsigned>(round + 1));
            weft::runtime runtime({.processors = 2, .shutdown_grace = 1ms, .log = ignore});
            for (int i = 0; i < 1000; ++i) {
                const std::chrono::microseconds time(random() % 3000);
                runtime.co_spawn(sleeps, counted(alive), time).detach();
            }
            runtime.shutdown();
            CHECK(alive == 0);
        }
    }
}

// jbaldwin/libcoro#420, #421: a worker that ended its own pool waited for itself.
TEST_CASE("reported: the last task ends its own runtime", "[regress]") {
    const auto result = weft::test::run_in_child([] {
        weft::runtime runtime({.processors = 2, .log = ignore});
        auto ends = [&runtime]() -> weft::task<> {
            runtime.shutdown();
            co_return;
        };
        runtime.co_spawn(ends).get();
    });
    INFO(result.describe());
    CHECK_FALSE(result.hung);
    CHECK(result.signal == SIGABRT);
    CHECK(result.errors.find("its own") != std::string::npos);
}

// tokio-rs/tokio#5338, #589: a call that read the terminal kept the program from ending.
TEST_CASE("reported: a call that never returns keeps no program from ending", "[regress]") {
    const auto result = weft::test::run_in_child([] {
        int ends[2];
        weft::test::child_check(::pipe(ends) == 0, "no pipe");
        const auto main = [&]() -> weft::task<> {
            std::atomic<bool>* const begun = new std::atomic<bool>{false};  // The call outlives us.
            weft::blocking_detached(
                [begun](int from) {
                    *begun = true;
                    char byte = 0;
                    while (::read(from, &byte, 1) != 1) {}
                },
                ends[0]);
            while (!*begun) co_await weft::yield();
        };
        weft::run(main(), {.processors = 1});
    });
    INFO(result.describe());
    CHECK_FALSE(result.hung);
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

// chriskohlhoff/asio#1235: a task that was destroyed with its context had a socket of a service
// that was gone.
TEST_CASE("reported: a runtime ends while tasks accept and read on sockets of their own",
          "[regress]") {
    for (const char* backend : weft::test::backends()) {
        const weft::test::forced_backend forced(backend);
        const weft::test::watchdog dog(60s, [] { return std::string("the runtime does not end"); });
        std::atomic<int> alive{0};
        const auto accepts = [](counted) -> weft::task<> {
            const auto any = weft::net::endpoint::parse("127.0.0.1:0");
            auto listener = weft::net::tcp_listener::bind(any);
            for (;;) static_cast<void>(co_await listener.accept());
        };
        const auto reads = [](counted, weft::net::tcp_stream stream) -> weft::task<> {
            std::array<std::byte, 8> bytes{};
            while (co_await stream.read_some(bytes) != 0) {}
        };
        const auto main = [&]() -> weft::task<> {
            for (int i = 0; i < 20; ++i) weft::co_spawn(accepts, counted(alive)).detach();
            std::vector<weft::net::tcp_stream> kept;
            for (int i = 0; i < 20; ++i) {
                auto pair = weft::test::local_pair();
                weft::co_spawn(reads, counted(alive), std::move(pair.server)).detach();
                kept.push_back(std::move(pair.client));
            }
            for (int i = 0; i < 10; ++i) co_await weft::yield();
        };
        const std::size_t before = weft::test::descriptor_count();
        weft::run(main(), {.processors = 2, .shutdown_grace = 0s, .log = ignore});
        CHECK(alive == 0);
        CHECK(weft::test::descriptor_count() == before);
    }
}

// NVIDIA/stdexec#999: a context that was made and destroyed without having been used crashed.
TEST_CASE("reported: a runtime that nobody uses is made and destroyed", "[regress]") {
    for (const char* backend : weft::test::backends()) {
        for (const bool compensate : {false, true}) {
            for (const unsigned processors : {0U, 1U, 2U, 8U}) {
                const weft::test::forced_backend forced(backend);
                const weft::runtime runtime(
                    {.processors = processors, .compensate = compensate, .log = ignore});
                CHECK(runtime.statistics().spawned_outside == 0);
            }
        }
    }
}
