// SPDX-License-Identifier: MIT
#include <weft/select.hpp>

#include "support/catch.hpp"
#include "support/one_processor.hpp"
#include "support/watchdog.hpp"

#include <weft/as_result.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

using namespace std::chrono_literals;
using weft::channel;
using weft::test::run_alone;

namespace {

/// Nobody stands in line at it, to send or to receive; it has no room.
bool nobody_waits(channel<int>& at) {
    return at.try_send(0).error() == std::errc::operation_would_block &&
           at.try_recv().error() == std::errc::operation_would_block;
}

weft::task<> send_one(channel<int>& to, int value) {
    co_await to.send(int(value));
}

weft::task<std::size_t> select_two(channel<int>& one, channel<int>& two, int& got) {
    auto made = co_await weft::select(one.recv(), two.recv());
    const auto& value = made.index() == 0 ? std::get<0>(made) : std::get<1>(made);
    got = value.value_or(-1);
    co_return made.index();
}

}  // namespace

TEST_CASE("a select makes the case that can be made at once") {
    const auto main = []() -> weft::task<> {
        channel<int> empty, full(1);
        for (int i = 0; i < 100; ++i) {
            co_await full.send(int(i));
            auto made = co_await weft::select(empty.recv(), full.recv(), weft::sleep_for(1h));
            REQUIRE(made.index() == 1);
            CHECK(std::get<1>(made) == i);
            auto sent = co_await weft::select(empty.recv(), full.send(int(i)), empty.send(1));
            REQUIRE(sent.index() == 1);
            CHECK(full.try_recv().value() == i);
        }
        CHECK(nobody_waits(empty));
    };
    run_alone(main());
}

TEST_CASE("a select that waits is served by the first who comes, and leaves the other lines") {
    const auto main = []() -> weft::task<> {
        channel<int> one, two;
        for (std::size_t which = 0; which < 2; ++which) {
            int got = 0;
            auto selects =
                weft::co_spawn(select_two, std::ref(one), std::ref(two), std::ref(got));
            co_await weft::yield();
            co_await (which == 0 ? one : two).send(7);
            const std::size_t made = co_await std::move(selects);
            CHECK(made == which);
            CHECK(got == 7);
            CHECK(nobody_waits(one));
            CHECK(nobody_waits(two));
        }
    };
    run_alone(main());
}

TEST_CASE("a select sends to the first who receives, and keeps what it did not send") {
    const auto main = []() -> weft::task<> {
        channel<std::unique_ptr<int>> one, two;
        auto first = std::make_unique<int>(1);
        auto second = std::make_unique<int>(2);
        std::optional<std::unique_ptr<int>> received;
        auto receiver = weft::co_spawn(
            [](channel<std::unique_ptr<int>>& from,
               std::optional<std::unique_ptr<int>>& into) -> weft::task<> {
                into = co_await from.recv();
            },
            std::ref(two), std::ref(received));
        const auto made =
            co_await weft::select(one.send(std::move(first)), two.send(std::move(second)));
        co_await std::move(receiver);
        CHECK(made.index() == 1);
        REQUIRE(first != nullptr);
        CHECK(*first == 1);
        CHECK(second == nullptr);
        REQUIRE(received.has_value());
        CHECK(**received == 2);
    };
    run_alone(main());
}

TEST_CASE("each of the cases that can be made is as likely as the others") {
    const auto main = []() -> weft::task<std::vector<int>> {
        channel<int> one(1), two(1), three(1);
        std::vector<int> made(3);
        for (int i = 0; i < 3000; ++i) {
            for (auto* each : {&one, &two, &three}) (void)each->try_send(1);
            ++made[(co_await weft::select(one.recv(), two.recv(), three.recv())).index()];
        }
        co_return made;
    };
    // Each is a binomial of mean 1000 and deviation 26.
    for (const int count : run_alone(main())) {
        CHECK(count > 800);
        CHECK(count < 1200);
    }
    // Also if others lie between them that cannot be made.
    const auto two_of_four = []() -> weft::task<int> {
        channel<int> first(1), never, second(1);
        int made_first = 0;
        for (int i = 0; i < 2000; ++i) {
            (void)first.try_send(1);
            (void)second.try_send(1);
            const auto made = co_await weft::select(first.recv(), never.recv(), second.recv(),
                                                    never.send(1));
            if (made.index() == 0) ++made_first;
        }
        co_return made_first;
    };
    const int made_first = run_alone(two_of_four());
    CHECK(made_first > 800);
    CHECK(made_first < 1200);
}

