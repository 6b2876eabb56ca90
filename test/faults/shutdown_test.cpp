// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/signal_cell.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

// The end of a runtime whose tasks are still waiting.

using namespace std::chrono_literals;

namespace {

/// Counts how many of them are alive.
class counted {
public:
    explicit counted(std::atomic<int>& alive) : alive_(&alive) { ++*alive_; }
    counted(counted&& other) noexcept : alive_(other.alive_) { ++*alive_; }
    counted(const counted&) = delete;
    counted& operator=(const counted&) = delete;
    ~counted() { --*alive_; }

private:
    std::atomic<int>* alive_;
};

/// Waits for something that comes only when the runtime destroys the frame: it ignores a stop.
weft::task<> wait_stubbornly(weft::test::signal_cell& cell) {
    for (;;) {
        if (co_await weft::as_result(cell.wait())) co_return;
        // Stopped: what is awaited from now on throws at once, so waiting goes on by yielding.
        co_await weft::as_result(weft::yield());
    }
}

weft::task<> hold(counted, std::function<weft::task<>()> wait) {
    co_await wait();
}

/// Ends the runtime without a grace period.
weft::runtime_options without_grace(unsigned processors) {
    return {.processors = processors, .shutdown_grace = 0s};
}

}  // namespace

TEST_CASE("fault 9: a runtime that ends destroys the frame of each parked task once", "[faults]") {
    for (const unsigned processors : {1U, 4U}) {
        std::atomic<int> alive{0};
        {
            weft::runtime runtime(without_grace(processors));
            for (int i = 0; i < 200; ++i) {
                auto sleep = []() -> weft::task<> { co_await weft::sleep_for(1h); };
                auto late = []() -> weft::task<> {
                    co_await weft::with_timeout(1h, weft::sleep_for(1h));
                };
                auto join = []() -> weft::task<> {
                    co_await weft::co_spawn([]() -> weft::task<> { co_await weft::sleep_for(1h); });
                };
                std::function<weft::task<>()> waits[] = {sleep, late, join};
                runtime.co_spawn(hold, counted(alive), waits[i % 3]).detach();
            }
            runtime.shutdown();
            CHECK(alive == 0);
        }
        CHECK(alive == 0);
    }
}

TEST_CASE("fault 9: a task that ignores the stop is destroyed after the grace period", "[faults]") {
    std::atomic<int> alive{0};
    weft::test::signal_cell never;
    const auto begin = std::chrono::steady_clock::now();
    auto main = [&]() -> weft::task<int> {
        weft::co_spawn(hold, counted(alive), [&] { return wait_stubbornly(never); }).detach();
        co_await weft::sleep_for(1ms);
        co_return alive.load();
    };
    CHECK(weft::run(main(), {.processors = 2, .shutdown_grace = 50ms}) >= 1);
    CHECK(alive == 0);
    CHECK(std::chrono::steady_clock::now() - begin >= 50ms);
    CHECK(std::chrono::steady_clock::now() - begin < 10s);
}

TEST_CASE("fault 9: the grace period ends as soon as no task is left", "[faults]") {
    const auto begin = std::chrono::steady_clock::now();
    auto main = []() -> weft::task<> {
        for (int i = 0; i < 100; ++i) {
            weft::co_spawn([]() -> weft::task<> { co_await weft::sleep_for(1h); }).detach();
        }
        co_await weft::yield();
    };
    weft::run(main(), {.processors = 2, .shutdown_grace = 1h});
    CHECK(std::chrono::steady_clock::now() - begin < 30s);
}

namespace {

/// What two frames that know each other are made of: the first one owns the handle of a task that
/// both of them await, or stops it in its destructor.
struct stopper {
    weft::join_handle<void>& stopped;
    ~stopper() { stopped.request_stop(); }
};

weft::task<> await_by_reference(weft::join_handle<void>& handle) {
    co_await handle;
}

weft::task<> stubborn_owner(std::optional<weft::join_handle<void>>& own,
                            weft::test::signal_cell& cell, weft::test::signal_cell& other) {
    own.emplace(weft::co_spawn(wait_stubbornly, std::ref(other)));
    weft::join_handle<void> here = std::move(*own);
    weft::join_handle<void> waiter = weft::co_spawn(await_by_reference, std::ref(here));
    const stopper at_end{here};
    co_await wait_stubbornly(cell);
}

}  // namespace

