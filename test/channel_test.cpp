// SPDX-License-Identifier: MIT
#include <weft/channel.hpp>

#include "support/catch.hpp"
#include "support/one_processor.hpp"
#include "support/watchdog.hpp"

#include <weft/as_result.hpp>
#include <weft/runtime.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using weft::channel;
using weft::test::run_alone;

namespace {

weft::task<std::vector<int>> receive_all(channel<int>& from) {
    std::vector<int> received;
    while (const auto value = co_await from.recv()) received.push_back(*value);
    co_return received;
}

weft::task<> send_all(channel<int>& to, int first, int count) {
    for (int i = first; i < first + count; ++i) co_await to.send(int(i));
}

weft::task<std::error_code> send_one(channel<std::unique_ptr<int>>& to,
                                     std::unique_ptr<int>& value) {
    const auto sent = co_await weft::as_result(to.send(std::move(value)));
    co_return sent ? std::error_code() : sent.error();
}

}  // namespace

TEST_CASE("a channel without room hands values from task to task in order") {
    const auto main = []() -> weft::task<std::vector<int>> {
        channel<int> values;
        auto received = weft::co_spawn(receive_all, std::ref(values));
        co_await send_all(values, 0, 1000);
        values.close();
        co_return co_await std::move(received);
    };
    for (const unsigned processors : {1U, 2U}) {
        const auto received = weft::run(main(), {.processors = processors});
        REQUIRE(received.size() == 1000);
        for (int i = 0; i < 1000; ++i) CHECK(received[static_cast<std::size_t>(i)] == i);
    }
}

TEST_CASE("S38: a channel without room is synchronous: send returns when its value is received") {
    const auto main = []() -> weft::task<> {
        channel<int> values;
        bool sent = false;
        auto sender = weft::co_spawn(
            [](channel<int>& to, bool& done) -> weft::task<> {
                co_await to.send(1);
                done = true;
            },
            std::ref(values), std::ref(sent));
        for (int i = 0; i < 10; ++i) co_await weft::yield();
        CHECK_FALSE(sent);
        CHECK(values.size() == 0);
        const auto value = co_await values.recv();
        CHECK(value == 1);
        co_await std::move(sender);
        CHECK(sent);
    };
    run_alone(main());
}

TEST_CASE("a channel with room takes so many values without a receiver, and no more") {
    const auto main = []() -> weft::task<> {
        channel<int> values(3);
        CHECK(values.capacity() == 3);
        for (int i = 0; i < 3; ++i) co_await values.send(int(i));
        CHECK(values.size() == 3);
        const auto fourth = values.try_send(3);
        REQUIRE_FALSE(fourth);
        CHECK(fourth.error() == std::errc::operation_would_block);
        for (int round = 0; round < 10; ++round) {
            const auto value = co_await values.recv();
            CHECK(value == round);
            co_await values.send(round + 3);
        }
        values.close();
        const auto left = co_await receive_all(values);
        CHECK(left == std::vector<int>{10, 11, 12});
    };
    run_alone(main());
}

TEST_CASE("S38: receivers and senders are served first in, first out") {
    const auto main = []() -> weft::task<> {
        channel<int> values;
        std::vector<std::pair<int, int>> got;
        std::vector<weft::join_handle<void>> tasks;
        const auto receive = [](channel<int>& from, std::vector<std::pair<int, int>>& into,
                                int who) -> weft::task<> {
            const auto value = co_await from.recv();
            into.emplace_back(who, value.value_or(-1));
        };
        for (int who = 0; who < 5; ++who) {
            tasks.push_back(weft::co_spawn(receive, std::ref(values), std::ref(got), int(who)));
            co_await weft::yield();
        }
        for (int i = 0; i < 5; ++i) {
            co_await values.send(10 + i);
            co_await weft::yield();
        }
        for (auto& each : tasks) co_await std::move(each);
        tasks.clear();
        CHECK(got == std::vector<std::pair<int, int>>{{0, 10}, {1, 11}, {2, 12}, {3, 13}, {4, 14}});
        for (int i = 0; i < 5; ++i) {
            tasks.push_back(weft::co_spawn(send_all, std::ref(values), int(i), 1));
            co_await weft::yield();
        }
        for (int i = 0; i < 5; ++i) {
            const auto value = co_await values.recv();
            CHECK(value == i);
        }
        for (auto& each : tasks) co_await std::move(each);
    };
    run_alone(main());
}

TEST_CASE("fault 32: a channel is closed once; a send fails then and keeps its value") {
    const auto main = []() -> weft::task<> {
        channel<std::unique_ptr<int>> values(1);
        CHECK_FALSE(values.closed());
        CHECK(values.try_send(std::make_unique<int>(1)).has_value());
        CHECK(values.close());
        CHECK_FALSE(values.close());
        CHECK(values.closed());
        auto kept = std::make_unique<int>(2);
        const std::error_code error = co_await send_one(values, kept);
        CHECK(error == weft::errc::closed);
        REQUIRE(kept != nullptr);
        CHECK(*kept == 2);
        CHECK(values.try_send(std::move(kept)).error() == weft::errc::closed);
        CHECK(kept != nullptr);
        // What was sent before is received, then comes the end.
        const auto first = co_await values.recv();
        REQUIRE(first.has_value());
        CHECK(**first == 1);
        const auto second = co_await values.recv();
        CHECK_FALSE(second.has_value());
        CHECK(values.try_recv().error() == weft::errc::closed);
    };
    run_alone(main());
}

