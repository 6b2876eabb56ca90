// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/nothing.hpp"
#include "support/scheduler.hpp"
#include "support/signal_cell.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

// Creating and queueing: S14 to S21 of the scheduler's checklist. Where a look into the worker's
// queues is needed, the test runs as a task on one processor, so that nobody disturbs it.

using weft::test::id_of;
using weft::test::nothing;
using weft::test::this_core;
using weft::test::this_worker;

namespace {

/// Appends its number; the last one of `count` signals.
weft::task<> note(std::vector<int>& order, int number, std::size_t count,
                  weft::test::signal_cell& all) {
    order.push_back(number);
    if (order.size() == count) all.signal();
    co_return;
}

/// On one processor: spawns 1 to `count`, then blocks. The order in which they ran.
std::vector<int> order_of(int count) {
    const weft::test::held_slice_clock still;
    auto main = [](int number_of_tasks) -> weft::task<std::vector<int>> {
        std::vector<int> order;
        weft::test::signal_cell all;
        const auto total = static_cast<std::size_t>(number_of_tasks);
        for (int i = 1; i <= number_of_tasks; ++i) {
            weft::co_spawn(note, std::ref(order), i, total, std::ref(all)).detach();
        }
        co_await all.wait();
        co_return order;
    };
    return weft::run(main(count), {.processors = 1, .compensate = false});
}

void add_range(std::vector<int>& to, int first, int last) {
    for (int i = first; i <= last; ++i) to.push_back(i);
}

std::vector<weft::join_handle<void>> spawn_many(std::size_t count) {
    std::vector<weft::join_handle<void>> handles;
    for (std::size_t i = 0; i < count; ++i) handles.push_back(weft::co_spawn(nothing()));
    return handles;
}

weft::task<> join_all(std::vector<weft::join_handle<void>> handles) {
    for (auto& each : handles) co_await std::move(each);
}

/// Takes everything out of the global queue of one processor and puts it back.
std::vector<std::uint64_t> look_into_global() {
    weft::detail::branch_list all;
    auto& global = this_core().global;
    global.pop_share(1, ~std::size_t{0} / 2, all);
    std::vector<std::uint64_t> ids;
    while (weft::detail::branch* each = all.pop_front()) {
        ids.push_back(id_of(each));
        global.push_back(each);
    }
    return ids;
}

}  // namespace

TEST_CASE("S14 a new task goes to runnext and kicks the one there behind the ring",
          "[conformance]") {
    struct seen {
        std::uint64_t id;
        std::uint64_t next;
        std::size_t ring;
    };
    auto main = [](std::vector<seen>& looks) -> weft::task<> {
        std::vector<weft::join_handle<void>> handles;
        for (int i = 0; i < 4; ++i) {
            handles.push_back(weft::co_spawn(nothing()));
            auto& queue = this_worker().p.queue;
            looks.push_back({handles.back().id(), id_of(queue.peek_next()), queue.ring_size()});
        }
        co_await join_all(std::move(handles));
    };
    std::vector<seen> looks;
    weft::run(main(looks), {.processors = 1, .compensate = false});
    for (std::size_t i = 0; i < looks.size(); ++i) {
        CHECK(looks[i].next == looks[i].id);
        CHECK(looks[i].ring == i);
    }
    CHECK(order_of(3) == std::vector<int>{3, 1, 2});
}