// The slots of tasks are destroyed in the order of the slabs. Spawning the two tasks in one order
// and in the other gives both orders of destruction.
TEST_CASE("fault 9: frames that wait for each other are destroyed in both orders", "[faults]") {
    for (const bool owner_first : {true, false}) {
        weft::test::signal_cell cells[8];
        std::vector<weft::join_handle<void>> kept;
        {
            weft::runtime runtime(without_grace(1));
            struct shared_state {
                std::optional<weft::join_handle<void>> handle;
                bool ready = false;
            };
            auto state = std::make_shared<shared_state>();
            auto owner = [](std::shared_ptr<shared_state> shared,
                            weft::test::signal_cell& cell) -> weft::task<> {
                weft::join_handle<void> own =
                    weft::co_spawn([]() -> weft::task<> { co_await weft::sleep_for(1h); });
                shared->handle.emplace(std::move(own));
                const stopper at_end{*shared->handle};
                shared->ready = true;
                // Ends after the awaiter in one order, before it in the other.
                co_await wait_stubbornly(cell);
                shared->handle.reset();
            };
            auto awaiter = [](std::shared_ptr<shared_state> shared) -> weft::task<> {
                while (!shared->ready) co_await weft::as_result(weft::yield());
                struct dropper {
                    shared_state& state;
                    ~dropper() { state.handle.reset(); }
                } at_end{*shared};
                co_await *shared->handle;
            };
            auto start = [&]() -> weft::task<> {
                if (owner_first) {
                    kept.push_back(weft::co_spawn(owner, state, std::ref(cells[0])));
                    kept.push_back(weft::co_spawn(awaiter, state));
                } else {
                    kept.push_back(weft::co_spawn(awaiter, state));
                    kept.push_back(weft::co_spawn(owner, state, std::ref(cells[0])));
                }
                co_return;
            };
            runtime.co_spawn(start()).get();
            runtime
                .co_spawn(
                    [](std::shared_ptr<shared_state> shared) -> weft::task<> {
                        while (!shared->ready) co_await weft::yield();
                        for (int i = 0; i < 10; ++i) co_await weft::yield();
                    },
                    state)
                .get();
            runtime.shutdown();
        }
        for (auto& each : kept) CHECK(each.done());
    }
}

TEST_CASE("fault 9: frames that wait for each other across tasks of one chain", "[faults]") {
    weft::test::signal_cell cells[2];
    std::optional<weft::join_handle<void>> slot;
    auto main = [&]() -> weft::task<> {
        weft::co_spawn(stubborn_owner, std::ref(slot), std::ref(cells[0]), std::ref(cells[1]))
            .detach();
        for (int i = 0; i < 20; ++i) co_await weft::yield();
    };
    weft::run(main(), without_grace(1));
    weft::run(main(), without_grace(3));
}

TEST_CASE("fault 9: a handle that outlives its runtime says that the task was stopped",
          "[faults]") {
    weft::test::signal_cell never;
    weft::join_handle<void> unfinished;
    weft::join_handle<int> finished;
    {
        weft::runtime runtime(without_grace(2));
        unfinished = runtime.co_spawn(wait_stubbornly, std::ref(never));
        finished = runtime.co_spawn([]() -> weft::task<int> { co_return 7; });
        while (!finished.done()) std::this_thread::yield();
    }
    CHECK(unfinished.done());
    std::error_code code;
    try {
        unfinished.get();
    } catch (const std::system_error& error) { code = error.code(); }
    CHECK(code == weft::errc::stopped);
    CHECK(code == std::errc::operation_canceled);
    CHECK(finished.get() == 7);
}

TEST_CASE("fault 9: a thread that waits for a task learns that the runtime has ended", "[faults]") {
    weft::test::signal_cell never;
    std::optional<weft::runtime> runtime;
    runtime.emplace(without_grace(1));
    auto handle = runtime->co_spawn(wait_stubbornly, std::ref(never));
    std::error_code code;
    std::thread waiting([&] {
        try {
            handle.get();
        } catch (const std::system_error& error) { code = error.code(); }
    });
    std::this_thread::sleep_for(2ms);
    runtime.reset();
    waiting.join();
    CHECK(code == weft::errc::stopped);
}

TEST_CASE("fault 9: tasks spawned by destructors at the end are refused", "[faults]") {
    std::atomic<int> refused{0};
    struct spawner {
        std::atomic<int>& refused;
        ~spawner() {
            auto handle = weft::co_spawn([]() -> weft::task<> { co_return; });
            if (handle.done()) ++refused;
            handle.detach();
        }
    };
    auto main = [&]() -> weft::task<> {
        for (int i = 0; i < 10; ++i) {
            weft::co_spawn(
                [](std::atomic<int>& count) -> weft::task<> {
                    const spawner at_end{count};
                    co_await weft::sleep_for(1h);
                },
                std::ref(refused))
                .detach();
        }
        co_await weft::sleep_for(1ms);
    };
    weft::run(main(), without_grace(2));
    CHECK(refused == 10);
}

