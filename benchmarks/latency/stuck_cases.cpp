// SPDX-License-Identifier: MIT
//
// A task spins for 100 ms, and something is ready that belongs to its processor. Where the other
// task ran elsewhere before it parked, the round says nothing and is made again.
#include "cases.hpp"
#include "connection.hpp"

#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/yield.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <thread>

namespace latency {

namespace {

using namespace std::chrono_literals;

constexpr auto stuck_for = 100ms;
constexpr auto ready_after = 3ms;
constexpr unsigned attempts_per_round = 20;

weft::task<clock::time_point> stamp() {
    co_return clock::now();
}

weft::task<clock::time_point> stamp_at(clock::time_point due, std::atomic<pid_t>& parked_on) {
    parked_on = ::gettid();
    co_await weft::sleep_until(due);
    co_return clock::now();
}

weft::task<clock::time_point> stamp_read(weft::net::tcp_stream& stream,
                                         std::atomic<pid_t>& parked_on) {
    std::array<std::byte, 1> byte;
    parked_on = ::gettid();
    co_await stream.read_exact(byte);
    co_return clock::now();
}

/// Lets the other task come to its await. True: it did so on the calling thread.
weft::task<bool> parked_here(const std::atomic<pid_t>& parked_on) {
    while (parked_on == 0) co_await weft::yield();
    co_return parked_on == ::gettid();
}

}  // namespace

weft::task<> stuck_ready(samples& found, unsigned rounds) {
    for (unsigned i = 0; i < rounds; ++i) {
        const auto begin = clock::now();
        auto other = weft::co_spawn(stamp());
        spin(stuck_for);
        const auto end = co_await std::move(other);
        found.add(end - begin);
    }
}

weft::task<> stuck_timer(samples& found, unsigned rounds) {
    unsigned attempts = rounds * attempts_per_round;
    while (found.count() < rounds && attempts-- != 0) {
        std::atomic<pid_t> parked_on = 0;
        const auto due = clock::now() + ready_after;
        auto other = weft::co_spawn(stamp_at(due, parked_on));
        const bool here = co_await parked_here(parked_on);
        if (here) spin(stuck_for);
        const auto end = co_await std::move(other);
        if (here) found.add(end - due);
    }
}

weft::task<> stuck_socket(samples& found, unsigned rounds) {
    auto listener = listen_on_loopback();
    const outside_end writer_end(listener.local_endpoint().port());
    auto stream = co_await listener.accept();
    unsigned attempts = rounds * attempts_per_round;
    while (found.count() < rounds && attempts-- != 0) {
        std::atomic<pid_t> parked_on = 0;
        auto other = weft::co_spawn(stamp_read(stream, parked_on));
        const bool here = co_await parked_here(parked_on);
        clock::time_point begin;
        std::thread writer([&] {
            std::this_thread::sleep_for(ready_after);
            begin = clock::now();
            writer_end.write_byte();
        });
        if (here) spin(stuck_for);
        const auto end = co_await std::move(other);
        writer.join();
        if (here) found.add(end - begin);
    }
}

}  // namespace latency
