// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scheduler.hpp"
#include "support/scripted_poller.hpp"
#include "support/signal_cell.hpp"

#include <weft/weft.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

// The poller in the scheduler: its batches (S20) and its place in the order of search (S23). The
// completions are a script's, so that their order is known; the poller behind it is the real one.

using namespace std::chrono_literals;
using weft::test::id_of;
using weft::test::scripted_poller;
using weft::test::signal_cell;
using weft::test::spin_until;
using weft::test::this_core;
using weft::test::this_worker;

namespace {

/// What ran, in order; the last one of `count` wakes the task that waits.
struct order_log {
    std::vector<int> numbers;
    std::size_t count = 0;
    signal_cell all;

    void add(int number) {
        const std::lock_guard held(mutex);
        numbers.push_back(number);
        if (numbers.size() == count) all.signal();
    }

    std::mutex mutex;
};

weft::task<> note(order_log& log, int number) {
    log.add(number);
    co_return;
}

weft::task<> note_after(order_log& log, int number, signal_cell& waits_for) {
    co_await waits_for.wait();
    log.add(number);
}

/// Tasks 1 to `count` that wait for a cell each.
struct waiters {
    explicit waiters(std::size_t count) : cells(count) {}

    weft::task<> start(order_log& log) {
        for (std::size_t i = 0; i < cells.size(); ++i) {
            weft::co_spawn(note_after, std::ref(log), static_cast<int>(i + 1), std::ref(cells[i]))
                .detach();
        }
        while (this_worker().p.queue.size() != 0 || this_core().global.size() != 0) {
            co_await weft::yield();
        }
    }

    std::vector<signal_cell> cells;
};

/// Returns in the turn in which the worker has looked at the poller: it will do so again in its
/// eighth turn from here, unless it runs out of work before. Throws if it does not look at all.
weft::task<> until_just_polled(scripted_poller& io) {
    const std::size_t before = io.polls();
    io.show_work(true);
    for (int turns = 0; io.polls() == before; ++turns) {
        if (turns == 100) throw std::runtime_error("the poller is not looked at");
        co_await weft::yield();
    }
    io.show_work(false);
}

weft::task<> spawn_from_outside(order_log& log, int first, int last) {
    std::thread outside([&, &core = this_core()] {
        for (int i = first; i <= last; ++i) {
            weft::detail::runtime_core& runtime = core;
            weft::detail::task_control* control = weft::detail::prepare_spawn(
                {.runtime = &runtime, .name = {}, .stop_token = {}, .where = {}});
            weft::detail::launch(*control, note(log, i).release_frame());
            weft::detail::abandon(control);
        }
    });
    outside.join();
    co_return;
}

void add_range(std::vector<int>& to, int first, int last) {
    for (int i = first; i <= last; ++i) to.push_back(i);
}

}  // namespace

TEST_CASE("S20 of a batch of completions the last one stays in runnext, the others queue in order",
          "[conformance]") {
    const weft::test::held_slice_clock still;
    auto main = [](int count) -> weft::task<std::vector<int>> {
        order_log log;
        log.count = static_cast<std::size_t>(count);
        waiters waiting(log.count);
        co_await waiting.start(log);
        scripted_poller io;
        for (auto& each : waiting.cells) io.complete(each);
        co_await log.all.wait();  // Its worker has nothing else to do.
        co_return std::move(log.numbers);
    };
    CHECK(weft::run(main(1), {.processors = 1, .compensate = false}) == std::vector<int>{1});
    std::vector<int> expected{10};
    add_range(expected, 1, 9);
    CHECK(weft::run(main(10), {.processors = 1, .compensate = false}) == expected);
    expected = {257};
    add_range(expected, 1, 256);
    CHECK(weft::run(main(257), {.processors = 1, .compensate = false}) == expected);
}

