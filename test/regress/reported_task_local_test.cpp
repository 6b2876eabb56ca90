// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/one_processor.hpp"
#include "support/scheduler.hpp"
#include "support/signal_cell.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <system_error>
#include <thread>
#include <utility>

// Faults that were reported of other libraries, after which weft is asked the same: values that
// belong to tasks. Each case names the thread of the report.

using namespace std::chrono_literals;
using weft::test::run_alone;
using weft::test::signal_cell;

namespace {

constinit weft::task_local<int> trace_id;

class looks_at_its_end {
public:
    explicit looks_at_its_end(int& into) : into_(into) {}
    looks_at_its_end(const looks_at_its_end&) = delete;
    looks_at_its_end& operator=(const looks_at_its_end&) = delete;
    ~looks_at_its_end() { into_ = trace_id.get(); }

private:
    int& into_;
};

}  // namespace

// tokio-rs/tokio#4604, #4795: in the destructors of a future that was dropped before its end the
// value was gone.
TEST_CASE("reported: the destructors of what is stopped where it waits find the value",
          "[regress]") {
    const auto main = []() -> weft::task<> {
        int seen = 0;
        const auto pends = [](int& into) -> weft::task<> {
            const looks_at_its_end guard(into);
            co_await weft::sleep_for(1h);
        };
        static_cast<void>(
            co_await weft::as_result(weft::with_timeout(1ms, trace_id.with(42, pends(seen)))));
        CHECK(seen == 42);
        seen = 0;
        co_await trace_id.with(43, weft::when_any(pends(seen), weft::yield()));
        CHECK(seen == 43);
        seen = 0;
        auto handle = weft::co_spawn(trace_id.with(44, pends(seen)));
        co_await weft::test::settle();
        handle.request_stop();
        static_cast<void>(co_await weft::as_result(handle));
        CHECK(seen == 44);
    };
    run_alone(main());
}

// tokio-rs/tokio#2396: what spawns in between had to hand the value on by itself, and did not.
TEST_CASE("reported: a tree of spawned tasks has the value without anybody's help", "[regress]") {
    struct tree {
        static weft::task<int> grow(int depth) {
            if (depth == 0) {
                co_await weft::yield();
                co_return trace_id.get();
            }
            auto left = weft::co_spawn(grow(depth - 1));
            auto right = weft::co_spawn(grow, depth - 1);
            co_return co_await left + co_await right;
        }
    };
    for (const unsigned processors : {1U, 4U}) {
        CHECK(weft::run(trace_id.with(3, tree::grow(8)), {.processors = processors}) == 3 * 256);
    }
}

// micrometer-metrics/tracing#243: the id was lost when the coroutine went on on another thread.
TEST_CASE("reported: a task that goes on on another thread has its value", "[regress]") {
    bool moved = false;
    int wrong = 0;
    const auto waits = [&](signal_cell& cell, std::atomic<bool>& begun) -> weft::task<> {
        const auto before = std::this_thread::get_id();
        wrong += trace_id.get() == 5 ? 0 : 1;
        begun = true;
        co_await cell.wait();
        wrong += trace_id.get() == 5 ? 0 : 1;
        moved = moved || std::this_thread::get_id() != before;
    };
    const auto main = [&]() -> weft::task<> {
        const weft::test::patience patience;
        while (!moved && !patience.over()) {
            signal_cell cell;
            std::atomic<bool> begun{false};
            auto waiter = weft::co_spawn(trace_id.with(5, waits(cell, begun)));
            // The other worker runs it, as this one is kept; then it goes on here.
            weft::test::spin_until([&] { return begun.load(); });
            cell.signal();
            co_await std::move(waiter);
        }
    };
    weft::run(main(), {.processors = 2});
    CHECK(moved);
    CHECK(wrong == 0);
}

// DataDog/dd-trace-py#8671: a task had the value that was there when it ran first, not the one that
// was there when it was made.
TEST_CASE("reported: a spawned task has what was bound when it was spawned", "[regress]") {
    const auto main = []() -> weft::task<> {
        weft::join_handle<int> spawned;
        {
            const auto bound = trace_id.bind(1);
            spawned = weft::co_spawn([]() -> weft::task<int> { co_return trace_id.get(); });
        }
        const auto bound = trace_id.bind(2);
        const int seen = co_await std::move(spawned);
        CHECK(seen == 1);
    };
    run_alone(main());
}