TEST_CASE("S15 on one processor tasks 1 to 10 run as 10, 1, 2, ..., 9", "[conformance]") {
    CHECK(order_of(10) == std::vector<int>{10, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("S16 a ring of 256 and runnext hold 257 tasks without the global queue",
          "[conformance]") {
    struct seen {
        std::size_t ring, global;
        std::uint64_t overflows;
    };
    auto main = [](std::size_t count) -> weft::task<seen> {
        auto handles = spawn_many(count);
        auto& p = this_worker().p;
        const seen result{p.queue.ring_size(), this_core().global.size(), p.overflows.read()};
        co_await join_all(std::move(handles));
        co_return result;
    };
    const seen full = weft::run(main(257), {.processors = 1, .compensate = false});
    CHECK(full.ring == 256);
    CHECK(full.global == 0);
    CHECK(full.overflows == 0);
    const seen one_more = weft::run(main(258), {.processors = 1, .compensate = false});
    CHECK(one_more.overflows == 1);
    CHECK(one_more.global != 0);
}

TEST_CASE("S17 a full ring moves its first 128 tasks and the kicked one in one batch, in order",
          "[conformance]") {
    struct seen {
        std::vector<std::uint64_t> spawned, global;
        std::size_t ring;
        std::uint64_t next, overflows;
    };
    auto main = []() -> weft::task<seen> {
        auto handles = spawn_many(258);
        seen result;
        for (auto& each : handles) result.spawned.push_back(each.id());
        auto& p = this_worker().p;
        result.global = look_into_global();
        result.ring = p.queue.ring_size();
        result.next = id_of(p.queue.peek_next());
        result.overflows = p.overflows.read();
        co_await join_all(std::move(handles));
        co_return result;
    };
    const seen result = weft::run(main(), {.processors = 1, .compensate = false});
    std::vector<std::uint64_t> expected(result.spawned.begin(), result.spawned.begin() + 128);
    expected.push_back(result.spawned[256]);
    CHECK(result.global == expected);
    CHECK(result.ring == 128);
    CHECK(result.next == result.spawned[257]);
    CHECK(result.overflows == 1);
}

TEST_CASE("S18 on one processor tasks 1 to 258 run in Go's exact order", "[conformance]") {
    std::vector<int> expected{258};
    add_range(expected, 129, 188);
    expected.push_back(1);
    add_range(expected, 189, 248);
    expected.push_back(2);
    add_range(expected, 249, 256);
    add_range(expected, 3, 128);
    expected.push_back(257);
    CHECK(order_of(258) == expected);
}

TEST_CASE("S19 the global queue is first in, first out, and has no limit", "[conformance]") {
    constexpr std::size_t count = 100'000;
    auto main = [](weft::detail::runtime_core** core, std::atomic<bool>& go) -> weft::task<bool> {
        *core = &this_core();
        go = true;
        // This task keeps the only processor until all have come from outside.
        auto& global = this_core().global;
        const bool all = weft::test::spin_until([&] { return global.size() == count; });
        const std::vector<std::uint64_t> ids = look_into_global();
        bool ascending = ids.size() == count;
        for (std::size_t i = 1; i < ids.size(); ++i) ascending &= ids[i - 1] < ids[i];
        co_return all&& ascending;
    };
    weft::runtime runtime({.processors = 1, .compensate = false});
    weft::detail::runtime_core* core = nullptr;
    std::atomic<bool> go{false};
    auto keeper = runtime.co_spawn(main, &core, std::ref(go));
    REQUIRE(weft::test::spin_until([&] { return go.load(); }));
    for (std::size_t i = 0; i < count; ++i) runtime.co_spawn(nothing()).detach();
    CHECK(keeper.get());
    CHECK(weft::test::spin_until([&] { return runtime.statistics().tasks_alive() == 0; }));
}

TEST_CASE("S20 the global queue is fed by overflow, by overrun branches and from outside",
          "[conformance]") {
    const weft::test::held_slice_clock still;
    auto overrun = []() -> weft::task<> {
        // What the watchdog asks of a task that has used up its slice.
        this_worker().set_attention(weft::detail::attention::yield_wanted);
        co_await weft::checkpoint();
    };
    auto look = [](std::vector<std::size_t>& sizes) -> weft::task<> {
        sizes.push_back(this_core().global.size());
        co_return;
    };
    auto main = [](auto make_overrun, auto make_look) -> weft::task<std::vector<std::size_t>> {
        std::vector<std::size_t> sizes;
        // Runs first of the two, and yields behind the global queue; then the other one looks.
        auto looker = weft::co_spawn(make_look, std::ref(sizes));
        auto overrunner = weft::co_spawn(make_overrun);
        co_await std::move(looker);
        co_await std::move(overrunner);
        // From a thread that is no worker.
        auto handle = weft::co_spawn(nothing());
        std::thread outside([&core = this_core()] {
            weft::detail::runtime_core& runtime = core;
            weft::detail::task_control* control = weft::detail::prepare_spawn(
                {.runtime = &runtime, .name = {}, .stop_token = {}, .where = {}});
            weft::detail::launch(*control, nothing().release_frame());
            weft::detail::abandon(control);
        });
        outside.join();
        sizes.push_back(this_core().global.size());
        co_await std::move(handle);
        auto many = spawn_many(258);
        sizes.push_back(this_core().global.size());
        co_await join_all(std::move(many));
        co_return sizes;
    };
    const auto sizes = weft::run(main(overrun, look), {.processors = 1, .compensate = false});
    REQUIRE(sizes.size() == 3);
    CHECK(sizes[0] == 1);
    CHECK(sizes[1] == 1);
    CHECK(sizes[2] >= 129);  // The task from outside may not have run yet.
}

TEST_CASE("S21 a spawn wakes at most one worker, and none while somebody searches",
          "[conformance]") {
    const weft::test::held_slice_clock still;  // The watchdog takes nothing away.
    struct seen {
        bool parked = false;
        std::uint64_t with_searcher = 0, without = 0;
    };
    constexpr unsigned processors = 4;
    auto main = []() -> weft::task<seen> {
        auto& idle = this_core().idle;
        auto& wakes = this_worker().p.wakes;
        seen result;
        const auto all_parked = [&] {
            return idle.parked_hint() == processors - 1 && idle.searching_hint() == 0;
        };
        // This test stands in for a worker that searches, once nobody else does.
        result.parked =
            weft::test::spin_until([&] { return all_parked() && idle.begin_search(); });
        std::uint64_t before = wakes.read();
        auto handles = spawn_many(10);
        result.with_searcher = wakes.read() - before;
        if (idle.end_search()) this_core().wake_if_needed();
        co_await join_all(std::move(handles));
        for (int i = 0; i < 50; ++i) {
            result.parked &= weft::test::spin_until(all_parked);
            // This task may have moved to another worker.
            auto& wakes_here = this_worker().p.wakes;
            before = wakes_here.read();
            auto one = weft::co_spawn(nothing());
            result.without = std::max(result.without, wakes_here.read() - before);
            co_await std::move(one);
        }
        co_return result;
    };
    const seen result = weft::run(main(), {.processors = processors, .compensate = false});
    CHECK(result.parked);
    CHECK(result.with_searcher == 0);
    CHECK(result.without == 1);
}
