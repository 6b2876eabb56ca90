// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/network.hpp"
#include "support/nothing.hpp"
#include "support/scheduler.hpp"
#include "support/signal_cell.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

// The number of processors changes while tasks run: S3 of the scheduler's checklist, and what S20
// says of the queue of a processor that is given up.

using namespace std::chrono_literals;
using weft::processor_state;
using weft::test::id_of;
using weft::test::nothing;
using weft::test::signal_cell;
using weft::test::spin_until;
using weft::test::this_core;
using weft::test::this_worker;

namespace {

/// Without workers in the place of others, so that only those run that were asked for, however long
/// a test keeps one of them.
template <class MakeMain>
void on_each_backend(MakeMain make_main, unsigned processors = 2) {
    for (const char* backend : weft::test::backends()) {
        INFO("netpoll: " << backend);
        const weft::test::watchdog dog(90s, [backend] { return std::string(backend); });
        const weft::test::forced_backend forced(backend);
        weft::run(make_main(), {.processors = processors, .compensate = false});
    }
}

processor_state state_of(std::size_t index) {
    return weft::this_runtime::statistics().processors.at(index).state;
}

/// Has every processor from `first` on been given up, down to the last poll of its ring?
bool retired_from(std::size_t first) {
    const auto statistics = weft::this_runtime::statistics();
    for (std::size_t i = first; i < statistics.processors.size(); ++i) {
        if (statistics.processors[i].state != processor_state::retired) return false;
    }
    return true;
}

/// Keeps its worker until all of `count` tasks run at the same time.
weft::task<bool> meet(std::atomic<unsigned>& running, unsigned count) {
    ++running;
    co_return spin_until([&] { return running >= count; });
}

/// Do so many tasks run at the same time?
weft::task<bool> run_at_once(unsigned count) {
    std::atomic<unsigned> running{0};
    std::vector<weft::join_handle<bool>> handles;
    for (unsigned i = 0; i < count; ++i) {
        handles.push_back(weft::co_spawn(meet, std::ref(running), count));
    }
    bool all = true;
    for (auto& each : handles) {
        const bool met = co_await std::move(each);
        all = all && met;
    }
    co_return all;
}

weft::task<> wait_until_retired_from(std::size_t first) {
    while (!retired_from(first)) co_await weft::sleep_for(100us);
}

struct counted {
    std::atomic<int> running{0}, most{0};

    weft::task<> turn() {
        for (int i = 0; i < 10; ++i) {
            const int now = ++running;
            int seen = most;
            while (now > seen && !most.compare_exchange_weak(seen, now)) {}
            spin_until([] { return true; });
            --running;
            co_await weft::yield();
        }
    }
};

bool on_first() {
    return this_worker().index() == 0;
}

/// Brings the calling task to the first worker; another one may have stolen it before it began. Ask
/// on_first() again after this await: on a busy machine its slice may have ended on the way.
weft::task<> to_first_worker() {
    const unsigned wanted = weft::this_runtime::processors();
    if (on_first()) co_return;
    weft::this_runtime::set_processors(1);
    while (!on_first()) co_await weft::yield();
    weft::this_runtime::set_processors(wanted);
}

/// Occupies the workers 1 to `others` with a task each, which waits for the gate and then does
/// `what`. The calling task holds worker 0, and keeps it until it awaits something.
template <class What>
std::vector<weft::join_handle<void>> on_others(unsigned others, What what) {
    struct gate {
        std::atomic<unsigned> arrived{0};
    };
    REQUIRE(on_first());
    auto shared = std::make_shared<gate>();
    std::vector<weft::join_handle<void>> handles;
    for (unsigned i = 0; i < others; ++i) {
        handles.push_back(weft::co_spawn(
            [](std::shared_ptr<gate> at, unsigned count, What then) -> weft::task<> {
                ++at->arrived;
                spin_until([&] { return at->arrived > count; });
                co_await then();
            },
            shared, others, what));
    }
    // It opens the gate when all the others have a task.
    spin_until([&] { return shared->arrived == others; });
    ++shared->arrived;
    return handles;
}

}  // namespace

