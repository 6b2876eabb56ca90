// SPDX-License-Identifier: MIT
#include <weft/task_group.hpp>

#include "support/catch.hpp"
#include "support/kept_log.hpp"
#include "support/one_processor.hpp"
#include "support/scale.hpp"
#include "support/signal_cell.hpp"
#include "support/watchdog.hpp"

#include <weft/as_result.hpp>
#include <weft/channel.hpp>
#include <weft/event.hpp>
#include <weft/runtime.hpp>
#include <weft/shield.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/this_task.hpp>
#include <weft/timeout.hpp>
#include <weft/when_all.hpp>
#include <weft/yield.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using weft::test::signal_cell;

namespace {

weft::task<> adds(std::atomic<int>& sum, int value, int yields = 0) {
    for (int i = 0; i < yields; ++i) co_await weft::yield();
    sum += value;
}

weft::task<> fails(std::string what, int yields = 0) {
    for (int i = 0; i < yields; ++i) co_await weft::yield();
    throw std::runtime_error(what);
}

weft::task<> waits(std::atomic<int>& stopped) {
    weft::channel<int> nobody;
    try {
        static_cast<void>(co_await nobody.recv());
    } catch (const std::system_error&) {
        ++stopped;
        throw;
    }
}

struct failures {
    std::vector<std::string> suppressed;

    auto handler() {
        return [this](const weft::task_failure& failure) {
            if (!failure.suppressed) suppressed.emplace_back("not suppressed");
            try {
                std::rethrow_exception(failure.exception);
            } catch (const std::exception& error) { suppressed.emplace_back(error.what()); }
        };
    }
};

/// What comes out of a task: the text of an exception, or "nothing".
weft::task<std::string> outcome_of(weft::task<> inner) {
    try {
        co_await std::move(inner);
    } catch (const std::system_error& error) {
        co_return error.code() == std::errc::operation_canceled ? "cancelled"
        : error.code() == std::errc::timed_out                  ? "late"
                                                                : "another error";
    } catch (const std::exception& error) { co_return error.what(); }
    co_return "nothing";
}

}  // namespace

TEST_CASE("a group is left when all its children have ended", "[task_group]") {
    const auto main = []() -> weft::task<int> {
        std::atomic<int> sum{0};
        co_await weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
            for (int i = 1; i <= 4; ++i) group.spawn(adds(sum, i, 5 * i));
            co_return;
        });
        co_return sum.load();
    };
    for (const unsigned processors : {1U, 2U, 8U}) {
        CHECK(weft::run(main(), {.processors = processors}) == 10);
    }
}

TEST_CASE("a group gives what its body gives: values, references, what can only be moved",
          "[task_group]") {
    int there = 1;
    const auto main = [](int& place) -> weft::task<int> {
        std::atomic<int> sum{0};
        const auto made = co_await weft::with_task_group(
            [&](weft::task_group& group) -> weft::task<std::unique_ptr<int>> {
                group.spawn(adds(sum, 1, 3));
                co_return std::make_unique<int>(7);
            });
        int& reference = co_await weft::with_task_group(
            [&](weft::task_group&) -> weft::task<int&> { co_return place; });
        reference = 5;
        co_return *made + sum;
    };
    CHECK(weft::run(main(there), {.processors = 1}) == 8);
    CHECK(there == 5);
}

TEST_CASE("a group without children ends at once", "[task_group]") {
    const auto main = []() -> weft::task<> {
        for (int i = 0; i < 1000; ++i) {
            co_await weft::with_task_group([](weft::task_group&) -> weft::task<> { co_return; });
        }
    };
    weft::run(main(), {.processors = 1});
    SUCCEED();
}