TEST_CASE("fault 9: threads outside may spawn, stop and wait while the runtime ends", "[faults]") {
    for (int round = 0; round < 200; ++round) {
        std::optional<weft::runtime> runtime;
        runtime.emplace(without_grace(2));
        std::atomic<bool> go{false};
        std::atomic<int> left{3};
        std::vector<std::thread> threads;
        for (int t = 0; t < 3; ++t) {
            threads.emplace_back([&] {
                while (!go.load()) {}
                for (int i = 0; i < 50; ++i) {
                    auto handle =
                        runtime->co_spawn([]() -> weft::task<> { co_await weft::sleep_for(1us); });
                    if (i % 2 == 0) handle.request_stop();
                    try {
                        handle.get();
                    } catch (const std::system_error&) {}
                }
                --left;
            });
        }
        go = true;
        for (int spin = 0; spin < round * 20; ++spin)
            std::atomic_signal_fence(std::memory_order_seq_cst);
        runtime->shutdown();
        for (auto& each : threads) each.join();
        CHECK(left == 0);
    }
}

TEST_CASE("fault 9: two threads may ask a runtime to end", "[faults]") {
    for (int round = 0; round < 50; ++round) {
        weft::runtime runtime(without_grace(2));
        runtime.co_spawn([]() -> weft::task<> { co_await weft::sleep_for(1h); }).detach();
        std::thread other([&] { runtime.shutdown(); });
        runtime.shutdown();
        CHECK(runtime.statistics().tasks_alive() == 0);
        other.join();
    }
}

TEST_CASE("fault 9: a task that does not come back ends the process after the timeout",
          "[faults]") {
    // Whichever worker it holds: the task that hogs, or the one that ends, is on worker 0.
    for (const bool hog_on_zero : {false, true}) {
        const auto result = weft::test::run_in_child([=] {
            std::atomic<bool> hogging{false};
            auto hog = [&]() -> weft::task<> {
                hogging = true;
                for (;;) std::this_thread::sleep_for(1ms);
                co_return;
            };
            auto on_worker_zero = [] { return weft::detail::current_worker()->index() == 0; };
            auto main = [&]() -> weft::task<> {
                auto mover = [&](bool to_zero) -> weft::task<> {
                    while (on_worker_zero() != to_zero) co_await weft::sleep_for(100us);
                    co_await hog();
                };
                weft::co_spawn(mover, hog_on_zero).detach();
                while (!hogging || on_worker_zero() == hog_on_zero) {
                    co_await weft::sleep_for(100us);
                }
            };
            weft::run(main(), {.processors = 2, .shutdown_grace = 0s, .shutdown_timeout = 50ms});
        });
        INFO(result.describe());
        CHECK(result.aborted_with("still run a task"));
    }
}

TEST_CASE("fault 9: the same where a thread outside ends the runtime", "[faults]") {
    // With two workers it may be the first one that the task holds, or the other one.
    for (const unsigned processors : {1U, 2U, 2U, 2U}) {
        const auto result = weft::test::run_in_child([=] {
            weft::runtime runtime({.processors = processors,
                                   .shutdown_grace = 1ms,
                                   .shutdown_timeout = 50ms});
            std::atomic<bool> hogs{false};
            runtime
                .co_spawn([&]() -> weft::task<> {
                    hogs = true;
                    for (;;) std::this_thread::sleep_for(1ms);
                    co_return;
                })
                .detach();
            while (!hogs) std::this_thread::sleep_for(1ms);
            runtime.shutdown();
        });
        INFO(result.describe());
        CHECK(result.aborted_with("still run a task"));
    }
}

TEST_CASE("fault 10: a runtime destroyed by one of its own tasks ends with a message", "[faults]") {
    const auto destroyed = weft::test::run_in_child([] {
        auto runtime = std::make_unique<weft::runtime>(weft::runtime_options{.processors = 2});
        runtime
            ->co_spawn([&]() -> weft::task<> {
                runtime.reset();
                co_return;
            })
            .get();
    });
    INFO(destroyed.describe());
    CHECK(destroyed.aborted_with("destroyed by one of its own tasks"));
    const auto shut_down = weft::test::run_in_child([] {
        weft::runtime runtime({.processors = 2});
        runtime
            .co_spawn([&]() -> weft::task<> {
                runtime.shutdown();
                co_return;
            })
            .get();
    });
    INFO(shut_down.describe());
    CHECK(shut_down.aborted_with("destroyed by one of its own tasks"));
}
