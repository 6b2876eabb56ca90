// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/network.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

// Faults that were reported of other libraries, after which weft is asked the same: channels, and
// both directions of a socket. Each case names the thread of the report.

using namespace std::chrono_literals;
using weft::test::on_each_backend;
using weft::test::scaled_count;

namespace {

void ignore(std::string_view) {}

}  // namespace

// rust-lang/futures-rs#909, #282, tokio-rs/tokio#2854, #3215, #7714, #8074: of a send and a close
// at the same time a value was left in the channel, or somebody was never woken.
TEST_CASE("reported: four senders and a close, and every value is received or still there",
          "[regress]") {
    std::size_t round = 0;
    const weft::test::watchdog dog(90s, [&] { return "round " + std::to_string(round); });
    const auto main = [&]() -> weft::task<> {
        using value = std::unique_ptr<int>;
        struct account {
            std::size_t sent = 0, kept = 0;
        };
        const auto sends = [](weft::channel<value>& to) -> weft::task<account> {
            account made;
            for (;;) {
                auto next = std::make_unique<int>(1);
                const auto result = co_await weft::as_result(to.send(std::move(next)));
                if (!result) {
                    made.kept += next != nullptr ? 1U : 0U;
                    co_return made;
                }
                ++made.sent;
            }
        };
        std::minstd_rand random(5);
        const std::size_t rounds = scaled_count(500, 20'000);
        std::size_t wrong = 0;
        for (; round < rounds; ++round) {
            weft::channel<value> values(random() % 3);
            std::vector<weft::join_handle<account>> senders;
            for (int i = 0; i < 4; ++i) {
                senders.push_back(weft::co_spawn(sends, std::ref(values)));
            }
            auto closer = weft::co_spawn(
                [](weft::channel<value>& closed, unsigned turns) -> weft::task<> {
                    for (; turns != 0; --turns) co_await weft::yield();
                    closed.close();
                },
                std::ref(values), static_cast<unsigned>(random() % 20));
            std::size_t received = 0;
            while (co_await values.recv()) ++received;
            std::size_t sent = 0, kept = 0;
            for (auto& each : senders) {
                const account made = co_await std::move(each);
                sent += made.sent;
                kept += made.kept;
            }
            co_await std::move(closer);
            if (sent != received || kept != 4) ++wrong;
        }
        CHECK(wrong == 0);
    };
    weft::run(main(), {.processors = 4, .log = ignore});
}

// lewissbaker/cppcoro#129, #97, andreasbuhr/cppcoro#65, alibaba/async_simple#404,
// Kotlin/kotlinx.coroutines#80: who woke many waiters ran them inside each other, until the stack
// was used up.
TEST_CASE("reported: a close wakes a hundred thousand tasks, and needs no stack for them",
          "[regress]") {
    const weft::test::watchdog dog(90s, [] { return std::string("they do not all wake"); });
    std::atomic<std::size_t> woken{0};
    const std::size_t count = scaled_count(100'000, 1'000'000);
    const auto main = [&]() -> weft::task<> {
        weft::channel<int> values;
        const auto waits = [&](weft::channel<int>& at) -> weft::task<> {
            static_cast<void>(co_await at.recv());
            ++woken;
        };
        std::vector<weft::join_handle<void>> all;
        for (std::size_t i = 0; i < count; ++i) {
            all.push_back(weft::co_spawn(waits, std::ref(values)));
        }
        co_await weft::yield();
        values.close();
        for (auto& each : all) co_await std::move(each);
    };
    weft::run(main(), {.processors = 2, .log = ignore});
    CHECK(woken == count);
}

// jbaldwin/libcoro#108: a waiter was in the list before its handle was in the waiter.
TEST_CASE("reported: whoever is found in a list can be resumed", "[regress]") {
    const weft::test::watchdog dog(90s, [] { return std::string("a waiter is lost"); });
    const auto main = []() -> weft::task<> {
        weft::channel<int> values;
        const int each = static_cast<int>(scaled_count(5000, 200'000));
        long sum = 0;
        std::vector<weft::join_handle<void>> senders;
        for (int i = 0; i < 4; ++i) {
            senders.push_back(weft::co_spawn(
                [](weft::channel<int>& to, int count) -> weft::task<> {
                    for (int n = 0; n < count; ++n) co_await to.send(1);
                },
                std::ref(values), each));
        }
        std::vector<weft::join_handle<long>> receivers;
        for (int i = 0; i < 4; ++i) {
            receivers.push_back(weft::co_spawn(
                [](weft::channel<int>& from) -> weft::task<long> {
                    long got = 0;
                    while (auto value = co_await from.recv()) got += *value;
                    co_return got;
                },
                std::ref(values)));
        }
        for (auto& one : senders) co_await std::move(one);
        values.close();
        for (auto& one : receivers) sum += co_await std::move(one);
        CHECK(sum == 4L * each);
    };
    weft::run(main(), {.processors = 8, .log = ignore});
}

// jbaldwin/libcoro#224, #226: a task that read and one that wrote could not wait for one socket.
TEST_CASE("reported: one task reads a socket while another one writes it", "[regress]") {
    on_each_backend([]() -> weft::task<> {
        auto pair = weft::test::local_pair();
        constexpr std::size_t total = 4 << 20;  // More than a socket holds: both sides wait.
        const auto writes = [](weft::net::tcp_stream& to) -> weft::task<> {
            const std::vector<std::byte> bytes(total, std::byte{1});
            co_await to.write_all(bytes);
        };
        const auto reads = [](weft::net::tcp_stream& from) -> weft::task<std::size_t> {
            std::vector<std::byte> bytes(total);
            co_await from.read_exact(bytes);
            co_return static_cast<std::size_t>(
                std::count(bytes.begin(), bytes.end(), std::byte{1}));
        };
        std::vector<weft::join_handle<void>> writers;
        std::vector<weft::join_handle<std::size_t>> readers;
        for (auto* end : {&pair.client, &pair.server}) {
            writers.push_back(weft::co_spawn(writes, std::ref(*end)));
            readers.push_back(weft::co_spawn(reads, std::ref(*end)));
        }
        std::size_t got = 0;
        for (auto& each : writers) co_await std::move(each);
        for (auto& each : readers) got += co_await std::move(each);
        CHECK(got == 2 * total);
    });
}