TEST_CASE("the first failure stops the siblings and comes out when all have ended",
          "[task_group]") {
    std::atomic<int> stopped{0};
    failures seen;
    const auto main = [](std::atomic<int>& counter) -> weft::task<std::string> {
        co_return co_await outcome_of(
            weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
                group.spawn(waits(counter));
                group.spawn(waits(counter));
                group.spawn(fails("first", 3));
                co_await waits(counter);  // The body is stopped as well.
            }));
    };
    CHECK(weft::run(main(stopped), {.processors = 1, .on_failure = seen.handler()}) == "first");
    CHECK(stopped == 3);
    CHECK(seen.suppressed.empty());
}

TEST_CASE("a body that fails stops the children", "[task_group]") {
    std::atomic<int> stopped{0};
    const auto main = [](std::atomic<int>& counter) -> weft::task<std::string> {
        co_return co_await outcome_of(
            weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
                group.spawn(waits(counter));
                co_await weft::yield();
                throw std::runtime_error("body");
            }));
    };
    CHECK(weft::run(main(stopped), {.processors = 1}) == "body");
    CHECK(stopped == 1);
}

TEST_CASE("later failures are reported as suppressed, also one of the body", "[task_group]") {
    failures seen;
    const auto stubborn = [](std::string what) -> weft::task<> {
        weft::channel<int> nobody;
        static_cast<void>(co_await weft::as_result(nobody.recv()));
        throw std::runtime_error(what);
    };
    const auto main = [](auto& make) -> weft::task<std::string> {
        co_return co_await outcome_of(
            weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
                group.spawn(make("second"));
                group.spawn(fails("first", 2));
                co_await make("third");
            }));
    };
    CHECK(weft::run(main(stubborn), {.processors = 1, .on_failure = seen.handler()}) == "first");
    std::sort(seen.suppressed.begin(), seen.suppressed.end());
    CHECK(seen.suppressed == std::vector<std::string>{"second", "third"});
}

TEST_CASE("a child that has not started when its group is stopped never does", "[task_group]") {
    std::atomic<int> sum{0};
    const auto main = [](std::atomic<int>& counter) -> weft::task<std::string> {
        co_return co_await outcome_of(
            weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
                for (int i = 0; i < 10; ++i) group.spawn(adds(counter, 1));
                throw std::runtime_error("before they start");
                co_return;
            }));
    };
    CHECK(weft::run(main(sum), {.processors = 1}) == "before they start");
    CHECK(sum == 0);
}

TEST_CASE("a stop or a deadline around a group stops all of it", "[task_group]") {
    std::atomic<int> stopped{0};
    const auto group = [](std::atomic<int>& counter) -> weft::task<> {
        return weft::with_task_group([&counter](weft::task_group& inner) -> weft::task<> {
            inner.spawn(waits(counter));
            inner.spawn(weft::with_timeout(1h, waits(counter)));
            co_return;
        });
    };
    const auto late = [](auto& make, std::atomic<int>& counter) -> weft::task<std::string> {
        co_return co_await outcome_of(weft::with_timeout(1ms, make(counter)));
    };
    CHECK(weft::run(late(group, stopped), {.processors = 2}) == "late");
    CHECK(stopped <= 2);  // On a busy machine the deadline may come before they start.
    stopped = 0;
    const auto stops = [](auto& make, std::atomic<int>& counter) -> weft::task<std::string> {
        auto handle = weft::co_spawn(outcome_of(make(counter)));
        co_await weft::test::settle();
        handle.request_stop();
        co_return co_await std::move(handle);
    };
    CHECK(weft::run(stops(group, stopped), {.processors = 1, .compensate = false}) == "cancelled");
    CHECK(stopped == 2);
}

TEST_CASE("request_stop ends children in peace", "[task_group]") {
    std::atomic<int> stopped{0};
    failures seen;
    const auto main = [](std::atomic<int>& counter) -> weft::task<std::string> {
        co_return co_await outcome_of(
            weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
                for (int i = 0; i < 3; ++i) group.spawn(waits(counter));
                co_await weft::test::settle();
                group.request_stop();
                if (!group.stop_requested()) throw std::runtime_error("not stopped");
            }));
    };
    CHECK(weft::run(main(stopped),
                    {.processors = 1, .compensate = false, .on_failure = seen.handler()}) ==
          "nothing");
    CHECK(stopped == 3);
    CHECK(seen.suppressed.empty());
}

