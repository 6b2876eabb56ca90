// SPDX-License-Identifier: MIT
#include "lib/netpoll/rescue_signal.hpp"
#include "support/catch.hpp"
#include "support/scheduler.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

// Rescues that come at any moment, among thousands of connections that are made, used and closed:
// nobody waits for ever, nothing is lost. What a rescue is for is in rescue_test.cpp.

using namespace std::chrono_literals;
using weft::net::endpoint;
using weft::net::tcp_listener;
using weft::net::tcp_stream;
using clock_type = std::chrono::steady_clock;

namespace {

constexpr const char* loopback = "127.0.0.1:0";
constexpr int storm_connections = 12;
constexpr int storm_rounds = 60;

void compute_for(std::chrono::nanoseconds time) {
    const auto until = clock_type::now() + time;
    while (clock_type::now() < until) {}
}

enum class storm { of_tasks_that_compute, of_short_tasks };

weft::task<> answer(tcp_stream stream, unsigned seed, storm kind) {
    std::array<std::byte, 8> buffer;
    const bool computes = kind == storm::of_tasks_that_compute;
    while (const std::size_t got = co_await stream.read_some(buffer)) {
        if (computes && ++seed % 5 == 0) compute_for(std::chrono::microseconds(seed % 3 * 1500));
        co_await stream.write_all(std::span(buffer).first(got));
    }
    co_await stream.close();
}

/// Each tenth answer is followed by a new connection.
weft::task<int> ask(endpoint to, unsigned seed, storm kind, int rounds,
                    weft::test::watchdog& watchdog) {
    int answers = 0;
    std::array<std::byte, 1> byte{};
    const bool computes = kind == storm::of_tasks_that_compute;
    while (answers < rounds) {
        tcp_stream stream = co_await tcp_stream::connect(to);
        for (int i = 0; i < 10; ++i) {
            co_await stream.write_all(byte);
            if (computes && ++seed % 7 == 0) {
                compute_for(std::chrono::microseconds(seed % 4 * 1000));
            }
            co_await stream.read_exact(byte);
            ++answers;
            watchdog.progress();
        }
        co_await stream.close();
    }
    co_return answers;
}

weft::task<> accept_all(tcp_listener& listener, int count, storm kind) {
    for (int i = 0; i < count; ++i) {
        weft::co_spawn(answer(co_await listener.accept(), static_cast<unsigned>(i), kind)).detach();
    }
}

/// Returns how many answers were missing.
weft::task<int> raise_storm(storm kind, int rounds, weft::test::watchdog& watchdog) {
    int missing = storm_connections * rounds;
    auto listener = tcp_listener::bind(endpoint::parse(loopback));
    auto acceptor =
        weft::co_spawn(accept_all(listener, storm_connections * rounds / 10, kind));
    std::vector<weft::join_handle<int>> asking;
    for (unsigned i = 0; i < storm_connections; ++i) {
        asking.push_back(weft::co_spawn(ask(listener.local_endpoint(), i, kind, rounds, watchdog)));
    }
    for (auto& each : asking) missing -= co_await std::move(each);
    co_await std::move(acceptor);
    co_return missing;
}

}  // namespace

TEST_CASE("rescues at any time lose no wake-up and no close", "[faults]") {
    weft::test::watchdog watchdog(90s, [] { return std::string("somebody waits for ever"); });
    int missing = -1;
    auto main = [&]() -> weft::task<> {
        missing = co_await raise_storm(storm::of_tasks_that_compute, storm_rounds, watchdog);
    };
    weft::run(main(), {.processors = 3, .hog_report = 1h, .log = [](std::string_view) {}});
    CHECK(missing == 0);
}

namespace {

/// A thread that interrupts all workers again and again, whatever they do just then, and takes what
/// they hand over, as the watchdog does beside it.
class restless_rescuer {
public:
    explicit restless_rescuer(weft::detail::runtime_core& of) : thread_([this, &of] { run(of); }) {}
    ~restless_rescuer() {
        stopped_ = true;
        thread_.join();
    }
    restless_rescuer(const restless_rescuer&) = delete;
    restless_rescuer& operator=(const restless_rescuer&) = delete;

private:
    void run(weft::detail::runtime_core& of) {
        while (!stopped_) {
            for (std::uint32_t i = 0; i < of.worker_count(); ++i) {
                weft::detail::worker_thread& each = of.worker_at(i);
                if (!each.own_poller().interrupt_owner(each.thread().id)) return;
                weft::detail::send_rescue_signal(each.thread().id);  // Whether it wants it or not.
                weft::detail::branch_list readied;
                each.own_poller().take_for_owner(readied);
                if (!readied.empty()) of.inject(readied);
            }
            // A different moment each time.
            compute_for(std::chrono::microseconds(++pause_ % 17));
        }
    }

