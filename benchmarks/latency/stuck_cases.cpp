// SPDX-License-Identifier: MIT
//
// A task spins for 100 ms, and something is ready that belongs to its processor. Where there is
// another processor, it idles, or it is busy with a task that works in steps of 1 ms.
#include "cases.hpp"
#include "connection.hpp"
#include "rounds.hpp"

#include <weft/sleep.hpp>
#include <weft/spawn.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <thread>

namespace latency {

namespace {

using namespace std::chrono_literals;

constexpr auto stuck_for = 100ms;
constexpr auto ready_after = 3ms;

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

// One round each, after which `found` has one sample more, or none where the round says nothing.

weft::task<> ready_round(samples& found) {
    const auto begin = clock::now();
    auto other = weft::co_spawn(stamp());
    spin(stuck_for);
    const auto end = co_await std::move(other);
    found.add(end - begin);
}

weft::task<> timer_round(samples& found) {
    std::atomic<pid_t> parked_on = 0;
    const auto due = clock::now() + ready_after;
    auto other = weft::co_spawn(stamp_at(due, parked_on));
    const bool here = co_await parked_here(parked_on);
    if (here) spin(stuck_for);
    const auto end = co_await std::move(other);
    if (here) found.add(end - due);
}

weft::task<> socket_round(samples& found, weft::net::tcp_stream& stream,
                          const outside_end& writer_end) {
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

enum class other_processors : bool { idle, busy };

template <class Round>
weft::task<> make_rounds(samples& found, unsigned rounds, other_processors others, Round round) {
    unsigned attempts = rounds * attempts_per_round;
    while (found.count() < rounds && attempts-- != 0) {
        co_await settle_between_rounds();
        steady_neighbour neighbour;
        if (others == other_processors::busy) co_await neighbour.start();
        co_await round();
        if (others == other_processors::busy) co_await neighbour.end();
    }
}

weft::task<> ready_rounds(samples& found, unsigned rounds, other_processors others) {
    co_await make_rounds(found, rounds, others, [&] { return ready_round(found); });
}

weft::task<> timer_rounds(samples& found, unsigned rounds, other_processors others) {
    co_await make_rounds(found, rounds, others, [&] { return timer_round(found); });
}

weft::task<> socket_rounds(samples& found, unsigned rounds, other_processors others) {
    auto listener = listen_on_loopback();
    const outside_end writer_end(listener.local_endpoint().port());
    auto stream = co_await listener.accept();
    co_await make_rounds(found, rounds, others,
                         [&] { return socket_round(found, stream, writer_end); });
}

}  // namespace

weft::task<> stuck_ready(samples& found, unsigned rounds) {
    return ready_rounds(found, rounds, other_processors::idle);
}
weft::task<> stuck_timer(samples& found, unsigned rounds) {
    return timer_rounds(found, rounds, other_processors::idle);
}
weft::task<> stuck_socket(samples& found, unsigned rounds) {
    return socket_rounds(found, rounds, other_processors::idle);
}
weft::task<> stuck_ready_all_busy(samples& found, unsigned rounds) {
    return ready_rounds(found, rounds, other_processors::busy);
}
weft::task<> stuck_timer_all_busy(samples& found, unsigned rounds) {
    return timer_rounds(found, rounds, other_processors::busy);
}
weft::task<> stuck_socket_all_busy(samples& found, unsigned rounds) {
    return socket_rounds(found, rounds, other_processors::busy);
}

}  // namespace latency