TEST_CASE("a group runs no more children at once than its limit, in order", "[task_group]") {
    struct gauge {
        const int limit;
        // As many run as may.
        weft::event full{};
        std::atomic<int> running{0}, most{0}, ended{0};
        std::vector<int> order{};
    };
    const auto child = [](gauge& seen, int which) -> weft::task<> {
        const int now = ++seen.running;
        int most = seen.most;
        while (now > most && !seen.most.compare_exchange_weak(most, now)) {}
        // If fewer ran than may, all would wait here.
        if (now == seen.limit) seen.full.set();
        co_await seen.full.wait();
        co_await weft::sleep_for(std::chrono::microseconds(which % 7 * 20));
        --seen.running;
        ++seen.ended;
    };
    const auto main = [](auto& make, gauge& seen, std::size_t limit) -> weft::task<> {
        co_await weft::with_task_group({.limit = limit},
                                       [&](weft::task_group& group) -> weft::task<> {
                                           for (int i = 0; i < 200; ++i) group.spawn(make(seen, i));
                                           co_return;
                                       });
    };
    for (const unsigned processors : {1U, 4U}) {
        for (const int limit : {1, 3, 16}) {
            gauge seen{.limit = limit};
            weft::run(
                main(child, seen, static_cast<std::size_t>(limit)),
                {.processors = processors, .deadlock = weft::deadlock_action::throw_exception});
            CHECK(seen.ended == 200);
            CHECK(seen.most == limit);
        }
    }
    const auto ordered = [](gauge& seen, int which) -> weft::task<> {
        seen.order.push_back(which);
        co_await weft::yield();
    };
    gauge seen{.limit = 1};
    weft::run(main(ordered, seen, 1), {.processors = 1});
    CHECK(seen.order.size() == 200);
    CHECK(std::is_sorted(seen.order.begin(), seen.order.end()));
}

TEST_CASE("children that wait for their turn never start after a failure", "[task_group]") {
    std::atomic<int> sum{0};
    const auto main = [](std::atomic<int>& counter) -> weft::task<std::string> {
        co_return co_await outcome_of(
            weft::with_task_group({.limit = 2}, [&](weft::task_group& group) -> weft::task<> {
                group.spawn(fails("first", 2));
                group.spawn(adds(counter, 1, 5));
                for (int i = 0; i < 1000; ++i) group.spawn(adds(counter, 100));
                co_return;
            }));
    };
    CHECK(weft::run(main(sum), {.processors = 1}) == "first");
    CHECK(sum < 100);
}

TEST_CASE("children spawn siblings, also when the body has ended", "[task_group]") {
    struct family {
        static weft::task<> child(weft::task_group& group, std::atomic<int>& counter, int depth) {
            ++counter;
            if (depth == 0) co_return;
            co_await weft::yield();
            group.spawn(child(group, counter, depth - 1));
            group.spawn(child, std::ref(group), std::ref(counter), depth - 1);
        }
    };
    const auto main = [](std::atomic<int>& counter) -> weft::task<> {
        co_await weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
            group.spawn(family::child(group, counter, 9));
            co_return;
        });
    };
    for (const unsigned processors : {1U, 2U, 8U}) {
        std::atomic<int> counter{0};
        weft::run(main(counter), {.processors = processors});
        CHECK(counter == 1023);
    }
}

TEST_CASE("groups nest, and a failure inside is the business of the inner one", "[task_group]") {
    std::atomic<int> sum{0};
    const auto inner = [](std::atomic<int>& counter) -> weft::task<> {
        const std::string outcome =
            co_await outcome_of(weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
                group.spawn(fails("inner"));
                group.spawn(waits(counter));
                co_return;
            }));
        if (outcome == "inner") counter += 10;
    };
    const auto main = [](auto& make, std::atomic<int>& counter) -> weft::task<std::string> {
        co_return co_await outcome_of(
            weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
                group.spawn(make(counter));
                group.spawn(make(counter));
                co_await weft::when_all(make(counter), make(counter));
            }));
    };
    CHECK(weft::run(main(inner, sum), {.processors = 2}) == "nothing");
    CHECK(sum >= 40);
}

