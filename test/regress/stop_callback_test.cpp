// SPDX-License-Identifier: MIT
#include "support/call_gate.hpp"
#include "support/catch.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <stop_token>
#include <thread>
#include <vector>

// Callbacks on the token of a blocking call ran on whichever thread stopped it: a worker that fired
// timers, the watchdog, a thread outside, or the end of the runtime. They are the user's code, and
// all of these have others who wait for them.

using namespace std::chrono_literals;
using weft::test::until;

namespace {

/// What a call with a slow callback has seen.
struct slow_call {
    std::atomic<bool> runs{false};
    std::atomic<bool> called_back{false};
    std::atomic<bool> released{false};
    std::atomic<bool> in_time{false};
    std::thread::id called_on;

    /// The callback waits for the release, not for ever, so that a fault ends the test.
    void make(std::stop_token stop) {
        const std::stop_callback slow(stop, [this] {
            called_on = std::this_thread::get_id();
            called_back = true;
            const auto latest = std::chrono::steady_clock::now() + 10s;
            while (!released && std::chrono::steady_clock::now() < latest) {
                std::this_thread::sleep_for(1ms);
            }
            in_time = released.load();
        });
        runs = true;
        while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);
    }
};

weft::task<> await_call(slow_call& call) {
    co_await weft::blocking([&call](std::stop_token stop) { call.make(stop); });
}

weft::task<> await_call_for(slow_call& call, std::chrono::nanoseconds time) {
    co_await weft::as_result(weft::with_timeout(time, await_call(call)));
}

weft::runtime_options pool(unsigned processors, unsigned threads) {
    return {.processors = processors, .shutdown_grace = 0s, .blocking_threads = threads};
}

}  // namespace

// With one thread for calls, the one that is to be stopped holds it.
TEST_CASE("a callback on the token of a late call keeps no worker", "[regress]") {
    for (const unsigned processors : {1U, 2U}) {
        slow_call call;
        auto main = [&]() -> weft::task<> {
            auto late = weft::co_spawn(await_call_for(call, 5ms));
            co_await until([&] { return call.called_back.load(); });
            call.released = true;
            co_await std::move(late);
        };
        weft::run(main(), pool(processors, 1));
        CHECK(call.in_time);
    }
}

TEST_CASE("a callback on the token of a call does not run on a thread outside that stops it",
          "[regress]") {
    slow_call call;
    weft::runtime runtime(pool(1, 1));
    auto handle = runtime.co_spawn([&] { return await_call(call); });
    while (!call.runs) std::this_thread::sleep_for(1ms);
    handle.request_stop();
    call.released = true;
    handle.get();
    CHECK(call.in_time);
}

// It ran under the lock of the list of tasks, inside begin_drain().
TEST_CASE("a callback on the token of a call does not keep the end of the runtime", "[regress]") {
    slow_call call;
    weft::runtime runtime(pool(1, 1));
    runtime.co_spawn([&] { return await_call(call); }).detach();
    while (!call.runs) std::this_thread::sleep_for(1ms);
    std::atomic<bool> ended{false};
    std::thread ender([&] {
        runtime.shutdown();
        ended = true;
    });
    while (!call.called_back) std::this_thread::sleep_for(1ms);
    CHECK_FALSE(ended);
    CHECK(call.called_on != ender.get_id());
    call.released = true;
    ender.join();
    CHECK(call.in_time);
}

TEST_CASE("calls that are stopped at once are all told", "[regress]") {
    constexpr int count = 100;
    std::atomic<int> begun{0};
    std::atomic<int> told{0};
    auto listen = [&](std::stop_token stop) {
        ++begun;
        std::atomic<bool> here{false};
        const std::stop_callback tells(stop, [&] {
            ++told;
            here = true;
        });
        while (!here) std::this_thread::sleep_for(100us);
    };
    auto main = [&]() -> weft::task<> {
        std::vector<weft::join_handle<void>> handles;
        for (int i = 0; i < count; ++i) {
            handles.push_back(weft::co_spawn([&]() -> weft::task<> {
                // Some are stopped before they begin, or while they do.
                co_await weft::as_result(weft::with_timeout(1ms, weft::blocking(listen)));
            }));
        }
        for (auto& each : handles) co_await std::move(each);
    };
    weft::run(main(), pool(2, count));
    CHECK(told == begun);
    weft::run(main(), pool(2, 2));  // Others are taken off the queue.
    CHECK(told == begun);
    CHECK(begun >= 2);
}