TEST_CASE("S20 a batch of completions that overflows the ring moves half of it to the global queue",
          "[conformance]") {
    const weft::test::held_slice_clock still;
    struct seen {
        bool next = false;
        std::size_t ring = 0, global = 0;
        std::uint64_t overflows = 0;
        std::vector<int> order;
    };
    auto main = []() -> weft::task<seen> {
        constexpr int count = 300;
        order_log log;
        log.count = count;
        waiters waiting(count);
        co_await waiting.start(log);
        auto& p = this_worker().p;
        const std::uint64_t overflows = p.overflows.read();
        weft::detail::branch_list batch;
        for (auto& each : waiting.cells) each.signal_into(batch);
        const std::uint64_t last = id_of(batch.back());
        weft::detail::make_ready(batch);
        seen result;
        result.next = id_of(p.queue.peek_next()) == last;
        result.ring = p.queue.ring_size();
        result.global = this_core().global.size();
        result.overflows = p.overflows.read() - overflows;
        co_await log.all.wait();
        result.order = std::move(log.numbers);
        co_return result;
    };
    seen result = weft::run(main(), {.processors = 1, .compensate = false});
    CHECK(result.next);
    CHECK(result.overflows == 1);
    CHECK(result.global == 129);
    CHECK(result.ring == 300 - 1 - 129);
    REQUIRE(result.order.size() == 300);
    CHECK(result.order[0] == 300);
    // The first 128 and the one that found the ring full went to the global queue. When they run
    // between the others depends on the tick; their order does not.
    std::vector<int> from_ring, from_global;
    for (const int each : result.order) {
        (each <= 128 || each == 257 ? from_global : from_ring).push_back(each);
    }
    std::vector<int> expected{300};
    add_range(expected, 129, 256);
    add_range(expected, 258, 299);
    CHECK(from_ring == expected);
    expected.clear();
    add_range(expected, 1, 128);
    expected.push_back(257);
    CHECK(from_global == expected);
}

TEST_CASE("S20 a batch of completions wakes one searcher, and none while somebody searches",
          "[conformance]") {
    const weft::test::held_slice_clock still;  // The watchdog takes nothing away.
    struct seen {
        bool parked = true;
        std::uint64_t with_searcher = 0, without = 0;  // The most of all rounds.
    };
    constexpr unsigned processors = 4;
    auto main = []() -> weft::task<seen> {
        seen result;
        auto& idle = this_core().idle;
        const auto all_parked = [&] {
            return idle.parked_hint() == processors - 1 && idle.searching_hint() == 0;
        };
        // A worker that the poller woke for a timer may search just then: hence some rounds, and
        // begin_search(), which stands in for a worker that searches, again and again.
        for (int round = 0; round < 20; ++round) {
            const bool somebody_searches = round % 2 == 0;
            order_log log;
            waiters waiting(20);
            co_await waiting.start(log);
            result.parked &= spin_until(
                [&] { return all_parked() && (!somebody_searches || idle.begin_search()); });
            weft::detail::branch_list batch;
            for (auto& each : waiting.cells) each.signal_into(batch);
            auto& wakes = this_worker().p.wakes;
            const std::uint64_t before = wakes.read();
            weft::detail::make_ready(batch);
            auto& most = somebody_searches ? result.with_searcher : result.without;
            most = std::max(most, wakes.read() - before);
            if (somebody_searches && idle.end_search()) this_core().wake_if_needed();
            // They use the log, from any worker, until they have ended.
            while (weft::this_runtime::statistics().tasks_alive() > 1) {
                co_await weft::sleep_for(50us);
            }
        }
        co_return result;
    };
    const seen result = weft::run(main(), {.processors = processors, .compensate = false});
    CHECK(result.parked);
    CHECK(result.with_searcher == 0);
    CHECK(result.without == 1);
}

TEST_CASE("S23 the flags of the poller are looked at in each 8th turn, before runnext and the ring",
          "[conformance]") {
    const weft::test::held_slice_clock still;
    auto main = []() -> weft::task<std::vector<int>> {
        order_log log;
        log.count = 22;
        waiters waiting(2);
        co_await waiting.start(log);
        scripted_poller io;
        co_await until_just_polled(io);
        for (auto& each : waiting.cells) io.complete(each);
        for (int i = 101; i <= 120; ++i) weft::co_spawn(note, std::ref(log), i).detach();
        co_await log.all.wait();
        co_return std::move(log.numbers);
    };
    // Seven turns; then the last one of the batch comes first, and the other one behind the ring.
    std::vector<int> expected{120};
    add_range(expected, 101, 106);
    expected.push_back(2);
    add_range(expected, 107, 119);
    expected.push_back(1);
    CHECK(weft::run(main(), {.processors = 1, .compensate = false}) == expected);
}

