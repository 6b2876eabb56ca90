// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

// Faults that other libraries had where several operations run side by side.

using namespace std::chrono_literals;

namespace {

weft::task<int> at_once(int value) {
    co_return value;
}

weft::task<int> waits_for_ever() {
    weft::channel<int> nobody;
    co_return (co_await nobody.recv()).value();
}

}  // namespace

// boostorg/cobalt 168: with the winner ready before, the loser's exception got out.
TEST_CASE("regress: the loser's cancellation stays inside where the winner was ready at once",
          "[regress]") {
    int told = 0;
    const auto main = []() -> weft::task<bool> {
        const auto right = co_await weft::when_any(at_once(1), waits_for_ever());
        const auto left = co_await weft::when_any(waits_for_ever(), at_once(2));
        co_return right.index == 0 && left.index == 1 && std::get<1>(left.values) == 2;
    };
    for (const unsigned processors : {1U, 2U}) {
        CHECK(weft::run(main(), {.processors = processors,
                                 .on_failure = [&](const weft::task_failure&) { ++told; }}));
    }
    CHECK(told == 0);
}

// jbaldwin/libcoro 349: when_any returned while the loser still ran, and wrote into the frame of
// its caller, which was gone.
TEST_CASE("regress: no loser of when_any touches the frame of its caller afterwards", "[regress]") {
    const std::size_t rounds = weft::test::scaled_count(10'000, 200'000);
    weft::test::watchdog dog(60s, [] { return "a loser is not awaited"; });
    struct written {
        bool started = false;
        bool ended = false;
    };
    const auto loser = [](written& to) -> weft::task<> {
        to.started = true;
        co_await weft::as_result(weft::sleep_for(1h));
        co_await weft::as_result(weft::yield());
        to.ended = true;
    };
    const auto caller = [](auto& make) -> weft::task<bool> {
        auto by_loser = std::make_unique<written>();
        const auto got = co_await weft::when_any(make(*by_loser), weft::sleep_for(1us));
        co_return got.index == 1 && by_loser->started == by_loser->ended;
    };
    const auto main = [](auto& call, auto& make, std::size_t count) -> weft::task<std::size_t> {
        std::size_t right = 0;
        for (std::size_t i = 0; i < count; ++i) right += co_await call(make) ? 1 : 0;
        co_return right;
    };
    CHECK(weft::run(main(caller, loser, rounds), {.processors = 4}) == rounds);
}

// chriskohlhoff/asio 1332, 1576 and 1286: operators || and && on several threads emitted the
// cancellation to a handler that was freed.
TEST_CASE("regress: two operations race on several workers", "[regress]") {
    const std::size_t rounds = weft::test::scaled_count(20'000, 500'000);
    weft::test::watchdog dog(60s, [] { return "a race does not end"; });
    const auto operation = [](unsigned nanoseconds) -> weft::task<> {
        co_await weft::sleep_for(std::chrono::nanoseconds(nanoseconds));
    };
    const auto main = [](auto& make, std::size_t count) -> weft::task<std::size_t> {
        std::size_t ended = 0;
        for (unsigned i = 0; i < count; ++i) {
            const auto got = co_await weft::when_any(make(i * 37 % 5000), make(i * 91 % 5000));
            co_await weft::when_all(make(i % 300), make(i % 500));
            ended += got.index < 2 ? 1 : 0;
        }
        co_return ended;
    };
    CHECK(weft::run(main(operation, rounds), {.processors = 4}) == rounds);
}

// tzcnt/TooManyCooks 201: a child touched its frame after it had counted down, when its parent had
// gone on already on another thread and had destroyed it.
TEST_CASE("regress: a child that counts down touches its frame no more", "[regress]") {
    const std::size_t rounds = weft::test::scaled_count(50'000, 1'000'000);
    weft::test::watchdog dog(60s, [] { return "children do not end"; });
    const auto child = [](std::unique_ptr<std::size_t> value) -> weft::task<std::size_t> {
        if (*value % 3 == 0) co_await weft::yield();
        co_return *value % 2;
    };
    const auto main = [](auto& make, std::size_t count) -> weft::task<std::size_t> {
        std::size_t sum = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const auto [one, other] = co_await weft::when_all(
                make(std::make_unique<std::size_t>(i)), make(std::make_unique<std::size_t>(i + 1)));
            sum += one + other;
        }
        co_return sum;
    };
    for (const unsigned processors : {2U, 4U}) {
        CHECK(weft::run(main(child, rounds), {.processors = processors}) == rounds);
    }
}
