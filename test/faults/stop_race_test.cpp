// SPDX-License-Identifier: MIT
//
// Row 30 of the fault catalogue, for a stop: what has arrived when an operation is stopped is
// either its result, or is there for the next one. Nothing is thrown away, nothing is given twice,
// and the order stays.
#include "support/catch.hpp"
#include "support/network.hpp"
#include "support/scale.hpp"

#include <weft/as_result.hpp>
#include <weft/error.hpp>
#include <weft/io_error.hpp>
#include <weft/sleep.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

using namespace std::chrono_literals;
using weft::net::endpoint;
using weft::net::tcp_listener;
using weft::net::tcp_stream;
using weft::test::stream_pair;

namespace {

constexpr std::errc stopped = std::errc::operation_canceled;

/// Bytes that count, so that a lost, doubled or moved one is seen.
class counting_bytes {
public:
    std::vector<std::byte> next(std::size_t count) {
        std::vector<std::byte> made(count);
        for (auto& each : made) each = static_cast<std::byte>(sent_++ * 7);
        return made;
    }
    /// Are these the ones that follow those that were taken before?
    bool take(std::span<const std::byte> got) {
        for (const std::byte each : got) {
            if (each != static_cast<std::byte>(taken_++ * 7)) return false;
        }
        return true;
    }
    std::uint64_t sent() const noexcept { return sent_; }
    std::uint64_t taken() const noexcept { return taken_; }

private:
    std::uint64_t sent_ = 0;
    std::uint64_t taken_ = 0;
};

/// What a read left in its buffer, and whether it was stopped.
struct read_outcome {
    std::size_t moved = 0;
    bool stopped = false;
};

weft::task<read_outcome> read_some(tcp_stream& from, std::span<std::byte> into) {
    try {
        co_return read_outcome{co_await from.read_some(into), false};
    } catch (const std::system_error& error) { co_return read_outcome{0, error.code() == stopped}; }
}

weft::task<read_outcome> read_exact(tcp_stream& from, std::span<std::byte> into) {
    try {
        co_return read_outcome{co_await from.read_exact(into), false};
    } catch (const weft::io_error& error) {
        co_return read_outcome{error.transferred(), error.code() == stopped};
    }
}

weft::task<> write_later(tcp_stream& to, std::vector<std::byte> data, int delay) {
    if (delay > 0) co_await weft::sleep_for(std::chrono::microseconds(delay));
    co_await to.write_all(data);
}

/// Data and the stop race each other, at other distances each time.
template <class Read>
weft::task<> race_reads(Read read, std::size_t wanted) {
    stream_pair both = co_await weft::test::connected_pair();
    counting_bytes bytes;
    const int rounds = static_cast<int>(weft::test::scaled_count(400, 20'000));
    int stops = 0;
    int wins = 0;
    for (int i = 0; i < rounds; ++i) {
        std::vector<std::byte> buffer(wanted);
        auto reader = weft::co_spawn(read(both.server, std::span(buffer)));
        auto writer =
            weft::co_spawn(write_later(both.client, bytes.next(3), i % 4 == 0 ? 0 : i % 23));
        if (i % 3 != 0) co_await weft::sleep_for(std::chrono::microseconds(i % 19));
        reader.request_stop();
        const read_outcome ended = co_await std::move(reader);
        co_await std::move(writer);
        REQUIRE(bytes.take(std::span(buffer).first(ended.moved)));
        (ended.stopped ? stops : wins) += 1;
    }
    std::vector<std::byte> rest(static_cast<std::size_t>(bytes.sent() - bytes.taken()));
    co_await both.server.read_exact(rest);
    CHECK(bytes.take(rest));
    CHECK(bytes.taken() == bytes.sent());
    // Both happen, or there was no race.
    CHECK(stops > 0);
    CHECK(wins > 0);
}

weft::task<std::optional<tcp_stream>> accept_one(tcp_listener& from) {
    auto result = co_await weft::as_result(from.accept());
    if (!result) {
        if (result.error() != stopped) throw std::system_error(result.error());
        co_return std::nullopt;
    }
    co_return std::move(*result);
}

weft::task<std::uint8_t> number_of(tcp_stream& from) {
    std::array<std::byte, 1> number{};
    co_await from.read_exact(number);
    co_return static_cast<std::uint8_t>(number[0]);
}

/// Each connection carries its number; each one is accepted once, in order.
weft::task<> race_accepts() {
    auto listener = tcp_listener::bind(endpoint::parse("127.0.0.1:0"));
    std::vector<tcp_stream> clients;
    const int rounds = static_cast<int>(weft::test::scaled_count(200, 2'000));
    int accepted = 0;
    for (int i = 0; i < rounds; ++i) {
        auto accepting = weft::co_spawn(accept_one(listener));
        if (i % 4 == 0) co_await weft::yield();
        auto connecting = weft::co_spawn(
            [](endpoint to, int number) -> weft::task<tcp_stream> {
                tcp_stream made = co_await tcp_stream::connect(to);
                co_await made.write_all(std::array{static_cast<std::byte>(number)});
                co_return made;
            },
            listener.local_endpoint(), i);
        if (i % 3 != 0) co_await weft::sleep_for(std::chrono::microseconds(i % 29));
        accepting.request_stop();
        auto taken = co_await std::move(accepting);
        clients.push_back(co_await std::move(connecting));
        if (taken) {
            const std::uint8_t number = co_await number_of(*taken);
            REQUIRE(number == static_cast<std::uint8_t>(accepted));
            ++accepted;
        }
    }
    for (; accepted < rounds; ++accepted) {
        tcp_stream left = co_await listener.accept();
        const std::uint8_t number = co_await number_of(left);
        REQUIRE(number == static_cast<std::uint8_t>(accepted));
    }
}

/// One processor, so that the order is certain: the data is there, and the reader is told of it,
/// before the stop.
weft::task<> stop_after_arrival() {
    stream_pair both = co_await weft::test::connected_pair();
    std::array<std::byte, 8> buffer{};
    // The read has ended before the stop: its bytes are its result.
    co_await both.client.write_all(std::array{std::byte{1}, std::byte{2}});
    auto done = weft::co_spawn(read_some(both.server, buffer));
    while (!done.done()) co_await weft::yield();
    done.request_stop();
    const read_outcome first = co_await std::move(done);
    CHECK(first.moved == 2);
    CHECK_FALSE(first.stopped);
    // The stop comes before the read has been tried: nothing is taken.
    co_await both.client.write_all(std::array{std::byte{3}});
    auto never = weft::co_spawn(read_some(both.server, buffer));
    never.request_stop();
    const read_outcome second = co_await std::move(never);
    CHECK(second.moved == 0);
    CHECK(second.stopped);
    const read_outcome third = co_await read_some(both.server, buffer);
    CHECK(third.moved == 1);
    CHECK(buffer[0] == std::byte{3});
    // A part of what is wanted had come: the error tells how much.
    auto partial = weft::co_spawn(read_exact(both.server, buffer));
    co_await both.client.write_all(std::array{std::byte{4}, std::byte{5}});
    co_await weft::sleep_for(2ms);
    partial.request_stop();
    const read_outcome fourth = co_await std::move(partial);
    CHECK(fourth.stopped);
    std::array<std::byte, 2> rest{};
    if (fourth.moved < 2) {
        co_await both.server.read_exact(std::span(rest).subspan(fourth.moved));
    }
    std::copy_n(buffer.begin(), fourth.moved, rest.begin());
    CHECK(rest == std::array{std::byte{4}, std::byte{5}});
}

}  // namespace

TEST_CASE("row 30: of a stop and a read one wins, and no byte is lost", "[faults][netpoll]") {
    weft::test::on_each_backend([] { return race_reads(read_some, 8); });
    weft::test::on_each_backend([] { return race_reads(read_some, 2); });
}

TEST_CASE("row 30: of a stop and a read of a whole buffer one wins, and no byte is lost",
          "[faults][netpoll]") {
    weft::test::on_each_backend([] { return race_reads(read_exact, 5); });
}

TEST_CASE("row 30: of a stop and an accept one wins, and no connection is lost",
          "[faults][netpoll]") {
    weft::test::on_each_backend([] { return race_accepts(); });
}

TEST_CASE("row 30: what has arrived before a stop is returned, or there for the next read",
          "[faults][netpoll]") {
    weft::test::on_each_backend([] { return stop_after_arrival(); }, 1);
}