TEST_CASE("S3: more processors run more tasks at once, and fewer run fewer", "[conformance]") {
    on_each_backend([]() -> weft::task<> {
        weft::this_runtime::set_processors(6);
        const unsigned six = weft::this_runtime::processors();
        const bool six_run = co_await run_at_once(6);
        weft::this_runtime::set_processors(2);
        const unsigned two = weft::this_runtime::processors();
        co_await wait_until_retired_from(2);
        const auto first = state_of(0);
        const auto second = state_of(1);
        const bool two_run = co_await run_at_once(2);
        counted tasks;
        std::vector<weft::join_handle<void>> handles;
        for (int i = 0; i < 50; ++i) handles.push_back(weft::co_spawn(tasks.turn()));
        for (auto& each : handles) co_await std::move(each);
        const std::size_t threads = weft::this_runtime::statistics().processors.size();
        // Those that were given up come back before new ones are made.
        weft::this_runtime::set_processors(6);
        const bool six_again = co_await run_at_once(6);
        const std::size_t threads_again = weft::this_runtime::statistics().processors.size();
        CHECK(six == 6);
        CHECK(six_run);
        CHECK(two == 2);
        CHECK(first == processor_state::running);
        CHECK(second == processor_state::running);
        CHECK(two_run);
        CHECK(tasks.most <= 2);
        CHECK(threads == 6);
        CHECK(six_again);
        CHECK(threads_again == 6);
    }, 1);
}

TEST_CASE("S3: a processor that is given up loses no timer, also while the others are busy",
          "[conformance]") {
    on_each_backend([]() -> weft::task<> {
        constexpr unsigned others = 3;
        constexpr int sleepers = 100;
        std::atomic<int> asleep{0}, awake{0};
        std::atomic<bool> early{false};
        auto sleeper = [&](int number) -> weft::task<> {
            const auto until = std::chrono::steady_clock::now() + 50ms + number * 100us;
            ++asleep;
            co_await weft::sleep_until(until);
            if (std::chrono::steady_clock::now() < until) early = true;
            ++awake;
        };
        auto spawner = [&]() -> weft::task<> {
            std::vector<weft::join_handle<void>> handles;
            for (int i = 0; i < sleepers; ++i) handles.push_back(weft::co_spawn(sleeper, i));
            for (auto& each : handles) co_await std::move(each);
        };
        while (!on_first()) co_await to_first_worker();
        auto handles = on_others(others, spawner);
        // This task holds the first worker: the others set their timers in their own heaps.
        const bool all_asleep = spin_until([&] { return asleep == 3 * sleepers; });
        weft::this_runtime::set_processors(1);
        const bool retired = spin_until([] { return retired_from(1); });
        const int left = awake;
        auto& heap = this_worker().p.timers;
        const auto moved = static_cast<int>(heap.size());
        for (auto& each : handles) co_await std::move(each);
        CHECK(all_asleep);
        CHECK(retired);
        CHECK(moved + left <= 3 * sleepers);
        CHECK(awake == 3 * sleepers);
        CHECK_FALSE(early);
    }, 4);
}