TEST_CASE("S23 own timers that are due fire in each 8th turn, before runnext and the ring",
          "[conformance]") {
    const weft::test::held_slice_clock still;
    auto main = []() -> weft::task<std::vector<int>> {
        order_log log;
        log.count = 21;
        auto sleeper = [](order_log& notes) -> weft::task<> {
            co_await weft::sleep_for(0ns);
            notes.add(1);
        };
        {
            scripted_poller io;
            co_await until_just_polled(io);
        }
        for (int i = 101; i <= 120; ++i) weft::co_spawn(note, std::ref(log), i).detach();
        weft::co_spawn(sleeper, std::ref(log)).detach();
        co_await log.all.wait();
        co_return std::move(log.numbers);
    };
    // The sleeper takes the first turn, and is due at once.
    std::vector<int> expected;
    add_range(expected, 101, 106);
    expected.push_back(1);
    add_range(expected, 107, 120);
    CHECK(weft::run(main(), {.processors = 1, .compensate = false}) == expected);
}

TEST_CASE("S23 without own work the global queue comes before the poller", "[conformance]") {
    const weft::test::held_slice_clock still;
    auto main = []() -> weft::task<std::vector<int>> {
        order_log log;
        log.count = 5;
        waiters waiting(3);
        co_await waiting.start(log);
        scripted_poller io;
        co_await until_just_polled(io);
        co_await spawn_from_outside(log, 101, 102);
        for (auto& each : waiting.cells) io.complete(each);
        co_await log.all.wait();
        co_return std::move(log.numbers);
    };
    CHECK(weft::run(main(), {.processors = 1, .compensate = false}) ==
          std::vector<int>{101, 102, 3, 1, 2});
}

TEST_CASE("S23 the own poller comes before theft", "[conformance]") {
    const weft::test::held_slice_clock still;  // The watchdog takes nothing away.
    struct shared {
        std::mutex mutex;
        std::vector<int> order;
        std::optional<scripted_poller> io;
        signal_cell completion;
        std::atomic<bool> started{false}, go{false};
        bool on_own_worker = false;

        void add(int number) {
            const std::lock_guard held(mutex);
            order.push_back(number);
        }
        std::size_t ran() {
            const std::lock_guard held(mutex);
            return order.size();
        }
    };
    auto loot = [](shared& state, int number) -> weft::task<> {
        state.add(number);
        co_return;
    };
    auto reader = [](shared& state) -> weft::task<> {
        co_await state.completion.wait();
        state.add(1);
        state.on_own_worker = &this_worker().io() == &*state.io;
        if (state.on_own_worker) state.io.reset();
    };
    auto other_worker = [](shared& state) -> weft::task<> {
        state.io.emplace();
        state.started = true;
        spin_until([&] { return state.go.load(); });
        co_await until_just_polled(*state.io);
        state.io->complete(state.completion);
    };
    auto main = [](shared& state, auto make_loot, auto make_reader,
                   auto make_other) -> weft::task<bool> {
        auto waiting = weft::co_spawn(make_reader, std::ref(state));
        while (this_worker().p.queue.size() != 0) co_await weft::yield();
        // It has parked, wherever it ran, when the other worker has.
        auto& idle = this_core().idle;
        bool good = spin_until([&] { return idle.parked_hint() == 1; });
        auto other = weft::co_spawn(make_other, std::ref(state));
        good &= spin_until([&] { return state.started.load(); });
        std::vector<weft::join_handle<void>> loot_handles;
        for (int i = 101; i <= 104; ++i) {
            loot_handles.push_back(weft::co_spawn(make_loot, std::ref(state), i));
        }
        state.go = true;
        good &= spin_until([&] { return state.ran() >= 2; });
        for (auto& each : loot_handles) co_await std::move(each);
        co_await std::move(other);
        co_await std::move(waiting);
        co_return good;
    };
    shared state;
    REQUIRE(weft::run(main(state, loot, reader, other_worker),
                      {.processors = 2, .compensate = false}));
    CHECK(state.on_own_worker);
    CHECK(state.order.front() == 1);
}
