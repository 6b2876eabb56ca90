// SPDX-License-Identifier: MIT
#include <weft/channel_ends.hpp>

#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/one_processor.hpp"
#include "support/watchdog.hpp"

#include <weft/as_result.hpp>
#include <weft/runtime.hpp>
#include <weft/select.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

using namespace std::chrono_literals;
using weft::test::run_alone;

namespace {

weft::task<> send_some(weft::sender<int> to, int first, int count) {
    for (int i = first; i < first + count; ++i) co_await to.send(int(i));
    to.reset();  // The frame, and the parameters in it, stay until the task is joined.
}

weft::task<int> sum_all(weft::receiver<int> from) {
    int sum = 0;
    while (const auto value = co_await from.recv()) sum += *value;
    co_return sum;
}

template <class T>
concept sends = requires(T end) { end.send(1); };
template <class T>
concept receives = requires(T end) { end.recv(); };

static_assert(sends<weft::sender<int>> && !receives<weft::sender<int>>);
static_assert(receives<weft::receiver<int>> && !sends<weft::receiver<int>>);
static_assert(std::is_nothrow_copy_constructible_v<weft::sender<int>>);
static_assert(std::is_nothrow_move_constructible_v<weft::receiver<std::unique_ptr<int>>>);
static_assert(!std::is_convertible_v<weft::sender<int>, weft::receiver<int>>);

}  // namespace

TEST_CASE("a receiver gets nothing when all senders have gone and the rest is received") {
    for (const std::size_t capacity : {0U, 1U, 8U}) {
        const auto main = [capacity]() -> weft::task<> {
            auto [sender, receiver] = weft::make_channel<int>(capacity);
            std::vector<weft::join_handle<>> senders;
            for (int i = 0; i < 4; ++i) {
                senders.push_back(weft::co_spawn(send_some(sender, 100 * i, 100)));
            }
            sender.reset();
            const int sum = co_await sum_all(std::move(receiver));
            CHECK(sum == 399 * 400 / 2);
            for (auto& each : senders) co_await std::move(each);
        };
        run_alone(main());
    }
}

TEST_CASE("the last sender that goes wakes who waits to receive") {
    const auto main = []() -> weft::task<> {
        auto [sender, receiver] = weft::make_channel<int>(4);
        auto copy = sender;
        auto sum = weft::co_spawn(sum_all(receiver));
        co_await copy.send(7);
        co_await weft::yield();
        sender.reset();
        for (int i = 0; i < 10; ++i) co_await weft::yield();
        CHECK_FALSE(sum.done());
        CHECK_FALSE(receiver.closed());
        { const auto last = std::move(copy); }
        const int received = co_await std::move(sum);
        CHECK(received == 7);
        CHECK(receiver.closed());
    };
    run_alone(main());
}

TEST_CASE("the last receiver that goes gives senders their values back") {
    const auto main = []() -> weft::task<> {
        auto [sender, receiver] = weft::make_channel<std::unique_ptr<int>>();
        auto waiting = weft::co_spawn(
            [](weft::sender<std::unique_ptr<int>> to) -> weft::task<bool> {
                auto value = std::make_unique<int>(3);
                const auto sent = co_await weft::as_result(to.send(std::move(value)));
                co_return !sent && sent.error() == weft::errc::closed && value != nullptr;
            },
            sender);
        co_await weft::yield();
        auto other = receiver;
        receiver.reset();
        CHECK_FALSE(sender.closed());
        CHECK_FALSE(waiting.done());
        other.reset();
        const bool kept = co_await std::move(waiting);
        CHECK(kept);
        auto late = std::make_unique<int>(4);
        CHECK(sender.try_send(std::move(late)).error() == weft::errc::closed);
        REQUIRE(late != nullptr);
        CHECK(*late == 4);
    };
    run_alone(main());
}

TEST_CASE("values that nobody will receive go with the last receiver") {
    // What the channel holds is the end of another channel: who waits there has to learn of it.
    const auto main = []() -> weft::task<> {
        using reply = weft::sender<int>;
        auto [requests, server] = weft::make_channel<reply>(4);
        auto [answer, answers] = weft::make_channel<int>();
        co_await requests.send(std::move(answer));
        CHECK(requests.size() == 1);
        auto waits = weft::co_spawn(sum_all(std::move(answers)));
        co_await weft::yield();
        CHECK_FALSE(waits.done());
        server.reset();
        CHECK(requests.size() == 0);
        const int nothing = co_await std::move(waits);
        CHECK(nothing == 0);
    };
    run_alone(main());
}

TEST_CASE("a channel goes with its last end, and what is in it as well") {
    const auto value = std::make_shared<int>(1);
    SECTION("the receiver first") {
        auto [sender, receiver] = weft::make_channel<std::shared_ptr<int>>(2);
        REQUIRE(sender.try_send(std::shared_ptr<int>(value)));
        CHECK(value.use_count() == 2);
        receiver.reset();
        CHECK(value.use_count() == 1);
        CHECK_FALSE(sender.try_send(std::shared_ptr<int>(value)));
        CHECK(value.use_count() == 1);
    }
    SECTION("the sender first") {
        auto [sender, receiver] = weft::make_channel<std::shared_ptr<int>>(2);
        REQUIRE(sender.try_send(std::shared_ptr<int>(value)));
        REQUIRE(sender.try_send(std::shared_ptr<int>(value)));
        sender.reset();
        CHECK(receiver.try_recv().value() == value);
        CHECK(value.use_count() == 2);
    }
    CHECK(value.use_count() == 1);
}