TEST_CASE("the closure of a child, and of the body, lives as long as it runs", "[task_group]") {
    const auto token = std::make_shared<int>(3);
    std::atomic<int> sum{0};
    const auto main = [](std::shared_ptr<int> held, std::atomic<int>& counter) -> weft::task<> {
        co_await weft::with_task_group([held, &counter](weft::task_group& group) -> weft::task<> {
            group.spawn([held, &counter]() -> weft::task<> {
                co_await weft::yield();
                counter += *held;
            });
            group.spawn(
                [&counter](std::unique_ptr<int> value) -> weft::task<> {
                    co_await weft::yield();
                    counter += *value;
                },
                std::make_unique<int>(4));
            co_await weft::yield();
            counter += *held;
        });
    };
    weft::run(main(token, sum), {.processors = 1});
    CHECK(sum == 10);
    CHECK(token.use_count() == 1);
}

TEST_CASE("children are branches of the task that has opened the group", "[task_group]") {
    const auto main = []() -> weft::task<bool> {
        std::uint64_t seen = 0;
        co_await weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
            group.spawn([&]() -> weft::task<> {
                seen = weft::this_task::id();
                co_return;
            });
            co_return;
        });
        co_return seen == weft::this_task::id();
    };
    CHECK(weft::run(main(), {.processors = 1}));
}

TEST_CASE("a child that another task has spawned is one of the group, and not of that task",
          "[task_group]") {
    struct shared {
        std::uint64_t spawner = 0;
        std::uint64_t child = 0;
        bool stopped = false;
    };
    const auto child = [](shared& all) -> weft::task<> {
        all.child = weft::this_task::id();
        co_await weft::yield();
        all.stopped = weft::this_task::stop_requested();
    };
    const auto spawn_into = [](auto body, weft::task_group& group, shared& all) -> weft::task<> {
        all.spawner = weft::this_task::id();
        group.spawn(body, std::ref(all));
        co_await weft::yield();
    };
    const auto main = [](auto spawner, auto body, shared& all) -> weft::task<std::string> {
        const std::uint64_t own = weft::this_task::id();
        co_await weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
            auto other = weft::co_spawn(spawner, body, std::ref(group), std::ref(all));
            while (all.spawner == 0) co_await weft::yield();
            other.request_stop();
            static_cast<void>(co_await weft::as_result(std::move(other)));
        });
        if (all.child != own || all.spawner == own) co_return "a child of the wrong task";
        co_return all.stopped ? "stopped with its spawner" : "";
    };
    shared all;
    CHECK(weft::run(main(spawn_into, child, all), {.processors = 1}) == "");
}

TEST_CASE("an empty task is refused by a group", "[task_group]") {
    const auto main = []() -> weft::task<bool> {
        bool refused = false;
        co_await weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
            try {
                group.spawn(weft::task<>());
            } catch (const std::logic_error&) { refused = true; }
            co_return;
        });
        co_return refused;
    };
    CHECK(weft::run(main(), {.processors = 1}));
}

TEST_CASE("a group whose children wait for ever is reported with all of its branches",
          "[task_group]") {
    std::atomic<int> stopped{0};
    weft::test::kept_log log;
    const auto main = [](std::atomic<int>& counter) -> weft::task<> {
        co_await weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
            group.spawn(waits(counter));
            group.spawn(weft::with_timeout(24h, weft::yield()));
            co_await weft::when_all(waits(counter), waits(counter));
        });
    };
    CHECK_THROWS_AS(weft::run(main(stopped), {.processors = 2,
                                              .deadlock = weft::deadlock_action::throw_exception,
                                              .log = log.sink()}),
                    weft::deadlock_error);
    CHECK(log.count("all tasks are asleep") == 1);
    CHECK(log.count("waits for its children") == 1);
    CHECK(log.count("a child in task") == 3);
    CHECK(log.count("receives from a channel") == 3);
    CHECK(stopped == 3);
}

