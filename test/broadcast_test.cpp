// SPDX-License-Identifier: MIT
#include <weft/broadcast.hpp>

#include "support/catch.hpp"
#include "support/one_processor.hpp"
#include "support/watchdog.hpp"

#include <weft/as_result.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using weft::broadcast;
using weft::test::run_alone;

namespace {

/// On one thread, whatever the machine does meanwhile.
weft::task<std::vector<int>> receive_all(broadcast<int>::receiver from) {
    std::vector<int> received;
    while (const auto message = co_await from.recv()) received.push_back(*message);
    co_return received;
}

}  // namespace

TEST_CASE("each receiver gets each value that is sent since it was made") {
    const auto main = []() -> weft::task<> {
        broadcast<int> values(8);
        CHECK(values.capacity() == 8);
        CHECK(values.send(0));  // To nobody.
        auto one = weft::co_spawn(receive_all, values.subscribe());
        auto other = weft::co_spawn(receive_all, values.subscribe());
        for (int i = 1; i <= 20; ++i) {
            values.send(i);
            co_await weft::test::settle();
        }
        auto late = weft::co_spawn(receive_all, values.subscribe());
        values.send(21);
        CHECK(values.close());
        CHECK_FALSE(values.close());
        CHECK(values.closed());
        CHECK_FALSE(values.send(22));
        const auto received = co_await std::move(one);
        REQUIRE(received.size() == 21);
        for (int i = 0; i < 21; ++i) CHECK(received[static_cast<std::size_t>(i)] == i + 1);
        const auto received_too = co_await std::move(other);
        CHECK(received_too == received);
        const auto received_late = co_await std::move(late);
        CHECK(received_late == std::vector<int>{21});
    };
    run_alone(main());
}

TEST_CASE("a slow receiver learns how many values it has lost, and goes on with the oldest") {
    const auto main = []() -> weft::task<> {
        broadcast<int> values(4);
        auto slow = values.subscribe();
        auto copy = slow;
        for (int i = 0; i < 10; ++i) values.send(int(i));
        auto message = co_await slow.recv();
        REQUIRE(message);
        CHECK(*message == 6);
        CHECK(message.lost == 6);
        for (int i = 7; i < 10; ++i) {
            message = co_await slow.recv();
            REQUIRE(message);
            CHECK(*message == i);
            CHECK(message.lost == 0);
        }
        CHECK(slow.try_recv().error() == std::errc::operation_would_block);
        const auto tried = copy.try_recv();
        REQUIRE(tried);
        CHECK(**tried == 6);
        CHECK(tried->lost == 6);
        values.close();
        CHECK(slow.try_recv().error() == weft::errc::closed);
        const auto end = co_await slow.recv();
        CHECK_FALSE(end);
    };
    run_alone(main());
}

TEST_CASE("values of a broadcast are shared, and live while somebody holds them") {
    struct counted {
        explicit counted(int& alive) : alive_(&alive) { ++alive; }
        counted(counted&& other) noexcept : alive_(other.alive_) { ++*alive_; }
        ~counted() { --*alive_; }
        int* alive_;
    };
    int alive = 0;
    {
        broadcast<counted> values(2);
        auto receiver = values.subscribe();
        CHECK(values.send(counted(alive)));
        const auto held = receiver.try_recv();
        REQUIRE(held);
        for (int i = 0; i < 5; ++i) values.send(counted(alive));
        CHECK(alive == 3);
    }
    CHECK(alive == 0);
    CHECK_THROWS_AS(broadcast<int>(0), std::invalid_argument);
}