TEST_CASE("fault 32: a close wakes those who wait; senders keep their values") {
    const auto main = []() -> weft::task<> {
        channel<std::unique_ptr<int>> values;
        auto first = std::make_unique<int>(1);
        auto second = std::make_unique<int>(2);
        auto one = weft::co_spawn(send_one, std::ref(values), std::ref(first));
        auto two = weft::co_spawn(send_one, std::ref(values), std::ref(second));
        co_await weft::yield();
        values.close();
        const std::error_code error_one = co_await std::move(one);
        const std::error_code error_two = co_await std::move(two);
        CHECK(error_one == weft::errc::closed);
        CHECK(error_two == weft::errc::closed);
        CHECK(first != nullptr);
        CHECK(second != nullptr);

        channel<int> nothing;
        auto receiver = weft::co_spawn(receive_all, std::ref(nothing));
        co_await weft::yield();
        nothing.close();
        const auto received = co_await std::move(receiver);
        CHECK(received.empty());
    };
    run_alone(main());
}

TEST_CASE("fault 33: a stopped send keeps its value, and a stopped receive takes none") {
    const auto main = []() -> weft::task<> {
        channel<std::unique_ptr<int>> values;
        auto kept = std::make_unique<int>(1);
        const auto sent =
            co_await weft::as_result(weft::with_timeout(1ms, values.send(std::move(kept))));
        REQUIRE_FALSE(sent);
        CHECK(sent.error() == std::errc::timed_out);
        CHECK(kept != nullptr);

        const auto received = co_await weft::as_result(weft::with_timeout(1ms, values.recv()));
        REQUIRE_FALSE(received);
        CHECK(received.error() == std::errc::timed_out);

        // Neither of them waits any more.
        CHECK(values.try_send(std::move(kept)).error() == std::errc::operation_would_block);
        CHECK(kept != nullptr);
        CHECK(values.try_recv().error() == std::errc::operation_would_block);
    };
    run_alone(main());
}

TEST_CASE("a task that never waits at a channel is stopped, and lets others in") {
    const auto main = []() -> weft::task<> {
        channel<int> values(1);
        auto busy = weft::co_spawn(
            [](channel<int>& own) -> weft::task<> {
                for (;;) {
                    co_await own.send(1);
                    co_await own.recv();
                }
            },
            std::ref(values));
        co_await weft::yield();  // Comes back although the other one is always ready.
        busy.request_stop();
        const auto result = co_await weft::as_result(std::move(busy));
        REQUIRE_FALSE(result);
        CHECK(result.error() == std::errc::operation_canceled);
    };
    run_alone(main());
}

TEST_CASE("the try forms meet tasks that wait") {
    const auto main = []() -> weft::task<> {
        channel<int> values;
        auto receiver = weft::co_spawn(receive_all, std::ref(values));
        co_await weft::yield();
        CHECK(values.try_send(1).has_value());
        co_await weft::yield();
        CHECK(values.try_send(2).has_value());
        co_await weft::yield();
        values.close();
        const auto received = co_await std::move(receiver);
        CHECK(received == std::vector<int>{1, 2});

        channel<int> others;
        auto sender = weft::co_spawn(send_all, std::ref(others), 5, 1);
        co_await weft::yield();
        CHECK(others.try_recv().value() == 5);
        co_await std::move(sender);
    };
    run_alone(main());
}

TEST_CASE("values in a channel are destroyed with it") {
    struct counted {
        explicit counted(int& alive) : alive_(&alive) { ++alive; }
        counted(counted&& other) noexcept : alive_(other.alive_) { ++*alive_; }
        ~counted() { --*alive_; }
        int* alive_;
    };
    int alive = 0;
    {
        channel<counted> values(4);
        for (int i = 0; i < 3; ++i) CHECK(values.try_send(counted(alive)).has_value());
        CHECK(values.try_recv().has_value());
        CHECK(alive == 2);
    }
    CHECK(alive == 0);
}

TEST_CASE("at the end of a runtime tasks may still wait at a channel of a frame that goes first") {
    const auto main = []() -> weft::task<> {
        auto values = std::make_shared<channel<int>>();
        for (int i = 0; i < 3; ++i) {
            weft::co_spawn(
                [](std::shared_ptr<channel<int>> from) -> weft::task<> {
                    co_await weft::as_result(from->recv());
                    co_await weft::as_result(from->recv());
                },
                values)
                .detach();
        }
        co_await weft::yield();
    };
    run_alone(main());
}

TEST_CASE("threads outside send to tasks") {
    const weft::test::watchdog dog(20s, [] { return std::string(); });
    channel<int> values(16);
    weft::runtime runtime({.processors = 2});
    auto received = runtime.co_spawn(receive_all, std::ref(values));
    for (int i = 0; i < 10'000;) {
        if (values.try_send(int(i))) ++i;
    }
    values.close();
    CHECK(received.get().size() == 10'000);
}
