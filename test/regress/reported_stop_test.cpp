// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/network.hpp"
#include "support/scale.hpp"
#include "support/scheduler.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <sys/socket.h>

// Faults that were reported of other libraries, after which weft is asked the same: stops,
// deadlines and the buffers of what they end. Each case names the thread of the report.

using namespace std::chrono_literals;
using weft::test::on_each_backend;
using weft::test::scaled_count;
using weft::test::spin_until;

namespace {

void ignore(std::string_view) {}

bool was_stopped(const weft::result<void>& result) {
    return !result && result.error() == std::errc::operation_canceled;
}

/// The descriptors of a socket pair.
std::array<int, 2> numbers_of_pair() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    return ends;
}

void pause(unsigned turns) {
    for (; turns != 0; --turns) std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace

// facebookexperimental/libunifex#534: an operation whose token was stopped before, or while it was
// submitted, completed twice or never.
TEST_CASE("reported: a stop before, while and after an operation begins ends it once",
          "[regress]") {
    std::atomic<std::size_t> completions{0};
    const weft::test::watchdog dog(90s,
                                   [&] { return std::to_string(completions) + " completions"; });
    const auto sleeps = [&]() -> weft::task<> {
        const auto result = co_await weft::as_result(weft::sleep_for(1h));
        ++completions;
        if (!result) throw std::system_error(result.error());
    };
    weft::runtime runtime({.processors = 2, .log = ignore});
    const std::size_t rounds = scaled_count(3000, 100'000);
    std::size_t stopped = 0;
    for (std::size_t round = 0; round < rounds; ++round) {
        std::stop_source source;
        const unsigned when = static_cast<unsigned>(round % 3);
        if (when == 0) source.request_stop();
        auto handle = runtime.co_spawn({.stop_token = source.get_token()}, sleeps);
        if (when == 1) pause(static_cast<unsigned>(round % 500));
        if (when == 2) pause(20'000);
        source.request_stop();
        try {
            handle.get();
        } catch (const std::system_error& error) {
            stopped += error.code() == std::errc::operation_canceled ? 1U : 0U;
        }
    }
    CHECK(stopped == rounds);
    // One that is stopped before it begins is not begun.
    CHECK(completions <= rounds);
    CHECK(completions >= rounds / 3);
}

// axboe/liburing#932, #568, #363, tigerbeetle/tigerbeetle#6: a receive lived on after the close of
// its descriptor, and took what came for the next one of that number.
TEST_CASE("reported: what was read on a closed descriptor takes nothing of the next one",
          "[regress]") {
    on_each_backend([]() -> weft::task<> {
        const auto reads = [](weft::net::tcp_stream& from,
                              std::atomic<bool>& begun) -> weft::task<std::size_t> {
            std::array<std::byte, 64> bytes{};
            begun = true;
            co_return co_await from.read_some(bytes);
        };
        std::size_t ended = 0, same = 0, echoed = 0;
        constexpr std::size_t rounds = 200;
        for (std::size_t round = 0; round < rounds; ++round) {
            const auto [first_number, number] = numbers_of_pair();
            auto peer = weft::net::tcp_stream::adopt(first_number);
            auto first = weft::net::tcp_stream::adopt(number);
            std::atomic<bool> begun{false};
            auto reading = weft::co_spawn(reads, std::ref(first), std::ref(begun));
            while (!begun) co_await weft::yield();
            co_await weft::yield();
            co_await first.close();
            const auto result = co_await weft::as_result(std::move(reading));
            ended += !result ? 1U : 0U;
            const auto [one, other] = numbers_of_pair();
            same += one == number || other == number ? 1U : 0U;
            auto sender = weft::net::tcp_stream::adopt(one);
            auto receiver = weft::net::tcp_stream::adopt(other);
            std::array<std::byte, 4> sent{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
            std::array<std::byte, 4> got{};
            co_await sender.write_all(sent);
            co_await receiver.read_exact(got);
            echoed += got == sent ? 1U : 0U;
        }
        CHECK(ended == rounds);
        CHECK(same > 0);
        CHECK(echoed == rounds);
    });
}

// chriskohlhoff/asio#1332, #1576, #1286: the loser of two operations on several threads was told to
// stop through what had been freed. boostorg/cobalt#168: where one was ready, the stop of the loser
// came out as an exception of its own.
TEST_CASE("reported: two waits race on four workers, and the loser leaves without a trace",
          "[regress]") {
    const weft::test::watchdog dog(90s, [] { return std::string("a select does not end"); });
    const auto main = []() -> weft::task<> {
        weft::channel<int> left, right;
        constexpr int senders = 2;
        const int each = static_cast<int>(scaled_count(3000, 100'000));
        const auto sends = [](weft::channel<int>& to, int count) -> weft::task<> {
            for (int i = 0; i < count; ++i) co_await to.send(int(i));
        };
        std::vector<weft::join_handle<void>> all;
        for (int i = 0; i < senders; ++i) {
            all.push_back(weft::co_spawn(sends, std::ref(left), each));
            all.push_back(weft::co_spawn(sends, std::ref(right), each));
        }
        const int total = 2 * senders * each;
        int got = 0;
        for (int i = 0; i < total; ++i) {
            auto made = co_await weft::select(left.recv(), right.recv(), weft::sleep_for(1h));
            got += made.index() == 0   ? std::get<0>(made).has_value()
                   : made.index() == 1 ? std::get<1>(made).has_value()
                                       : 0;
        }
        for (auto& one : all) co_await std::move(one);
        // One side is ready before.
        weft::channel<int> ready(1);
        co_await ready.send(7);
        auto made = co_await weft::select(ready.recv(), left.recv(), weft::sleep_for(1h));
        const int value = made.index() == 0 ? std::get<0>(made).value_or(0) : 0;
        CHECK(got == total);
        CHECK(value == 7);
        CHECK_FALSE(left.try_recv());
    };
    weft::run(main(), {.processors = 4, .log = ignore});
}

// boostorg/cobalt#194: a task on another executor was stopped after it was freed.
TEST_CASE("reported: a task of another runtime is stopped while it ends", "[regress]") {
    const weft::test::watchdog dog(90s, [] { return std::string("a stop is lost"); });
    weft::runtime other({.processors = 2, .log = ignore});
    const auto main = [&]() -> weft::task<> {
        const std::size_t rounds = scaled_count(2000, 50'000);
        std::size_t ended = 0;
        for (std::size_t round = 0; round < rounds; ++round) {
            const std::chrono::microseconds time(round % 40);
            auto handle =
                other.co_spawn([time]() -> weft::task<> { co_await weft::sleep_for(time); });
            pause(static_cast<unsigned>(round * 7 % 30'000));
            handle.request_stop();
            const auto result = co_await weft::as_result(std::move(handle));
            ended += result || was_stopped(result) ? 1U : 0U;
        }
        CHECK(ended == rounds);
    };
    weft::run(main(), {.processors = 2, .log = ignore});
}

// lewissbaker/cppcoro#221: two callbacks of a stop, each of which woke the other's waiter on the
// spot, waited for each other.
TEST_CASE("reported: two tasks that stop each other while they are stopped both end", "[regress]") {
    const weft::test::watchdog dog(90s, [] { return std::string("they wait for each other"); });
    const auto sleeps = [](std::stop_source& of_other,
                           std::atomic<unsigned>& begun) -> weft::task<> {
        struct stops {
            std::stop_source& source;
            ~stops() { source.request_stop(); }
        };
        const stops on_return{of_other};
        ++begun;
        co_await weft::sleep_for(1h);
    };
    weft::runtime runtime({.processors = 2, .log = ignore});
    const std::size_t rounds = scaled_count(500, 20'000);
    std::size_t stopped = 0;
    for (std::size_t round = 0; round < rounds; ++round) {
        std::stop_source first, second;
        std::atomic<unsigned> begun{0};
        auto one = runtime.co_spawn({.stop_token = first.get_token()}, sleeps, std::ref(second),
                                    std::ref(begun));
        auto two = runtime.co_spawn({.stop_token = second.get_token()}, sleeps, std::ref(first),
                                    std::ref(begun));
        if (round % 2 == 0) spin_until([&] { return begun == 2; });
        std::thread outside([&] { first.request_stop(); });
        second.request_stop();
        outside.join();
        for (auto* each : {&one, &two}) {
            try {
                each->get();
            } catch (const std::system_error& error) {
                stopped += error.code() == std::errc::operation_canceled ? 1U : 0U;
            }
        }
    }
    CHECK(stopped == 2 * rounds);
}

// facebookexperimental/libunifex#577 (#578, #579), #693: a task was resumed after its stop; two
// destructors looked at each other.
TEST_CASE("reported: the source, the handle and the task go at the same time", "[regress]") {
    std::atomic<std::size_t> begun{0}, ended{0};
    const weft::test::watchdog dog(
        90s, [&] { return std::to_string(begun) + " begun, " + std::to_string(ended) + " ended"; });
    const std::size_t rounds = scaled_count(2000, 50'000);
    {
        weft::runtime runtime({.processors = 2, .log = ignore});
        const auto works = [&](unsigned turns) -> weft::task<> {
            struct leaves {
                std::atomic<std::size_t>& count;
                ~leaves() { ++count; }
            };
            ++begun;
            const leaves on_return{ended};
            for (; turns != 0; --turns) co_await weft::yield();
        };
        std::minstd_rand random(3);
        for (std::size_t round = 0; round < rounds; ++round) {
            auto source = std::make_optional<std::stop_source>();
            auto handle = runtime.co_spawn({.stop_token = source->get_token()}, works,
                                           static_cast<unsigned>(random() % 8));
            pause(static_cast<unsigned>(random() % 2000));
            source->request_stop();
            if (random() % 2 == 0) source.reset();
            std::move(handle).detach();
        }
    }
    CHECK(begun == ended);
}

// scylladb/seastar#2471: an operation went on after its timeout, and wrote to what had been given
// back.
TEST_CASE("reported: nothing is written to a buffer after the deadline of its read", "[regress]") {
    on_each_backend([]() -> weft::task<> {
        constexpr std::byte untouched{0x5a};
        std::size_t late = 0, clean = 0, whole = 0;
        constexpr std::size_t rounds = 50;
        for (std::size_t round = 0; round < rounds; ++round) {
            auto pair = weft::test::local_pair();
            std::array<std::byte, 16> buffer{};
            buffer.fill(untouched);
            const auto got =
                co_await weft::as_result(weft::with_timeout(100us, pair.server.read_some(buffer)));
            late += !got && got.error() == std::errc::timed_out ? 1U : 0U;
            std::array<std::byte, 16> sent{};
            co_await pair.client.write_all(sent);
            for (int i = 0; i < 4; ++i) co_await weft::yield();
            clean += std::ranges::count(buffer, untouched) == 16 ? 1U : 0U;
            std::array<std::byte, 16> next{untouched};
            co_await pair.server.read_exact(next);
            whole += next == sent ? 1U : 0U;
        }
        CHECK(late == rounds);
        CHECK(clean == rounds);
        CHECK(whole == rounds);
    });
}