TEST_CASE("a select tells of a closed channel: a receive gets nothing, a send throws") {
    const auto main = []() -> weft::task<> {
        channel<int> open, shut;
        shut.close();
        auto made = co_await weft::select(open.recv(), shut.recv());
        REQUIRE(made.index() == 1);
        CHECK_FALSE(std::get<1>(made).has_value());
        channel<std::unique_ptr<int>> ended;
        ended.close();
        auto value = std::make_unique<int>(3);
        const auto sent = co_await weft::as_result(
            weft::select(open.recv(), ended.send(std::move(value))));
        REQUIRE_FALSE(sent);
        CHECK(sent.error() == weft::errc::closed);
        CHECK(value != nullptr);
    };
    run_alone(main());
}

TEST_CASE("a close serves the selects that wait") {
    const auto main = []() -> weft::task<> {
        channel<int> one, two;
        int got = 0;
        auto selects = weft::co_spawn(select_two, std::ref(one), std::ref(two), std::ref(got));
        co_await weft::yield();
        two.close();
        const std::size_t made = co_await std::move(selects);
        CHECK(made == 1);
        CHECK(got == -1);
        CHECK(nobody_waits(one));

        channel<std::unique_ptr<int>> ended;
        auto value = std::make_unique<int>(3);
        auto sends = weft::co_spawn(
            [](channel<int>& from, channel<std::unique_ptr<int>>& to,
               std::unique_ptr<int>& kept) -> weft::task<std::error_code> {
                const auto result =
                    co_await weft::as_result(weft::select(from.recv(), to.send(std::move(kept))));
                co_return result ? std::error_code() : result.error();
            },
            std::ref(one), std::ref(ended), std::ref(value));
        co_await weft::yield();
        ended.close();
        const std::error_code error = co_await std::move(sends);
        CHECK(error == weft::errc::closed);
        CHECK(value != nullptr);
        CHECK(nobody_waits(one));
    };
    run_alone(main());
}

TEST_CASE("a select waits for a time no longer than that, and takes its timer back before") {
    const auto main = []() -> weft::task<> {
        channel<int> values;
        const auto begin = std::chrono::steady_clock::now();
        const auto late = co_await weft::select(values.recv(), weft::sleep_for(2ms));
        CHECK(late.index() == 1);
        CHECK(std::chrono::steady_clock::now() - begin >= 2ms);
        CHECK(nobody_waits(values));
        // Its time has come before it begins.
        const auto due = co_await weft::select(values.recv(), weft::sleep_until(begin));
        CHECK(due.index() == 1);
        // Long timers that were taken back keep nobody.
        for (int i = 0; i < 100; ++i) {
            auto sender = weft::co_spawn(send_one, std::ref(values), int(i));
            auto made = co_await weft::select(weft::sleep_for(1h), values.recv(),
                                              weft::sleep_for(2h));
            REQUIRE(made.index() == 1);
            CHECK(std::get<1>(made) == i);
            co_await std::move(sender);
        }
        // One that never ends is no case that could be made.
        auto sender = weft::co_spawn(send_one, std::ref(values), 1);
        const auto made = co_await weft::select(
            weft::sleep_for(std::chrono::nanoseconds::max()), values.recv());
        CHECK(made.index() == 1);
        co_await std::move(sender);
    };
    run_alone(main());
}

TEST_CASE("with `otherwise` a select does not wait") {
    const auto main = []() -> weft::task<> {
        channel<int> values(1);
        auto none = co_await weft::select(values.recv(), weft::otherwise, weft::sleep_for(1h));
        CHECK(none.index() == 1);
        auto sent = co_await weft::select(weft::otherwise, values.send(1));
        CHECK(sent.index() == 1);
        auto full = co_await weft::select(weft::otherwise, values.send(2));
        CHECK(full.index() == 0);
        auto got = co_await weft::select(values.recv(), weft::otherwise);
        REQUIRE(got.index() == 0);
        CHECK(std::get<0>(got) == 1);
    };
    run_alone(main());
}

