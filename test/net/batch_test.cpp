// SPDX-License-Identifier: MIT

// What a worker does with a batch of ready sockets: it repeats the operations of all of them before
// it resumes the first task, so that each finds in the caches what the one before has left there
// (worker_thread::repeat_operations).

#include "support/catch.hpp"
#include "support/network.hpp"

#include <weft/weft.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <vector>

using weft::detail::kernel_system_calls;
using weft::detail::system_calls;
using weft::test::on_each_backend;
using weft::test::replaced_calls;

namespace {

constexpr std::size_t streams = 4;

/// What happened: 's' for a task that is about to read, 'w' for a receive that has to wait, 'r' for
/// one that got something, 't' for a task that goes on. One worker writes it.
std::string events;

system_calls noting_receives() {
    system_calls table = kernel_system_calls();
    table.recv = [](int fd, void* buffer, std::size_t size, int flags) {
        const ssize_t result = kernel_system_calls().recv(fd, buffer, size, flags);
        events += result > 0 ? 'r' : 'w';
        return result;
    };
    return table;
}

weft::task<> read_one(weft::net::tcp_stream& from) {
    std::array<std::byte, 1> buffer;  // Filled, so that the next read asks before it waits.
    events += 's';
    const std::size_t size = co_await from.read_some(buffer);
    events += 't';
    CHECK(size == 1);
}

/// One byte for each of them while all wait. Gives what happened then.
weft::task<std::string> one_round(std::vector<weft::test::stream_pair>& pairs) {
    events.clear();
    std::vector<weft::join_handle<void>> readers;
    for (auto& each : pairs) readers.push_back(weft::co_spawn(read_one(each.server)));
    const auto begun = [] { return std::ranges::count(events, 's'); };
    while (begun() < std::ssize(pairs)) co_await weft::yield();
    events.clear();
    const std::array<std::byte, 1> byte{};
    for (auto& each : pairs) co_await each.client.write_all(byte);
    for (auto& each : readers) co_await std::move(each);
    co_return events;
}

/// Where the system is slow to deliver some of the bytes there is more than one batch; so a round
/// may be tried again.
weft::task<> read_in_batches() {
    std::vector<weft::test::stream_pair> pairs;
    while (pairs.size() < streams) pairs.push_back(co_await weft::test::connected_pair());
    const std::string expected = std::string(streams, 'r') + std::string(streams, 't');
    std::string happened;
    for (int i = 0; i < 100 && happened != expected; ++i) happened = co_await one_round(pairs);
    CHECK(happened == expected);
}

}  // namespace

TEST_CASE("all sockets of a batch are read before the first of their tasks goes on", "[net]") {
    const replaced_calls replaced(noting_receives());
    on_each_backend([] { return read_in_batches(); }, 1);
}