TEST_CASE("S3: timers of a retired processor are in the heap of the first one", "[conformance]") {
    auto main = []() -> weft::task<> {
        std::atomic<int> asleep{0};
        auto sleeper = [&]() -> weft::task<> {
            ++asleep;
            bool stopped = false;
            try {
                co_await weft::sleep_for(1h);
            } catch (const std::system_error&) { stopped = true; }
            if (stopped) --asleep;
        };
        std::vector<weft::join_handle<void>> sleeping;
        std::mutex lock;
        auto spawner = [&]() -> weft::task<> {
            for (int i = 0; i < 3000; ++i) {  // Some chunks of a heap.
                auto handle = weft::co_spawn(sleeper);
                const std::lock_guard held(lock);
                sleeping.push_back(std::move(handle));
            }
            co_return;
        };
        while (!on_first()) co_await to_first_worker();
        auto handles = on_others(2, spawner);
        const bool all_asleep = spin_until([&] { return asleep == 6000; });
        const std::size_t before = this_worker().p.timers.size();
        weft::this_runtime::set_processors(1);
        const bool retired = spin_until([] { return retired_from(1); });
        const std::size_t after = this_worker().p.timers.size();
        const std::size_t left = this_core().worker_at(1).p.timers.size() +
                                 this_core().worker_at(2).p.timers.size();
        // They can be cancelled where they are now.
        for (auto& each : sleeping) each.request_stop();
        const std::size_t in_the_end = this_worker().p.timers.size();
        for (auto& each : handles) co_await std::move(each);
        for (auto& each : sleeping) co_await std::move(each);
        CHECK(all_asleep);
        CHECK(retired);
        CHECK(before == 0);
        CHECK(after == 6000);
        CHECK(left == 0);
        CHECK(in_the_end == 0);
        CHECK(asleep == 0);
    };
    weft::run(main(), {.processors = 3, .compensate = false});
}

TEST_CASE("S3: a processor that is given up loses no socket", "[conformance]") {
    on_each_backend([]() -> weft::task<> {
        constexpr unsigned others = 3;
        constexpr int each_reads = 20;
        constexpr int total = 3 * each_reads;
        std::vector<weft::test::stream_pair> pairs;
        for (int i = 0; i < total; ++i) pairs.push_back(co_await weft::test::connected_pair());
        std::atomic<int> next{0}, waiting{0}, received{0};
        auto reader = [&]() -> weft::task<> {
            auto& stream = pairs[static_cast<std::size_t>(next++)].server;
            std::array<std::byte, 4> buffer;
            // The first byte was sent before; the second one makes it wait.
            co_await stream.read_exact(std::span(buffer).first(1));
            ++waiting;
            co_await stream.read_exact(std::span(buffer).first(1));
            ++received;
        };
        auto spawner = [&]() -> weft::task<> {
            std::vector<weft::join_handle<void>> handles;
            for (int i = 0; i < each_reads; ++i) handles.push_back(weft::co_spawn(reader));
            for (auto& each : handles) co_await std::move(each);
        };
        for (auto& each : pairs) co_await each.client.write_all(std::array{std::byte{1}});
        while (!on_first()) co_await to_first_worker();
        auto handles = on_others(others, spawner);
        const bool all_wait = spin_until([&] { return waiting == total; });
        weft::this_runtime::set_processors(1);
        co_await wait_until_retired_from(1);
        for (auto& each : pairs) co_await each.client.write_all(std::array{std::byte{2}});
        for (auto& each : handles) co_await std::move(each);
        // Streams that were at home there can be closed, and their peers learn of it.
        int ends = 0;
        std::array<std::byte, 4> buffer;
        for (auto& each : pairs) {
            co_await each.server.close();
            const std::size_t count = co_await each.client.read_some(buffer);
            ends += count == 0 ? 1 : 0;
        }
        CHECK(all_wait);
        CHECK(received == total);
        CHECK(ends == total);
    }, 4);
}

