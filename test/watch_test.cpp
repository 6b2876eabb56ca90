// SPDX-License-Identifier: MIT
#include <weft/watch.hpp>

#include "support/catch.hpp"
#include "support/one_processor.hpp"
#include "support/watchdog.hpp"

#include <weft/as_result.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using weft::watch;
using weft::test::run_alone;

namespace {

/// On one thread, whatever the machine does meanwhile.
weft::task<std::vector<int>> see_changes(watch<int>::receiver from) {
    std::vector<int> seen;
    while (const auto value = co_await from.changed()) seen.push_back(*value);
    co_return seen;
}

}  // namespace

TEST_CASE("a watch has a latest value, and its receivers wait for the next change") {
    const auto main = []() -> weft::task<> {
        watch<std::string> state("starting");
        CHECK(*state.get() == "starting");
        auto receiver = state.subscribe();
        const auto none = co_await weft::as_result(weft::with_timeout(1ms, receiver.changed()));
        REQUIRE_FALSE(none);
        CHECK(none.error() == std::errc::timed_out);
        const auto old = state.get();
        CHECK(state.set("running"));
        CHECK(*old == "starting");
        auto changed = co_await receiver.changed();
        REQUIRE(changed != nullptr);
        CHECK(*changed == "running");
        // Only the latest one counts.
        state.set("stopping");
        state.set("stopped");
        changed = co_await receiver.changed();
        REQUIRE(changed != nullptr);
        CHECK(*changed == "stopped");
        state.set("gone");
        CHECK(*receiver.latest() == "gone");
        const auto seen = co_await weft::as_result(weft::with_timeout(1ms, receiver.changed()));
        CHECK_FALSE(seen);
    };
    run_alone(main());
}

TEST_CASE("all receivers of a watch see a change, and the last one before the end") {
    const auto main = []() -> weft::task<> {
        watch<int> value(0);
        std::vector<weft::join_handle<std::vector<int>>> tasks;
        for (int i = 0; i < 3; ++i) {
            tasks.push_back(weft::co_spawn(see_changes, value.subscribe()));
        }
        co_await weft::test::settle();
        value.set(1);
        co_await weft::test::settle();
        value.set(2);
        value.set(3);
        CHECK(value.close());
        CHECK_FALSE(value.close());
        CHECK(value.closed());
        CHECK_FALSE(value.set(4));
        CHECK(*value.get() == 3);
        for (auto& each : tasks) {
            const auto seen = co_await std::move(each);
            CHECK(seen == std::vector<int>{1, 3});
        }
    };
    run_alone(main());
}

TEST_CASE("a wait for a change that is stopped has seen nothing") {
    const auto main = []() -> weft::task<> {
        watch<int> value(0);
        auto receiver = value.subscribe();
        auto waiting = weft::co_spawn(
            [](watch<int>::receiver& from) -> weft::task<> { co_await from.changed(); },
            std::ref(receiver));
        co_await weft::test::settle();
        waiting.request_stop();
        value.set(1);
        const auto stopped = co_await weft::as_result(std::move(waiting));
        REQUIRE_FALSE(stopped);
        CHECK(stopped.error() == std::errc::operation_canceled);
        const auto changed = co_await receiver.changed();
        REQUIRE(changed != nullptr);
        CHECK(*changed == 1);
    };
    run_alone(main());
}

TEST_CASE("receivers of a watch that is gone see its last change, also one woken before") {
    const auto main = []() -> weft::task<> {
        auto value = std::make_unique<watch<int>>(0);
        auto waiting = weft::co_spawn(see_changes, value->subscribe());
        auto woken = weft::co_spawn(see_changes, value->subscribe());
        co_await weft::test::settle();
        auto late = value->subscribe();
        value->set(1);
        value->set(2);
        value.reset();  // Before any of them runs.
        const auto seen = co_await std::move(woken);
        CHECK(seen == std::vector<int>{2});
        const auto seen_too = co_await std::move(waiting);
        CHECK(seen_too == seen);
        CHECK(*late.latest() == 2);
        const auto end = co_await late.changed();
        CHECK(end == nullptr);
    };
    run_alone(main());
}

TEST_CASE("a watch that is destroyed while a task waits is closed for that") {
    const auto main = []() -> weft::task<> {
        auto value = std::make_unique<watch<int>>(0);
        auto waiting = weft::co_spawn(see_changes, value->subscribe());
        co_await weft::test::settle();
        value.reset();
        const auto seen = co_await std::move(waiting);
        CHECK(seen.empty());
    };
    run_alone(main());
}

TEST_CASE("a thread outside changes what tasks watch") {
    const weft::test::watchdog dog(60s, [] { return std::string(); });
    watch<int> value(0);
    weft::runtime runtime({.processors = 2});
    auto waiting = runtime.co_spawn(see_changes, value.subscribe());
    std::thread outside([&value, held = weft::runtime::guard(runtime)] {
        for (int i = 1; i <= 1'000; ++i) value.set(int(i));
        value.close();
    });
    const std::vector<int> seen = waiting.get();
    outside.join();
    REQUIRE_FALSE(seen.empty());
    CHECK(seen.back() == 1'000);
    for (std::size_t i = 1; i < seen.size(); ++i) CHECK(seen[i - 1] < seen[i]);
}
