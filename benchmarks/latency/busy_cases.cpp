// SPDX-License-Identifier: MIT
#include "cases.hpp"
#include "connection.hpp"
#include "rounds.hpp"

#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/yield.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace latency {

namespace {

using namespace std::chrono_literals;

std::size_t processors() {
    return weft::this_runtime::processors();
}

/// A step of work and a yield, again and again.
weft::task<> hog(const std::atomic<bool>& over) {
    volatile unsigned work = 0;
    while (!over.load(std::memory_order_relaxed)) {
        for (int i = 0; i < 1000; ++i) work = work + 1;
        co_await weft::yield();
    }
}

weft::task<> echo_bytes(weft::net::tcp_stream stream) {
    stream.set_nodelay(true);
    std::array<std::byte, 1> byte;
    while (co_await stream.read_some(byte) != 0) co_await stream.write_all(byte);
}

weft::task<> accept_one(weft::net::tcp_listener& listener) {
    co_await echo_bytes(co_await listener.accept());
}

/// Answers one byte.
weft::task<> echo_one(weft::net::tcp_stream stream, std::atomic<pid_t>& parked_on) {
    stream.set_nodelay(true);
    std::array<std::byte, 1> byte;
    parked_on = ::gettid();
    co_await stream.read_exact(byte);
    co_await stream.write_all(byte);
}

weft::task<> chain(const std::atomic<bool>& over, std::atomic<std::size_t>& alive) {
    if (over.load(std::memory_order_relaxed)) {
        alive.fetch_sub(1);
    } else {
        weft::co_spawn(chain(over, alive)).detach();
    }
    co_return;
}

}  // namespace

weft::task<> hog_echo(samples& found, unsigned rounds) {
    std::atomic<bool> over = false;
    auto listener = listen_on_loopback();
    auto server = weft::co_spawn(accept_one(listener));
    auto client = co_await weft::net::tcp_stream::connect(listener.local_endpoint());
    client.set_nodelay(true);
    std::vector<weft::join_handle<void>> hogs;
    for (std::size_t i = 0; i < 2 * processors(); ++i) hogs.push_back(weft::co_spawn(hog(over)));
    std::array<std::byte, 1> byte{};
    for (unsigned i = 0; i < rounds; ++i) {
        const auto begin = clock::now();
        co_await client.write_all(byte);
        co_await client.read_exact(byte);
        found.add(clock::now() - begin);
    }
    over = true;
    for (auto& each : hogs) co_await std::move(each);
    client.shutdown_write();
    co_await std::move(server);
}

// Each round has a connection of its own, since one whose reader has been woken twice on another
// worker moves there. The byte comes at any time of a step; where the reader parked elsewhere the
// round says nothing, and is made again.
weft::task<> busy_socket(samples& found, unsigned rounds) {
    auto listener = listen_on_loopback();
    const std::uint16_t port = listener.local_endpoint().port();
    unsigned attempts = rounds * attempts_per_round;
    while (found.count() < rounds && attempts-- != 0) {
        const outside_end end(port);
        std::atomic<pid_t> parked_on = 0;
        auto server = weft::co_spawn(echo_one(co_await listener.accept(), parked_on));
        const bool here = co_await parked_here(parked_on);
        std::atomic<bool> answered = false;
        std::thread client([&, pause = found.count() % 10 * 500us] {
            std::this_thread::sleep_for(pause);
            const auto begin = clock::now();
            end.write_byte();
            end.read_byte();
            if (here) found.add(clock::now() - begin);
            answered = true;
        });
        while (!answered.load()) {
            spin(5ms);
            co_await weft::yield();
        }
        client.join();
        co_await std::move(server);
    }
}

weft::task<> spawn_chain(samples& found, unsigned rounds) {
    std::atomic<bool> over = false;
    std::atomic<std::size_t> alive = processors();
    for (std::size_t i = 0; i < processors(); ++i) weft::co_spawn(chain(over, alive)).detach();
    for (unsigned i = 0; i < rounds; ++i) {
        const auto begin = clock::now();
        co_await weft::yield();
        found.add(clock::now() - begin);
    }
    over = true;
    while (alive.load() != 0) co_await weft::yield();
}

}  // namespace latency