TEST_CASE("ends are copied, moved, assigned and compared") {
    auto [sender, receiver] = weft::make_channel<int>(3);
    CHECK(sender.capacity() == 3);
    weft::sender<int> empty;
    CHECK_FALSE(empty);
    empty = sender;
    CHECK(empty);
    CHECK(empty == sender);
    auto& same = empty;
    empty = same;
    auto moved = std::move(sender);
    CHECK_FALSE(sender);
    CHECK(moved == empty);
    auto [other_sender, other_receiver] = weft::make_channel<int>();
    CHECK_FALSE(other_sender == moved);
    other_sender = std::move(moved);
    CHECK(other_receiver.closed());
    empty.reset();
    CHECK_FALSE(receiver.closed());
    REQUIRE(other_sender.try_send(5));
    CHECK(receiver.size() == 1);
    CHECK(other_sender.close());
    CHECK_FALSE(receiver.close());
    CHECK(receiver.try_recv().value() == 5);
    CHECK(receiver.try_recv().error() == weft::errc::closed);
}

TEST_CASE("operations of ends are cases of a select") {
    const auto main = []() -> weft::task<> {
        auto [one, from_one] = weft::make_channel<int>();
        auto [two, from_two] = weft::make_channel<int>(1);
        auto made = co_await weft::select(from_one.recv(), two.send(2));
        REQUIRE(made.index() == 1);
        auto received = co_await weft::select(from_one.recv(), from_two.recv());
        REQUIRE(received.index() == 1);
        CHECK(std::get<1>(received) == 2);
        auto selects = weft::co_spawn(
            [](weft::receiver<int> first, weft::receiver<int> second) -> weft::task<bool> {
                auto ended = co_await weft::select(first.recv(), second.recv());
                co_return ended.index() == 0 && !std::get<0>(ended);
            },
            from_one, from_two);
        co_await weft::yield();
        one.reset();
        const bool first_ended = co_await std::move(selects);
        CHECK(first_ended);
        CHECK_FALSE(two.closed());
    };
    run_alone(main());
}

TEST_CASE("a stop of a task that holds an end closes the channel for the others") {
    const auto main = []() -> weft::task<> {
        auto [sender, receiver] = weft::make_channel<int>();
        auto stopped = weft::co_spawn(
            [](weft::sender<int> held) -> weft::task<> {
                co_await weft::sleep_for(1h);
                co_await held.send(1);
            },
            std::move(sender));
        co_await weft::yield();
        stopped.request_stop();
        const auto nothing = co_await receiver.recv();
        CHECK_FALSE(nothing.has_value());
        const auto ended = co_await weft::as_result(std::move(stopped));
        CHECK(ended.error() == std::errc::operation_canceled);
    };
    run_alone(main());
}

TEST_CASE("threads outside use ends, and their going closes the channel") {
    static constexpr int count = 1000;
    const auto main = []() -> weft::task<> {
        auto [sender, receiver] = weft::make_channel<int>(8);
        weft::runtime::guard guard;
        std::thread outside([to = std::move(sender), guard = std::move(guard)]() mutable {
            for (int i = 0; i < count;) {
                if (to.try_send(int(i))) {
                    ++i;
                } else {
                    std::this_thread::yield();
                }
            }
            to.reset();
        });
        int expected = 0;
        while (const auto value = co_await receiver.recv()) {
            if (*value != expected) break;
            ++expected;
        }
        CHECK(expected == count);
        outside.join();
    };
    weft::test::watchdog dog(60s, [] { return std::string("threads outside use ends"); });
    weft::run(main(), {.processors = 2});
}

TEST_CASE("ends that tasks still hold go with the runtime") {
    const auto value = std::make_shared<int>(1);
    const auto main = [](std::shared_ptr<int> sent) -> weft::task<> {
        auto [sender, receiver] = weft::make_channel<std::shared_ptr<int>>(1);
        co_await sender.send(std::move(sent));
        weft::co_spawn(
            [](weft::sender<std::shared_ptr<int>> to) -> weft::task<> {
                co_await to.send(std::make_shared<int>(2));
            },
            sender)
            .detach();
        co_await weft::yield();
    };
    run_alone(main(value));
    CHECK(value.use_count() == 1);
}

TEST_CASE("to use an empty end ends the process with a message") {
    const auto result = weft::test::run_in_child([] {
        auto [sender, receiver] = weft::make_channel<int>(1);
        receiver.reset();
        (void)receiver.try_recv();
    });
    INFO(result.describe());
    CHECK(result.aborted_with("an end of a channel was used that is empty"));
}