TEST_CASE("a child that waits for its turn hides no deadlock", "[task_group]") {
    std::atomic<int> stopped{0};
    weft::test::kept_log log;
    const auto main = [](std::atomic<int>& counter) -> weft::task<> {
        co_await weft::with_task_group({.limit = 1}, [&](weft::task_group& group) -> weft::task<> {
            for (int i = 0; i < 3; ++i) group.spawn(waits(counter));
            co_return;
        });
    };
    CHECK_THROWS_AS(weft::run(main(stopped), {.processors = 2,
                                              .deadlock = weft::deadlock_action::throw_exception,
                                              .log = log.sink()}),
                    weft::deadlock_error);
    CHECK(log.count("waits for its turn in its group") == 2);
    CHECK(log.count("receives from a channel") == 1);
    CHECK(stopped == 1);
}

TEST_CASE("a failure of a child's own counts also after request_stop", "[task_group]") {
    const auto main = []() -> weft::task<std::string> {
        co_return co_await outcome_of(
            weft::with_task_group([](weft::task_group& group) -> weft::task<> {
                bool begun = false;
                group.spawn(
                    [](bool& begins) -> weft::task<> {
                        begins = true;
                        weft::channel<int> nobody;
                        co_await weft::shield(weft::with_timeout(1ms, nobody.recv()));
                    },
                    std::ref(begun));
                while (!begun) co_await weft::yield();
                group.request_stop();
            }));
    };
    CHECK(weft::run(main(), {.processors = 1}) == "late");
}

TEST_CASE("children of a group that wait when the runtime ends are destroyed", "[task_group]") {
    const auto stubborn = [](std::atomic<int>& waiting, std::shared_ptr<int>) -> weft::task<> {
        weft::channel<int> nobody;
        ++waiting;
        for (;;) static_cast<void>(co_await weft::as_result(nobody.recv()));
    };
    const auto group = [](auto& make, std::atomic<int>& waiting,
                          std::shared_ptr<int> held) -> weft::task<> {
        co_await weft::with_task_group({.limit = 2}, [&](weft::task_group& inner) -> weft::task<> {
            for (int i = 0; i < 4; ++i) inner.spawn(make(waiting, held));
            // The body goes deeper than its children.
            co_await weft::with_timeout(
                1h, weft::with_task_group([&](weft::task_group& deep) -> weft::task<> {
                    deep.spawn(make(waiting, held));
                    co_await make(waiting, held);
                }));
        });
    };
    const auto main = [](auto& make, auto& stays, std::atomic<int>& waiting,
                         const std::shared_ptr<int>& held) -> weft::task<> {
        weft::co_spawn(make(stays, waiting, held)).detach();
        while (waiting != 4) co_await weft::yield();
    };
    for (const unsigned processors : {1U, 2U}) {
        std::atomic<int> waiting{0};
        const auto token = std::make_shared<int>(1);
        weft::run(main(group, stubborn, waiting, token),
                  {.processors = processors, .shutdown_grace = 0ms});
        CHECK(token.use_count() == 1);
    }
}

TEST_CASE("a group takes a million children one after the other", "[task_group]") {
    const int count = weft::test::sanitized ? 100'000 : 1'000'000;
    const auto main = [](int children, std::size_t limit) -> weft::task<int> {
        std::atomic<int> sum{0};
        co_await weft::with_task_group({.limit = limit},
                                       [&](weft::task_group& group) -> weft::task<> {
                                           for (int i = 0; i < children; ++i)
                                               group.spawn(adds(sum, 1));
                                           co_return;
                                       });
        co_return sum.load();
    };
    for (const unsigned processors : {1U, 2U}) {
        CHECK(weft::run(main(count, 0), {.processors = processors}) == count);
        CHECK(weft::run(main(count, 10), {.processors = processors}) == count);
    }
}