TEST_CASE("a receive from a broadcast that is stopped or late loses nothing") {
    const auto main = []() -> weft::task<> {
        broadcast<int> values(4);
        auto receiver = values.subscribe();
        const auto late = co_await weft::as_result(weft::with_timeout(1ms, receiver.recv()));
        REQUIRE_FALSE(late);
        CHECK(late.error() == std::errc::timed_out);
        auto waiting = weft::co_spawn(
            [](broadcast<int>::receiver& from) -> weft::task<> { co_await from.recv(); },
            std::ref(receiver));
        co_await weft::test::settle();
        waiting.request_stop();
        const auto stopped = co_await weft::as_result(std::move(waiting));
        REQUIRE_FALSE(stopped);
        CHECK(stopped.error() == std::errc::operation_canceled);
        values.send(1);
        const auto cancelled = co_await weft::as_result(weft::with_timeout(0ms, receiver.recv()));
        CHECK_FALSE(cancelled);
        const auto message = co_await receiver.recv();
        REQUIRE(message);
        CHECK(*message == 1);
        CHECK(message.lost == 0);
    };
    run_alone(main());
}

TEST_CASE("a broadcast that is destroyed while a task waits is closed for that") {
    const auto main = []() -> weft::task<> {
        auto values = std::make_unique<broadcast<int>>(1);
        auto waiting = weft::co_spawn(receive_all, values->subscribe());
        co_await weft::test::settle();
        values.reset();
        const auto received = co_await std::move(waiting);
        CHECK(received.empty());
    };
    run_alone(main());
}

TEST_CASE("receivers of a broadcast that is gone get what is kept, also one woken before") {
    const auto main = []() -> weft::task<> {
        auto values = std::make_unique<broadcast<int>>(2);
        auto woken = weft::co_spawn(receive_all, values->subscribe());
        co_await weft::test::settle();
        auto slow = values->subscribe();
        for (int i = 1; i <= 3; ++i) values->send(int(i));
        values.reset();  // Before any of them runs.
        const auto received = co_await std::move(woken);
        CHECK(received == std::vector<int>{2, 3});
        const auto first = slow.try_recv();
        REQUIRE(first);
        CHECK(**first == 2);
        CHECK(first->lost == 1);
        auto copy = slow;
        const auto second = co_await copy.recv();
        REQUIRE(second);
        CHECK(*second == 3);
        const auto end = co_await copy.recv();
        CHECK_FALSE(end);
        CHECK(copy.try_recv().error() == weft::errc::closed);
    };
    run_alone(main());
}

TEST_CASE("a receiver of a broadcast that was moved from is as it was") {
    const auto main = []() -> weft::task<> {
        broadcast<int> values(2);
        auto receiver = values.subscribe();
        auto moved = std::move(receiver);
        values.send(1);
        const auto got = co_await moved.recv();
        REQUIRE(got);
        const auto got_too = co_await receiver.recv();  // That is what is tested.
        REQUIRE(got_too);
        CHECK(*got == *got_too);
    };
    run_alone(main());
}

TEST_CASE("at the end of a runtime tasks may still wait at a broadcast that is destroyed first") {
    const auto main = []() -> weft::task<> {
        auto values = std::make_shared<broadcast<int>>(1);
        for (int i = 0; i < 3; ++i) {
            weft::co_spawn(
                [](std::shared_ptr<broadcast<int>> from) -> weft::task<> {
                    auto receiver = from->subscribe();
                    co_await weft::as_result(receiver.recv());
                    co_await weft::as_result(receiver.recv());
                },
                values)
                .detach();
        }
        co_await weft::test::settle();
    };
    run_alone(main());
}

TEST_CASE("a thread outside sends to tasks of two runtimes") {
    const weft::test::watchdog dog(60s, [] { return std::string(); });
    broadcast<int> values(1'000);
    weft::runtime one({.processors = 1});
    weft::runtime other({.processors = 2});
    auto first = one.co_spawn(receive_all, values.subscribe());
    auto second = other.co_spawn(receive_all, values.subscribe());
    std::thread outside(
        [&values, of_one = weft::runtime::guard(one), of_other = weft::runtime::guard(other)] {
            for (int i = 0; i < 1'000; ++i) values.send(int(i));
            values.close();
        });
    CHECK(first.get().size() == 1'000);
    CHECK(second.get().size() == 1'000);
    outside.join();
}
