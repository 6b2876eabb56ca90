// SPDX-License-Identifier: MIT
#include "support/network.hpp"
#include "support/scale.hpp"

#include <weft/weft.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

// Storms of selects that wait for streams, beside a channel, the end of a task and a timer, and
// that are stopped at any moment. Two tasks serve each stream, so that a select waits for its turn
// as well. Each byte is read once, each value is received once, and whoever waits is told.

using namespace std::chrono_literals;

namespace {

constexpr unsigned streams = 4;

struct account {
    explicit account(weft::test::watchdog& all_of) : dog(all_of) {}

    weft::test::watchdog& dog;
    std::atomic<std::uint64_t> selects{0}, written{0}, read{0}, sum_written{0}, sum_read{0};
    std::atomic<std::uint64_t> sent{0}, received{0}, wrong{0};
    std::atomic<std::uint64_t> cases[5] = {};
};

std::chrono::nanoseconds a_while(std::minstd_rand& random) {
    return std::chrono::nanoseconds(random() % 50'000);
}

struct line {
    explicit line(weft::test::stream_pair&& ends)
        : client(std::move(ends.client)), server(std::move(ends.server)) {}

    weft::net::tcp_stream client, server;
    weft::channel<int> orders;
    std::atomic<bool> ended{false};
};

weft::task<> write_all_of(line& to, account& all, std::size_t count, unsigned seed) {
    std::minstd_rand random(seed);
    while (count != 0) {
        std::array<std::byte, 16> bytes;
        const std::size_t size = std::min<std::size_t>(count, 1 + random() % bytes.size());
        std::uint64_t sum = 0;
        for (std::byte& each : bytes) each = static_cast<std::byte>(random());
        for (std::size_t i = 0; i < size; ++i) sum += std::to_integer<unsigned>(bytes[i]);
        all.sum_written += sum;
        // Also a select that waits for room, beside what never comes.
        if (random() % 4 == 0) co_await weft::select(to.client.writable(), weft::sleep_for(1h));
        co_await to.client.write_all(std::span<const std::byte>(bytes).first(size));
        all.written += size;
        count -= size;
        switch (random() % 4) {
        case 0: co_await weft::sleep_for(a_while(random)); break;
        case 1: co_await weft::yield(); break;
        default: break;
        }
    }
    to.client.shutdown_write();
}

weft::task<> send_orders(line& to, account& all, std::size_t count, unsigned seed) {
    std::minstd_rand random(seed);
    for (std::size_t i = 0; i < count; ++i) {
        co_await to.orders.send(1);
        ++all.sent;
        if (random() % 4 == 0) co_await weft::sleep_for(a_while(random));
    }
}

weft::task<> pause_for(std::chrono::nanoseconds time) {
    co_await weft::sleep_for(time);
}

/// Reads what has come. Another task may have been faster, so this never waits for long.
weft::task<> read_once(line& of, account& all, std::minstd_rand& random) {
    std::array<std::byte, 10> buffer;
    const auto count =
        co_await weft::as_result(weft::with_timeout(a_while(random), of.server.read_some(buffer)));
    if (!count) {
        if (count.error() != std::errc::timed_out) ++all.wrong;
        co_return;
    }
    if (*count == 0) of.ended = true;
    for (std::size_t i = 0; i < *count; ++i) all.sum_read += std::to_integer<unsigned>(buffer[i]);
    all.read += *count;
    all.dog.progress();
}

weft::task<> serve(line& of, account& all, unsigned seed) {
    std::minstd_rand random(seed);
    weft::join_handle<> pauses = weft::co_spawn(pause_for(a_while(random)));
    weft::channel<int> never;
    bool open = true;
    while (open || !of.ended) {
        std::size_t made = 4;
        int order = 0;
        ++all.selects;
        const auto waits = [&] {
            return weft::select(of.server.readable(), (open ? of.orders : never).recv(),
                                weft::on_end(pauses), weft::sleep_for(a_while(random)));
        };
        if (random() % 4 == 0) {
            auto done = co_await weft::as_result(weft::with_timeout(a_while(random), waits()));
            if (!done && done.error() != std::errc::timed_out) ++all.wrong;
            if (done) made = done->index();
            if (made == 1) order = std::get<1>(*done).value_or(0);
        } else {
            auto done = co_await waits();
            made = done.index();
            if (made == 1) order = std::get<1>(done).value_or(0);
        }
        ++all.cases[made];
        switch (made) {
        case 0: co_await read_once(of, all, random); break;
        case 1:
            all.received += static_cast<unsigned>(order);
            if (order == 0) open = false;
            break;
        case 2:
            if (!pauses.done()) ++all.wrong;
            co_await std::move(pauses);
            pauses = weft::co_spawn(pause_for(a_while(random)));
            break;
        default: break;
        }
    }
    co_await std::move(pauses);
}

weft::task<> storm_task(account& all, std::size_t count, unsigned seed) {
    std::vector<std::unique_ptr<line>> lines;
    std::vector<weft::join_handle<>> tasks, orders;
    for (unsigned i = 0; i < streams; ++i) {
        lines.push_back(std::make_unique<line>(co_await weft::test::connected_pair()));
        line& each = *lines.back();
        tasks.push_back(weft::co_spawn(write_all_of(each, all, count, seed + i)));
        orders.push_back(weft::co_spawn(send_orders(each, all, count / 8, seed + 10 + i)));
        for (unsigned who = 0; who < 2; ++who) {
            tasks.push_back(weft::co_spawn(serve(each, all, seed + 20 + 2 * i + who)));
        }
    }
    for (auto& each : orders) co_await std::move(each);
    for (auto& each : lines) each->orders.close();
    for (auto& each : tasks) co_await std::move(each);
}

void storm(unsigned processors, const char* backend) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed << ", netpoll " << backend);
    const std::size_t count = weft::test::scaled_count(240'000, 3'000'000) / streams;
    const weft::test::forced_backend forced(backend);
    weft::runtime runtime({.processors = processors});
    weft::test::watchdog dog(60s, [&] { return weft::test::describe(runtime.statistics()); });
    account all(dog);
    runtime.co_spawn(storm_task(all, count, seed)).get();
    CHECK(all.wrong == 0);
    CHECK(all.written == streams * count);
    CHECK(all.read == all.written);
    CHECK(all.sum_read == all.sum_written);
    CHECK(all.sent == streams * (count / 8));
    CHECK(all.received == all.sent);
    CHECK(all.selects >= all.written / 16);
    for (const auto& each : all.cases) CHECK(each != 0);
}

}  // namespace

TEST_CASE("stress: selects that wait for streams, 2 processors", "[stress]") {
    for (const char* backend : weft::test::backends()) storm(2, backend);
}

TEST_CASE("stress: selects that wait for streams, 8 processors", "[stress]") {
    for (const char* backend : weft::test::backends()) storm(8, backend);
}
