// SPDX-License-Identifier: MIT
#include <weft/on_stop.hpp>

#include "support/catch.hpp"
#include "support/one_processor.hpp"

#include <weft/as_result.hpp>
#include <weft/runtime.hpp>
#include <weft/select.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <atomic>
#include <cstddef>
#include <functional>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

using namespace std::chrono_literals;
using weft::channel;
using weft::test::run_alone;
using weft::test::settle;

namespace {

weft::task<std::size_t> receive_or_stop(channel<int>& from, std::stop_token token) {
    const auto made = co_await weft::select(from.recv(), weft::on_stop(token));
    co_return made.index();
}

}  // namespace

TEST_CASE("a select makes the case of a stop that was requested at once") {
    const auto main = []() -> weft::task<> {
        channel<int> empty;
        std::stop_source source;
        const auto not_yet =
            co_await weft::select(empty.recv(), weft::on_stop(source.get_token()), weft::otherwise);
        CHECK(not_yet.index() == 2);
        source.request_stop();
        for (int i = 0; i < 3; ++i) {
            const auto made = co_await weft::select(empty.recv(), weft::on_stop(source.get_token()),
                                                    weft::otherwise);
            CHECK(made.index() == 1);
        }
    };
    run_alone(main());
}

TEST_CASE("a stop ends the selects that wait for it, and no others") {
    const auto main = []() -> weft::task<> {
        channel<int> values;
        std::stop_source source, other;
        auto one = weft::co_spawn(receive_or_stop, std::ref(values), source.get_token());
        auto two = weft::co_spawn(receive_or_stop, std::ref(values), source.get_token());
        auto three = weft::co_spawn(receive_or_stop, std::ref(values), other.get_token());
        co_await settle();
        source.request_stop();
        const std::size_t first = co_await std::move(one);
        const std::size_t second = co_await std::move(two);
        CHECK(first == 1);
        CHECK(second == 1);
        CHECK_FALSE(three.done());
        co_await values.send(1);
        const std::size_t third = co_await std::move(three);
        CHECK(third == 0);
        other.request_stop();  // Nobody listens any more.
    };
    run_alone(main());
}

TEST_CASE("a token without a source never makes its case") {
    const auto main = []() -> weft::task<> {
        channel<int> values(1);
        auto made = co_await weft::select(weft::on_stop(std::stop_token()), weft::sleep_for(1us));
        CHECK(made.index() == 1);
        co_await values.send(1);
        auto received = co_await weft::select(weft::on_stop(std::stop_token()), values.recv());
        CHECK(received.index() == 1);
    };
    run_alone(main());
}

TEST_CASE("the stop of the task itself makes no case") {
    const auto main = []() -> weft::task<> {
        channel<int> values;
        std::stop_source source;
        auto waits = weft::co_spawn(receive_or_stop, std::ref(values), source.get_token());
        co_await settle();
        waits.request_stop();
        const auto stopped = co_await weft::as_result(std::move(waits));
        CHECK(stopped.error() == std::errc::operation_canceled);
        source.request_stop();
        const auto late = co_await weft::as_result(weft::with_timeout(
            1us, weft::select(values.recv(), weft::on_stop(std::stop_source().get_token()))));
        CHECK(late.error() == std::errc::timed_out);
    };
    run_alone(main());
}

TEST_CASE("a thread outside stops a select; nobody is said to be asleep for good") {
    for (int round = 0; round < 50; ++round) {
        std::stop_source source;
        std::atomic<bool> waits{false};
        std::thread outside([&] {
            waits.wait(false);
            source.request_stop();
        });
        channel<int> values;
        const auto main = [&]() -> weft::task<std::size_t> {
            // On the only processor it runs when this one waits.
            weft::co_spawn([](std::atomic<bool>& flag) -> weft::task<> {
                flag = true;
                flag.notify_one();
                co_return;
            }, std::ref(waits)).detach();
            co_return co_await receive_or_stop(values, source.get_token());
        };
        const std::size_t made =
            weft::run(main(), {.processors = 1,
                               .compensate = false,
                               .deadlock = weft::deadlock_action::throw_exception});
        CHECK(made == 1);
        outside.join();
    }
}

TEST_CASE("a runtime ends while selects wait for a stop") {
    std::stop_source source;
    const auto main = [](std::stop_token token) -> weft::task<> {
        const auto waits = [](std::stop_token of) -> weft::task<> {
            channel<int> never;
            co_await weft::select(never.recv(), weft::on_stop(of));
        };
        for (int i = 0; i < 10; ++i) weft::co_spawn(waits, std::stop_token(token)).detach();
        co_await settle();
    };
    run_alone(main(source.get_token()));
    CHECK(source.request_stop());
}
