// SPDX-License-Identifier: MIT
#include "support/call_gate.hpp"
#include "support/catch.hpp"
#include "support/kept_log.hpp"
#include "support/scheduler.hpp"
#include "support/skip.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

// What a detached task leaves behind is destroyed by the loop of its worker, after the task has
// returned, and on_failure is called there. That was nobody's run: a destructor that took long kept
// the worker, and no watchdog saw it.

using namespace std::chrono_literals;
using weft::test::kept_log;
using weft::test::spin_until;

namespace {

void ignore(std::string_view) {}

std::string hangs() {
    return "a destructor that nobody sees keeps the runtime";
}

weft::task<> set(std::atomic<bool>& flag) {
    flag = true;
    co_return;
}

/// What a task was given, and whose destructor calls a function.
class calls_late {
public:
    explicit calls_late(std::function<void()> call) : call_(std::move(call)) {}
    calls_late(calls_late&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
    ~calls_late() {
        if (call_) call_();
    }

private:
    std::function<void()> call_;
};

weft::task<> ends_with(calls_late) {
    co_return;
}

weft::task<> fails() {
    throw std::runtime_error("on purpose");
    co_return;
}

}  // namespace

TEST_CASE("what a detached task has left behind does not keep the others", "[regress]") {
    std::atomic<bool> ran{false};
    std::atomic<int> result{0};
    auto main = [&]() -> weft::task<> {
        auto other = weft::co_spawn(set(ran));
        const auto wait = [&] { result = spin_until([&] { return ran.load(); }, 3s) ? 1 : -1; };
        weft::co_spawn(ends_with(calls_late(wait))).detach();  // Runs first.
        co_await std::move(other);
    };
    weft::test::watchdog watchdog(60s, hangs);
    weft::run(main(), {.processors = 1, .log = ignore});
    CHECK(result == 1);
}

TEST_CASE("a handler of failures that takes long does not keep the others", "[regress]") {
    std::atomic<bool> ran{false};
    std::atomic<int> result{0};
    auto main = [&]() -> weft::task<> {
        auto other = weft::co_spawn(set(ran));
        weft::co_spawn(fails()).detach();  // Runs first.
        co_await std::move(other);
    };
    weft::test::watchdog watchdog(60s, hangs);
    weft::run(main(), {.processors = 1,
                       .on_failure =
                           [&](const weft::task_failure&) {
                               result = spin_until([&] { return ran.load(); }, 3s) ? 1 : -1;
                           },
                       .log = ignore});
    CHECK(result == 1);
}

TEST_CASE("a task whose remains keep the worker is reported by its name", "[regress]") {
    static constexpr const char* reported = "(leaver), spawned at";
    kept_log log;
    std::atomic<int> result{0};
    auto main = [&]() -> weft::task<> {
        const auto wait = [&] {
            result = spin_until([&] { return log.count(reported) != 0; }) ? 1 : -1;
        };
        weft::co_spawn(ends_with(calls_late(wait)), {.name = "leaver"}).detach();
        while (result == 0) co_await weft::yield();
    };
    weft::test::watchdog watchdog(60s, hangs);
    weft::run(main(), {.processors = 1, .hog_report = 20ms, .log = log.sink()});
    CHECK(result == 1);
    CHECK(log.count(reported) == 1);
    CHECK(log.count("left_behind_test.cpp") == 1);
}

// Its frame holds the handle of another one that has ended, and so on, deeper than they are
// destroyed inside each other.
TEST_CASE("a task is reported by its name while it destroys what a chain of tasks has left",
          "[regress]") {
    // On a busy machine the main task may be reported as well.
    static constexpr const char* reported = "(outermost), spawned at";
    kept_log log;
    std::atomic<int> result{0};
    struct chain {
        static weft::task<> holds(weft::join_handle<void> inner, calls_late) {
            static_cast<void>(inner.done());
            co_return;
        }
    };
    auto main = [&]() -> weft::task<> {
        const auto wait = [&] {
            result = spin_until([&] { return log.count(reported) != 0; }) ? 1 : -1;
        };
        auto last = weft::co_spawn(ends_with(calls_late(wait)));
        for (int i = 0; i < 200; ++i) {
            last = weft::co_spawn(chain::holds(std::move(last), calls_late({})));
        }
        co_await weft::yield();  // All but the outermost have ended.
        auto outermost = chain::holds(std::move(last), calls_late({}));
        weft::co_spawn(std::move(outermost), {.name = "outermost"}).detach();
        while (result == 0) co_await weft::yield();
    };
    weft::test::watchdog watchdog(60s, hangs);
    weft::run(main(), {.processors = 1, .hog_report = 20ms, .log = log.sink()});
    CHECK(result == 1);
    CHECK(log.count(reported) == 1);
}

TEST_CASE("a destructor of a detached task that keeps the end is reported by its name",
          "[regress]") {
    weft::test::call_gate gate;
    std::string told;
    auto main = [&]() -> weft::task<> {
        const auto wait = [&] { gate.pass(); };
        weft::co_spawn(ends_with(calls_late(wait)), {.name = "leaver"}).detach();
        while (gate.inside() == 0) co_await weft::yield();
    };
    weft::test::watchdog watchdog(60s, hangs);
    weft::run(main(), {.processors = 2,
                       .shutdown_grace = 10ms,
                       .shutdown_timeout = 100ms,
                       .on_hang =
                           [&](std::string_view report) {
                               told = report;
                               gate.open();
                           },
                       .log = ignore});
    CHECK(told.find("(leaver), spawned at") != told.npos);
}

namespace {

/// A destructor that sends a byte, and takes until it has been read, or three seconds.
struct exchange {
    int peer = -1;
    std::atomic<bool> read{false};
    std::atomic<::pid_t> reader_at{0};
    std::atomic<::pid_t> destroyed_at{0};
    std::atomic<int> in_time{0};

