// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/network.hpp"
#include "support/scale.hpp"
#include "support/scheduler.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <unistd.h>

// Faults that were reported of other schedulers, after which weft is asked the same: lost wake-ups,
// starvation, idling. Each case names the thread of the report.

using namespace std::chrono_literals;
using weft::test::on_each_backend;
using weft::test::scaled_count;
using weft::test::spin_until;

namespace {

void ignore(std::string_view) {}

weft::task<> count(std::atomic<std::size_t>& counted) {
    ++counted;
    co_return;
}

weft::task<> set(std::atomic<bool>& flag) {
    flag = true;
    co_return;
}

}  // namespace

// lewissbaker/cppcoro#114: two workers woke each other for ever, and a third one starved.
// tokio-rs/tokio#525: a post from outside was not seen by a worker that was about to sleep.
TEST_CASE("reported: a post from outside is seen, however it falls beside a worker's sleep",
          "[regress]") {
    for (const unsigned processors : {1U, 3U}) {
        weft::runtime runtime({.processors = processors, .log = ignore});
        std::atomic<std::size_t> posted{0}, seen{0};
        const weft::test::watchdog dog(60s, [&] {
            return std::to_string(seen) + " of " + std::to_string(posted) + " posts seen\n" +
                   weft::test::describe(runtime.statistics());
        });
        std::minstd_rand random(processors);
        const std::size_t rounds = scaled_count(20'000, 1'000'000);
        std::size_t lost = 0;
        for (std::size_t round = 0; round < rounds; ++round) {
            runtime.co_spawn(count, std::ref(seen)).detach();
            ++posted;
            for (unsigned turns = static_cast<unsigned>(random() % 200); turns != 0; --turns) {
                std::atomic_signal_fence(std::memory_order_seq_cst);
            }
            // Now and then all of them are seen before the next one comes: the workers sleep.
            if (round % 4 != 0) continue;
            lost += spin_until([&] { return seen == posted; }) ? 0U : 1U;
        }
        CHECK(spin_until([&] { return seen == posted; }));
        CHECK(lost == 0);
        runtime.shutdown();
    }
}

// glommio/glommio#53: an executor that was to let others in before it had run anything took that
// for having nothing to run, and slept.
TEST_CASE("reported: a worker that is asked to yield before it has run anything runs the others",
          "[regress]") {
    const weft::test::watchdog dog(60s, [] { return std::string("the others do not run"); });
    std::atomic<std::size_t> counted{0};
    auto main = [&]() -> weft::task<> {
        std::vector<weft::join_handle<void>> others;
        for (int i = 0; i < 10; ++i) { others.push_back(weft::co_spawn(count, std::ref(counted))); }
        // The watchdog wants this first run of the worker to give way.
        const auto& overruns = weft::test::this_worker().p.overruns;
        const bool asked = spin_until([&] { return overruns.read() != 0; });
        for (auto& each : others) co_await std::move(each);
        CHECK(asked);
    };
    weft::run(main(), {.processors = 1, .compensate = false, .log = ignore});
    CHECK(counted == 10);
}

// tokio-rs/tokio#4730: the worker that came out of the poller ran a task that blocked, and nobody
// polled any more.
TEST_CASE("reported: a task that blocks after an event of its socket stops no timer and no socket",
          "[regress]") {
    for (const unsigned processors : {1U, 2U}) {
        for (const char* backend : weft::test::backends()) {
            if (weft::test::thread_sanitizer && std::string_view(backend) == "io_uring") continue;
            INFO("netpoll: " << backend << ", processors: " << processors);
            const weft::test::watchdog dog(60s, [] { return std::string("nobody polls"); });
            const weft::test::forced_backend forced(backend);
            std::atomic<bool> over{false};
            std::atomic<int> ticks{0}, echoes{0};
            const auto blocks = [&](weft::net::tcp_stream stream) -> weft::task<> {
                std::array<std::byte, 1> byte{};
                co_await stream.read_exact(byte);
                while (!over) std::this_thread::sleep_for(1ms);
            };
            const auto tick = [&]() -> weft::task<> {
                for (; !over; ++ticks) co_await weft::sleep_for(1ms);
            };
            const auto echo = [&](weft::net::tcp_stream stream) -> weft::task<> {
                std::array<std::byte, 1> byte{};
                for (; !over; ++echoes) {
                    co_await stream.read_exact(byte);
                    co_await stream.write_all(byte);
                }
            };
            const auto ask = [&](weft::net::tcp_stream stream) -> weft::task<> {
                std::array<std::byte, 1> byte{};
                while (ticks < 10 || echoes < 10) {
                    co_await stream.write_all(byte);
                    co_await stream.read_exact(byte);
                }
                over = true;
                co_await stream.write_all(byte);  // For a last turn of the echo.
            };
            const auto main = [&]() -> weft::task<> {
                auto first = weft::test::local_pair();
                auto second = weft::test::local_pair();
                auto blocked = weft::co_spawn(blocks, std::move(first.server));
                auto ticking = weft::co_spawn(tick);
                auto echoing = weft::co_spawn(echo, std::move(second.server));
                co_await weft::sleep_for(1ms);
                std::array<std::byte, 1> byte{};
                co_await first.client.write_all(byte);
                auto asking = weft::co_spawn(ask, std::move(second.client));
                co_await std::move(asking);
                co_await std::move(blocked);
                co_await std::move(ticking);
                echoing.request_stop();
                co_await weft::as_result(std::move(echoing));
            };
            weft::run(main(), {.processors = processors, .log = ignore});
            CHECK(ticks >= 10);
            CHECK(echoes >= 10);
        }
    }
}

// tokio-rs/tokio#5712, #2349, #5686: a pair that readied each other kept the slot in front of the
// queue to itself.
TEST_CASE("reported: a ping-pong pair does not keep the queue", "[regress]") {
    const weft::test::watchdog dog(60s, [] { return std::string("the third task starves"); });
    std::atomic<bool> ran{false};
    const auto main = [&]() -> weft::task<> {
        weft::channel<int> ping, pong;
        auto partner = weft::co_spawn(
            [](weft::channel<int>& in, weft::channel<int>& out) -> weft::task<> {
                while (auto value = co_await in.recv()) co_await out.send(std::move(*value));
            },
            std::ref(ping), std::ref(pong));
        co_await weft::yield();
        auto third = weft::co_spawn(set, std::ref(ran));
        std::size_t rounds = 0;
        const weft::test::patience wait;
        for (; !ran && !wait.over(); ++rounds) {
            co_await ping.send(int(1));
            static_cast<void>(co_await pong.recv());
        }
        ping.close();
        co_await std::move(partner);
        co_await std::move(third);
        CHECK(ran);
        CHECK(rounds < 1000);
    };
    weft::run(main(), {.processors = 1, .log = ignore});
}

// alibaba/PhotonLibOS#1245: thieves came back again and again to what could not be stolen.
TEST_CASE("reported: a worker whose task cannot be taken keeps no thief from the others",
          "[regress]") {
    const weft::test::watchdog dog(60s, [] { return std::string("the thieves are stuck"); });
    std::atomic<bool> over{false};
    std::atomic<std::size_t> counted{0};
    const auto main = [&]() -> weft::task<> {
        // Runs all the while, and has nothing in its queue.
        auto kept = weft::co_spawn([&]() -> weft::task<> {
            spin_until([&] { return over.load(); });
            co_return;
        });
        const std::size_t total = scaled_count(20'000, 200'000);
        std::vector<weft::join_handle<void>> others;
        for (std::size_t i = 0; i < total; ++i) {
            others.push_back(weft::co_spawn(count, std::ref(counted)));
            if (i % 64 == 0) co_await weft::yield();
        }
        for (auto& each : others) co_await std::move(each);
        over = true;
        co_await std::move(kept);
        CHECK(counted == total);
    };
    weft::run(main(), {.processors = 4, .log = ignore});
}

// alibaba/PhotonLibOS#1295, #1598: who interrupted a task and who stole it looked first and locked
// afterwards.
TEST_CASE("reported: tasks are stopped while they are stolen and moved, and each ends once",
          "[regress]") {
    std::atomic<std::size_t> begun{0}, ended{0};
    const weft::test::watchdog dog(90s, [&] {
        return std::to_string(ended) + " of " + std::to_string(begun) + " tasks have ended";
    });
    const auto wanders = [&]() -> weft::task<> {
        struct leaves {
            std::atomic<std::size_t>& count;
            ~leaves() { ++count; }
        };
        ++begun;
        const leaves on_return{ended};
        for (;;) co_await weft::yield();
    };
    const auto main = [&]() -> weft::task<> {
        std::minstd_rand random(7);
        std::size_t stopped = 0;
        const std::size_t rounds = scaled_count(100, 2000);
        for (std::size_t round = 0; round < rounds; ++round) {
            std::vector<weft::join_handle<void>> all;
            for (int i = 0; i < 50; ++i) all.push_back(weft::co_spawn(wanders));
            weft::this_runtime::set_processors(1 + static_cast<unsigned>(random() % 8));
            for (unsigned turns = static_cast<unsigned>(random() % 4); turns != 0; --turns) {
                co_await weft::yield();
            }
            for (auto& each : all) each.request_stop();
            for (auto& each : all) {
                const auto result = co_await weft::as_result(std::move(each));
                if (!result && result.error() == std::errc::operation_canceled) ++stopped;
            }
        }
        CHECK(stopped == 50 * rounds);
    };
    weft::run(main(), {.processors = 8, .log = ignore});
    CHECK(begun == ended);
}
