// SPDX-License-Identifier: MIT
#include "support/call_gate.hpp"
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/scheduler.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

// Machines (threads): S4, S7, S8 and S10 of the scheduler's checklist, the last one as the design
// reads it.

using namespace std::chrono_literals;
using weft::test::call_gate;
using weft::test::spin_until;
using weft::test::this_worker;
using weft::test::until;

namespace {

std::string hangs() {
    return "a test of machines does not end";
}

}  // namespace

TEST_CASE("S4: with one processor there are as many machines as calls block", "[conformance]") {
    const weft::test::watchdog dog(60s, hangs);
    constexpr int calls = 40;
    call_gate hold;
    std::mutex mutex;
    std::set<std::thread::id> machines;
    auto blocked = [&]() -> weft::task<> {
        co_await weft::blocking([&] {
            {
                const std::lock_guard held(mutex);
                machines.insert(std::this_thread::get_id());
            }
            hold.pass();
        });
    };
    auto main = [&]() -> weft::task<std::size_t> {
        std::vector<weft::join_handle<void>> handles;
        for (int i = 0; i < calls; ++i) handles.push_back(weft::co_spawn(blocked));
        co_await until([&] { return hold.inside() == calls; });
        // All of them block at once, and this task runs.
        const std::size_t processors = weft::this_runtime::processors();
        hold.open();
        for (auto& each : handles) co_await std::move(each);
        co_return processors;
    };
    CHECK(weft::run(main(), {.processors = 1}) == 1);
    CHECK(machines.size() == calls);
    CHECK(machines.count(std::this_thread::get_id()) == 0);
}

TEST_CASE("S7: the thread that starts the runtime runs the first task, then others as any worker",
          "[conformance]") {
    const weft::test::watchdog dog(60s, hangs);
    struct shared {
        std::thread::id caller = std::this_thread::get_id();
        std::atomic<bool> first_here{false}, other_here{false}, other_elsewhere{false};
        bool both() const { return other_here && other_elsewhere; }
    } state;
    auto other = [](shared& seen) -> weft::task<> {
        while (!seen.both()) {
            const bool here = std::this_thread::get_id() == seen.caller;
            (here ? seen.other_here : seen.other_elsewhere) = true;
            // Two of them keep a worker each until both workers have had one.
            spin_until([&] { return seen.both(); }, 1ms);
            co_await weft::yield();
        }
    };
    auto main = [](auto make, shared& seen) -> weft::task<> {
        auto one = weft::co_spawn(make, std::ref(seen));
        auto two = weft::co_spawn(make, std::ref(seen));
        co_await std::move(one);
        co_await std::move(two);
    };
    // A second worker may steal the first task like any other; alone, the caller has to run it.
    weft::run([](shared& seen) -> weft::task<> {
        seen.first_here = std::this_thread::get_id() == seen.caller;
        co_return;
    }(state), {.processors = 1});
    CHECK(state.first_here);
    weft::run(main(other, state), {.processors = 2});
    CHECK(state.other_here);
    CHECK(state.other_elsewhere);
}

namespace {

std::uintptr_t stack_here() {
    return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
}

/// The stack on which a task goes on after it was parked, each time.
weft::task<> collect(std::set<std::uintptr_t>& seen, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        switch (i % 3) {
        case 0: co_await weft::yield(); break;
        case 1: co_await weft::sleep_for(1us); break;
        default: co_await weft::blocking([] {}); break;
        }
        seen.insert(stack_here());
    }
}

}  // namespace

// What Go's g0 is there for. Whatever a task waits for, it goes on in the loop of the worker, at a
// depth that does not depend on what it did before, nor on who readied it.
TEST_CASE("S8: a worker resumes every task at the same depth of its own stack", "[conformance]") {
    const weft::test::watchdog dog(60s, hangs);
    std::set<std::uintptr_t> seen;
    const std::uintptr_t callers = stack_here();
    auto main = [&]() -> weft::task<> {
        std::vector<weft::join_handle<void>> handles;
        for (int i = 0; i < 10; ++i) {
            handles.push_back(weft::co_spawn(collect, std::ref(seen), 300));
        }
        for (auto& each : handles) co_await std::move(each);
    };
    weft::run(main(), {.processors = 1, .compensate = false});
    REQUIRE_FALSE(seen.empty());
    // On the stack of the thread that called run(), below that call, and always at one place: two
    // where the compiler has made the function twice, for its start and for its resumption.
    CHECK(*seen.rbegin() < callers);
    CHECK(seen.size() <= 2);
}

TEST_CASE("S10: when the main task returns, the others are stopped, and run() returns",
          "[conformance]") {
    const weft::test::watchdog dog(60s, hangs);
    struct left {
        std::atomic<int>& destroyed;
        ~left() { ++destroyed; }
    };
    std::atomic<int> stopped{0}, destroyed{0}, resumed{0};
    auto waits = [&]() -> weft::task<> {
        const left at_end{destroyed};
        const auto result = co_await weft::as_result(weft::sleep_for(1h));
        if (!result && result.error() == std::errc::operation_canceled) ++stopped;
    };
    auto goes_on = [&]() -> weft::task<> {
        const left at_end{destroyed};
        for (;;) {
            co_await weft::as_result(weft::yield());
            ++resumed;
        }
    };
    auto main = [&](int waiting) -> weft::task<int> {
        for (int i = 0; i < waiting; ++i) weft::co_spawn(waits).detach();
        weft::co_spawn(goes_on).detach();
        for (int i = 0; i < 10; ++i) co_await weft::yield();
        co_return 7;
    };
    // Those that heed the stop end by themselves; one that does not is destroyed after the grace
    // period. The value is that of the main task in any case.
    const std::size_t threads_before = weft::test::thread_count();
    CHECK(weft::run(main(5), {.processors = 2, .shutdown_grace = 500ms}) == 7);
    CHECK(destroyed == 6);
    CHECK(stopped == 5);
    CHECK(resumed > 0);
    // Nothing of the runtime runs any more: its threads have ended. The kernel lets a joiner go on
    // a moment before it takes the thread from the list.
    CHECK(spin_until([&] { return weft::test::thread_count() == threads_before; }));
    // Nobody waits for a grace period that nobody needs.
    stopped = destroyed = 0;
    auto heeding = [&]() -> weft::task<int> {
        for (int i = 0; i < 5; ++i) weft::co_spawn(waits).detach();
        for (int i = 0; i < 10; ++i) co_await weft::yield();
        co_return 8;
    };
    const auto begin = std::chrono::steady_clock::now();
    CHECK(weft::run(heeding(), {.processors = 2, .shutdown_grace = 10min}) == 8);
    CHECK(std::chrono::steady_clock::now() - begin < 5min);
    CHECK(stopped == 5);
    CHECK(destroyed == 5);
}