    void send_and_wait() {
        destroyed_at = ::gettid();
        const bool sent = ::send(peer, "x", 1, 0) == 1;
        in_time = sent && spin_until([this] { return read.load(); }, 3s) ? 1 : -1;
    }
};

weft::task<> read_byte(weft::net::tcp_stream& stream, exchange& with) {
    std::array<std::byte, 1> byte;
    with.reader_at = ::gettid();
    co_await stream.read_exact(byte);
    with.read = true;
}

weft::task<> leave_waiter(exchange& with) {
    while (with.reader_at == 0) co_await weft::yield();
    weft::co_spawn(ends_with(calls_late([&with] { with.send_and_wait(); }))).detach();
}

}  // namespace

// The worker has the socket in its ring, and another one is idle.
TEST_CASE("a socket is served while its worker destroys what a task has left behind",
          "[regress]") {
    if (weft::test::thread_sanitizer) WEFT_SKIP("a signal is not handled while a thread computes");
    bool same = false;
    int in_time = 0;
    auto main = [&]() -> weft::task<> {
        for (int attempt = 0; attempt < 50 && !same; ++attempt) {
            std::array<int, 2> ends{};
            REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                                 ends.data()) == 0);
            exchange with;
            with.peer = ends[0];
            auto stream = weft::net::tcp_stream::adopt(ends[1]);
            auto reader = weft::co_spawn(read_byte(stream, with));
            co_await weft::co_spawn(leave_waiter(with));
            co_await std::move(reader);
            while (with.in_time == 0) co_await weft::yield();
            same = with.reader_at == with.destroyed_at;
            in_time = with.in_time;
            ::close(ends[0]);
        }
    };
    weft::test::watchdog watchdog(200s, hangs);
    weft::run(main(), {.processors = 2, .log = ignore});
    CHECK(same);
    CHECK(in_time == 1);
}