TEST_CASE("a loop of selects that never wait lets others in, and can be stopped") {
    const auto main = []() -> weft::task<> {
        channel<int> values(1);
        auto busy = weft::co_spawn(
            [](channel<int>& own) -> weft::task<> {
                for (;;) co_await weft::select(own.send(1), own.recv());
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

TEST_CASE("a select that is stopped makes no case and waits nowhere") {
    const auto main = []() -> weft::task<> {
        channel<int> one;
        channel<std::unique_ptr<int>> two;
        auto kept = std::make_unique<int>(1);
        const auto late = co_await weft::as_result(weft::with_timeout(
            1ms, weft::select(one.recv(), two.send(std::move(kept)), weft::sleep_for(1h))));
        REQUIRE_FALSE(late);
        CHECK(late.error() == std::errc::timed_out);
        CHECK(kept != nullptr);
        CHECK(nobody_waits(one));
        CHECK(two.try_recv().error() == std::errc::operation_would_block);

        auto selects = weft::co_spawn(
            [](channel<int>& from) -> weft::task<> {
                co_await weft::select(from.recv(), weft::sleep_for(1h));
            },
            std::ref(one));
        co_await weft::yield();
        selects.request_stop();
        const auto stopped = co_await weft::as_result(std::move(selects));
        REQUIRE_FALSE(stopped);
        CHECK(stopped.error() == std::errc::operation_canceled);
        CHECK(nobody_waits(one));
    };
    run_alone(main());
}

TEST_CASE("a select does not meet itself, and selects meet each other") {
    const auto main = []() -> weft::task<> {
        channel<int> values, others;
        const auto alone =
            co_await weft::select(values.send(1), values.recv(), weft::otherwise);
        CHECK(alone.index() == 2);
        const auto both = [](channel<int>& one, channel<int>& two, int sent) -> weft::task<int> {
            auto made = co_await weft::select(one.send(int(sent)), one.recv(), two.recv());
            co_return made.index() == 0 ? 0 : std::get<1>(made).value_or(-1);
        };
        auto first = weft::co_spawn(both, std::ref(values), std::ref(others), 1);
        auto second = weft::co_spawn(both, std::ref(values), std::ref(others), 2);
        const int got_first = co_await std::move(first);
        const int got_second = co_await std::move(second);
        // One of them has sent, and the other one has received that.
        CHECK(((got_first == 0 && got_second == 1) || (got_first == 2 && got_second == 0)));
        CHECK(nobody_waits(values));
        CHECK(nobody_waits(others));
    };
    run_alone(main());
}

TEST_CASE("who waits behind a select that is served elsewhere is not forgotten") {
    const auto main = []() -> weft::task<> {
        channel<int> one, two;
        int got = 0;
        auto selects = weft::co_spawn(select_two, std::ref(one), std::ref(two), std::ref(got));
        co_await weft::yield();
        auto behind = weft::co_spawn(
            [](channel<int>& from) -> weft::task<int> { co_return (co_await from.recv()).value(); },
            std::ref(one));
        co_await weft::yield();
        // The select has been served and has not run yet when the second value comes.
        CHECK(two.try_send(1).has_value());
        CHECK(one.try_send(2).has_value());
        const int received = co_await std::move(behind);
        CHECK(received == 2);
        const std::size_t made = co_await std::move(selects);
        CHECK(made == 1);
        CHECK(got == 1);
    };
    run_alone(main());
}

TEST_CASE("a select gives its value after a move, as any awaitable") {
    const auto main = []() -> weft::task<> {
        channel<std::string> texts(1);
        co_await texts.send("text");
        auto select = weft::select(texts.recv(), weft::sleep_for(1h));
        auto moved = std::move(select);
        auto made = co_await moved;
        REQUIRE(made.index() == 0);
        CHECK(std::get<0>(made) == "text");
    };
    run_alone(main());
}

TEST_CASE("at the end of a runtime selects may still wait at channels of frames that go first") {
    const auto main = []() -> weft::task<> {
        auto one = std::make_shared<channel<int>>();
        for (int i = 0; i < 4; ++i) {
            auto two = std::make_shared<channel<int>>();
            weft::co_spawn(
                [](std::shared_ptr<channel<int>> first,
                   std::shared_ptr<channel<int>> second) -> weft::task<> {
                    channel<int> own;
                    auto inner = weft::co_spawn(
                        [](channel<int>& outer, channel<int>& shared) -> weft::task<> {
                            for (;;) {
                                co_await weft::as_result(weft::select(
                                    outer.recv(), shared.recv(), weft::sleep_for(1h)));
                            }
                        },
                        std::ref(own), std::ref(*first));
                    for (;;) {
                        co_await weft::as_result(
                            weft::select(first->recv(), second->recv(), own.recv()));
                    }
                    co_await std::move(inner);
                },
                one, two)
                .detach();
        }
        co_await weft::yield();
        co_await weft::yield();
    };
    weft::run(main(), {.processors = 1, .shutdown_grace = 0s});
}

TEST_CASE("threads outside serve selects") {
    const weft::test::watchdog dog(20s, [] { return std::string(); });
    channel<int> one, two;
    weft::runtime runtime({.processors = 2});
    const auto receive = [](channel<int>& first, channel<int>& second) -> weft::task<int> {
        int sum = 0;
        bool open[2] = {true, true};
        while (open[0] || open[1]) {
            auto made = co_await weft::select(first.recv(), second.recv());
            const auto got = made.index() == 0 ? std::get<0>(made) : std::get<1>(made);
            if (got) sum += *got;
            else open[made.index()] = false;
        }
        co_return sum;
    };
    auto sum = runtime.co_spawn(receive, std::ref(one), std::ref(two));
    for (int i = 0; i < 10'000;) {
        if ((i % 2 == 0 ? one : two).try_send(1)) ++i;
    }
    one.close();
    two.close();
    CHECK(sum.get() == 10'000);
}
