// SPDX-License-Identifier: MIT
#include <weft/yield.hpp>

#include "support/catch.hpp"
#include "support/scheduler.hpp"

#include <weft/as_result.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>

#include <chrono>
#include <functional>
#include <system_error>
#include <vector>

using namespace std::chrono_literals;
using weft::test::held_slice_clock;

namespace {

weft::task<> take_turns(std::vector<int>& order, int id, int rounds) {
    for (int round = 0; round < rounds; ++round) {
        order.push_back(id);
        co_await weft::yield();
    }
}

weft::task<> note(std::vector<int>& order, int id) {
    order.push_back(id);
    co_return;
}

/// Waits in the middle of a function that is called, not spawned: it yields as its caller does.
weft::task<int> yield_and_give(int value) {
    co_await weft::yield();
    co_return value;
}

template <class Await>
weft::task<> await_in_stopped_scope(Await await, bool& went_on) {
    co_await await();
    went_on = true;
}

}  // namespace

TEST_CASE("tasks that yield take turns", "[yield]") {
    const held_slice_clock clock;
    auto main = []() -> weft::task<std::vector<int>> {
        std::vector<int> order;
        auto first = weft::co_spawn(take_turns, std::ref(order), 1, 3);
        co_await weft::yield();  // So that the first does not share runnext with the second.
        auto second = weft::co_spawn(take_turns, std::ref(order), 2, 3);
        co_await std::move(first);
        co_await std::move(second);
        co_return order;
    };
    CHECK(weft::run(main(), {.processors = 1}) == std::vector<int>{1, 2, 1, 2, 1, 2});
}

TEST_CASE("a yield goes behind what is ready, and what became ready meanwhile behind it",
          "[yield]") {
    const held_slice_clock clock;
    auto main = []() -> weft::task<std::vector<int>> {
        std::vector<int> order;
        weft::co_spawn(note, std::ref(order), 1).detach();
        weft::co_spawn(note, std::ref(order), 2).detach();  // It displaces the first from runnext.
        co_await weft::yield();
        order.push_back(3);
        co_return order;
    };
    CHECK(weft::run(main(), {.processors = 1}) == std::vector<int>{2, 1, 3});
}

TEST_CASE("a yield in an awaited task suspends the whole chain", "[yield]") {
    const held_slice_clock clock;
    auto main = []() -> weft::task<std::vector<int>> {
        std::vector<int> order;
        weft::co_spawn(note, std::ref(order), 1).detach();
        order.push_back(co_await yield_and_give(2));
        co_return order;
    };
    CHECK(weft::run(main(), {.processors = 1}) == std::vector<int>{1, 2});
}

TEST_CASE("a checkpoint goes on at once where nobody waits, and counts as no run", "[yield]") {
    const held_slice_clock clock;
    auto main = []() -> weft::task<std::uint64_t> {
        const std::uint64_t before = weft::this_runtime::statistics().processors[0].tasks_run;
        for (int i = 0; i < 100; ++i) co_await weft::checkpoint();
        co_return weft::this_runtime::statistics().processors[0].tasks_run - before;
    };
    CHECK(weft::run(main(), {.processors = 1}) == 0);
}

TEST_CASE("checkpoints let a waiting task in after a bounded number of them", "[yield]") {
    const held_slice_clock clock;  // So it is the budget, not the slice.
    auto main = []() -> weft::task<int> {
        std::vector<int> order;
        weft::co_spawn(note, std::ref(order), 1).detach();
        int passed = 0;
        while (order.empty() && passed < 100'000) {
            co_await weft::checkpoint();
            ++passed;
        }
        co_return passed;
    };
    const int passed = weft::run(main(), {.processors = 1});
    CHECK(passed > 1);
    CHECK(passed <= 129);  // 128 go on at once, and the next one lets the task in.
}

TEST_CASE("yield and checkpoint throw in a scope that has been stopped", "[yield]") {
    auto main = []() -> weft::task<> {
        bool went_on = false;
        const auto yielded = co_await weft::as_result(weft::with_timeout(
            0ns, await_in_stopped_scope([] { return weft::yield(); }, went_on)));
        const auto checked = co_await weft::as_result(weft::with_timeout(
            0ns, await_in_stopped_scope([] { return weft::checkpoint(); }, went_on)));
        CHECK_FALSE(went_on);
        REQUIRE_FALSE(yielded.has_value());
        REQUIRE_FALSE(checked.has_value());
        CHECK(yielded.error() == std::errc::timed_out);
        CHECK(checked.error() == std::errc::timed_out);
    };
    weft::run(main(), {.processors = 1});
}