TEST_CASE("S3: nothing is lost while the number changes, whoever changes it", "[conformance]") {
    for (const char* backend : weft::test::backends()) {
        INFO("netpoll: " << backend);
        const weft::test::forced_backend forced(backend);
        weft::runtime runtime({.processors = 2, .compensate = false});
        weft::test::watchdog dog(
            30s, [&] { return weft::test::describe(runtime.statistics()); });
        constexpr int tasks = 200;
        std::atomic<int> turns{0}, ended{0};
        auto body = [&](int number) -> weft::task<> {
            for (int i = 0; i < 20; ++i) {
                if ((number + i) % 3 == 0) {
                    co_await weft::sleep_for(std::chrono::microseconds(number));
                } else {
                    co_await weft::yield();
                }
                if (number % 50 == 0) {
                    weft::this_runtime::set_processors(1 + static_cast<unsigned>(i) % 5);
                }
                ++turns;
            }
            ++ended;
        };
        std::vector<weft::join_handle<void>> handles;
        for (int i = 0; i < tasks; ++i) handles.push_back(runtime.co_spawn(body, i));
        std::vector<std::thread> outside;
        std::atomic<int> refused{0};
        for (unsigned t = 0; t < 3; ++t) {
            outside.emplace_back([&, t] {
                for (unsigned i = 0; i < 50; ++i) {
                    try {
                        runtime.set_processors(1 + (t + i) % 6);
                    } catch (const std::system_error&) { ++refused; }
                    runtime.co_spawn(nothing()).get();
                    dog.progress();
                }
            });
        }
        for (auto& each : handles) each.get();
        for (auto& each : outside) each.join();
        const auto statistics = runtime.statistics();
        std::uint64_t ends = 0;
        for (const auto& each : statistics.processors) ends += each.ended;
        CHECK(turns == tasks * 20);
        CHECK(ended == tasks);
        CHECK(refused == 0);
        CHECK(statistics.tasks_spawned() == tasks + 150);
        CHECK(ends == tasks + 150);
        CHECK(statistics.processors.size() <= 6);
        runtime.set_processors(3);
        CHECK(statistics.netpoller == backend);
    }
}

TEST_CASE("S3: a number out of range, and the end of a runtime, are refused", "[conformance]") {
    auto main = []() -> weft::task<> {
        CHECK_THROWS_AS(weft::this_runtime::set_processors(0), std::invalid_argument);
        CHECK_THROWS_AS(weft::this_runtime::set_processors(1025), std::invalid_argument);
        CHECK(weft::this_runtime::processors() == 2);
        co_return;
    };
    weft::run(main(), {.processors = 2});
    CHECK_THROWS_AS(weft::this_runtime::set_processors(2), std::logic_error);
    weft::runtime runtime({.processors = 2});
    runtime.shutdown();
    std::error_code code;
    try {
        runtime.set_processors(3);
    } catch (const std::system_error& error) { code = error.code(); }
    CHECK(code == weft::errc::stopped);
    CHECK(runtime.statistics().processors.size() == 2);
}

TEST_CASE("S20: the queue of a retired processor goes to the global queue, before what is there",
          "[conformance]") {
    struct seen {
        std::vector<std::uint64_t> spawned, global;
        std::uint64_t spawner = 0;
        bool retired = false;
    };
    auto main = []() -> weft::task<seen> {
        seen result;
        std::vector<weft::join_handle<void>> handles;
        std::atomic<bool> ready{false};
        auto spawner = [&]() -> weft::task<> {
            result.spawner = weft::this_task::id();
            // The first 128 overflow, with the one that is kicked out of runnext then.
            for (int i = 0; i < 258; ++i) {
                handles.push_back(weft::co_spawn(nothing()));
                result.spawned.push_back(handles.back().id());
            }
            weft::this_runtime::set_processors(1);
            ready = true;
            co_await weft::yield();  // Behind its ring; the loop then finds that it was asked.
        };
        while (!on_first()) co_await to_first_worker();
        auto others = on_others(1, spawner);
        // This task holds the first worker, so nobody takes anything.
        result.retired = spin_until([&] { return ready && retired_from(1); });
        weft::detail::branch_list all;
        auto& global = this_core().global;
        global.pop_share(1, ~std::size_t{0} / 2, all);
        while (weft::detail::branch* each = all.pop_front()) {
            result.global.push_back(id_of(each));
            global.push_back(each);
        }
        for (auto& each : others) co_await std::move(each);
        for (auto& each : handles) co_await std::move(each);
        co_return result;
    };
    const weft::test::held_slice_clock still;  // The watchdog takes nothing away.
    const seen found = weft::run(main(), {.processors = 2});
    CHECK(found.retired);
    std::vector<std::uint64_t> expected{found.spawned.back()};
    for (std::size_t i = 128; i < 256; ++i) expected.push_back(found.spawned[i]);
    expected.push_back(found.spawner);
    for (std::size_t i = 0; i < 128; ++i) expected.push_back(found.spawned[i]);
    expected.push_back(found.spawned[256]);
    CHECK(found.global == expected);
}