    std::atomic<bool> stopped_{false};
    unsigned pause_ = 0;
    std::thread thread_;
};

}  // namespace

// Thousands of signals in each second, at any instruction of the workers: in the poller, while a
// poll is armed, while sends are gathered, while descriptors are closed.
TEST_CASE("rescues at any instant lose no wake-up and no close", "[faults]") {
    weft::test::watchdog watchdog(90s, [] { return std::string("somebody waits for ever"); });
    int missing = -1, missing_short = -1;
    auto main = [&]() -> weft::task<> {
        const restless_rescuer rescuer(weft::test::this_core());
        missing = co_await raise_storm(storm::of_tasks_that_compute, storm_rounds, watchdog);
        missing_short = co_await raise_storm(storm::of_short_tasks, 20 * storm_rounds, watchdog);
    };
    weft::run(main(), {.processors = 2, .hog_report = 1h, .log = [](std::string_view) {}});
    CHECK(missing == 0);
    CHECK(missing_short == 0);
}

namespace {

/// Returns how many messages came until the end of the stream, or until it was closed, or -1 where
/// it failed.
weft::task<int> read_impatiently(tcp_stream& from, unsigned seed) {
    std::array<std::byte, 1> byte;
    for (int got = 0;;) {
        const auto limit = std::chrono::microseconds(++seed % 7 * 50);
        const auto read = co_await weft::as_result(weft::with_timeout(limit, from.read_some(byte)));
        if (read && *read == 1) {
            ++got;
        } else if (read || read.error() == weft::errc::closed) {
            co_return got;
        } else if (read.error() != std::errc::timed_out) {
            co_return -1;
        }
        if (seed % 5 == 0) compute_for(std::chrono::microseconds(seed % 3 * 300));
    }
}

weft::task<> close_beside(tcp_stream& closing) {
    co_await closing.close();
}

/// The reader's stream is ended by the peer, or closed while somebody reads, and by two at once.
/// True: everything came that had to.
weft::task<bool> end_in_one_way(tcp_stream here, tcp_stream there, unsigned seed) {
    constexpr int sent = 20;
    const bool by_peer = seed % 2 == 0;
    auto reader = weft::co_spawn(read_impatiently(here, seed));
    const std::array<std::byte, 1> byte{};
    for (int i = 0; i < sent; ++i) {
        co_await there.write_all(byte);
        if (++seed % 4 == 0) co_await weft::sleep_for(std::chrono::microseconds(seed % 11 * 20));
    }
    int got = -1;
    if (by_peer) {
        co_await there.close();
        got = co_await std::move(reader);
    }
    auto other_closer = weft::co_spawn(close_beside(here));
    co_await here.close();
    co_await std::move(other_closer);
    if (!by_peer) {
        got = co_await std::move(reader);
        co_await there.close();
    }
    co_return by_peer ? got == sent : got >= 0 && got <= sent;
}

weft::task<int> end_in_all_ways(int rounds, weft::test::watchdog& watchdog) {
    int wrong = 0;
    auto listener = tcp_listener::bind(endpoint::parse(loopback));
    for (int round = 0; round < rounds; ++round) {
        std::vector<weft::join_handle<bool>> ending;
        for (unsigned i = 0; i < 8; ++i) {
            tcp_stream there = co_await tcp_stream::connect(listener.local_endpoint());
            tcp_stream here = co_await listener.accept();
            ending.push_back(weft::co_spawn(end_in_one_way(std::move(here), std::move(there), i)));
        }
        for (auto& each : ending) {
            wrong += co_await std::move(each) ? 0 : 1;
            watchdog.progress();
        }
    }
    co_return wrong;
}

}  // namespace

// A waiter that was taken in the handler is completed later, by somebody else; meanwhile its time
// is over, its stream is closed, or both are, and the other closer may be the interrupted task
// itself.
TEST_CASE("rescues at any instant race stops and closes", "[faults]") {
    weft::test::watchdog watchdog(90s, [] { return std::string("somebody waits for ever"); });
    int wrong = -1;
    auto main = [&]() -> weft::task<> {
        const restless_rescuer rescuer(weft::test::this_core());
        wrong = co_await end_in_all_ways(40, watchdog);
    };
    weft::run(main(), {.processors = 2, .hog_report = 1h, .log = [](std::string_view) {}});
    CHECK(wrong == 0);
}
