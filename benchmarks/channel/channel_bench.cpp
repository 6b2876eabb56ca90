// SPDX-License-Identifier: MIT
//
// What it costs to hand values from task to task, and to share a mutex.
//
//     channel_bench --case=NAME [--minimum-ms=N] [--operations=N]
//
// prints one line of JSON; ../steps.hpp says more. channel.go does the same with goroutines.
#include <weft/channel.hpp>
#include <weft/mutex.hpp>
#include <weft/select.hpp>
#include <weft/spawn.hpp>
#include <weft/task.hpp>

#include "../steps.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace {

using values = weft::channel<std::uint64_t>;

constexpr std::size_t room = 128;

weft::task<> answer(values& from, values& to) {
    while (auto value = co_await from.recv()) co_await to.send(std::uint64_t(*value));
    to.close();
}

/// One operation: a value to another task and back, through channels without room.
weft::task<> ping_pong(std::uint64_t operations) {
    values there, back;
    auto other = weft::co_spawn(answer(there, back));
    for (std::uint64_t i = 0; i < operations; ++i) {
        co_await there.send(std::uint64_t(i));
        co_await back.recv();
    }
    there.close();
    co_await std::move(other);
}

weft::task<> send_many(values& to, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) co_await to.send(std::uint64_t(i));
}

weft::task<> receive_all(values& from) {
    while (co_await from.recv()) {}
}

weft::task<> buffered(std::uint64_t operations, std::uint64_t tasks) {
    values between(room);
    std::vector<weft::join_handle<void>> senders, receivers;
    for (std::uint64_t i = 0; i < tasks; ++i) {
        senders.push_back(weft::co_spawn(send_many(between, operations / tasks)));
        receivers.push_back(weft::co_spawn(receive_all(between)));
    }
    for (auto& each : senders) co_await std::move(each);
    between.close();
    for (auto& each : receivers) co_await std::move(each);
}

/// One operation: a value through a channel with room for 128, from one task to another.
weft::task<> buffered_1_1(std::uint64_t operations) {
    return buffered(operations, 1);
}

/// The same from five tasks to five.
weft::task<> buffered_5_5(std::uint64_t operations) {
    return buffered(operations, 5);
}

weft::task<> send_in_turn(values& one, values& two, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; i += 2) {
        co_await one.send(std::uint64_t(i));
        co_await two.send(std::uint64_t(i + 1));
    }
}

/// One operation: a select over two channels without room receives a value, which comes from the
/// one and the other in turn.
weft::task<> select_2(std::uint64_t operations) {
    values one, two;
    auto sender = weft::co_spawn(send_in_turn(one, two, operations));
    for (std::uint64_t i = 0; i < operations; ++i) co_await weft::select(one.recv(), two.recv());
    co_await std::move(sender);
}

weft::task<> count_up(weft::mutex& guard, std::uint64_t& counter, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
        const auto held = co_await guard.scoped_lock();
        ++counter;
    }
}

/// One operation: one of a hundred tasks locks a mutex that they share, counts, and unlocks.
weft::task<> mutex_100(std::uint64_t operations) {
    constexpr std::uint64_t tasks = 100;
    weft::mutex guard;
    std::uint64_t counter = 0;
    std::vector<weft::join_handle<void>> counting;
    for (std::uint64_t i = 0; i < tasks; ++i) {
        counting.push_back(weft::co_spawn(count_up(guard, counter, operations / tasks)));
    }
    for (auto& each : counting) co_await std::move(each);
}

constexpr benchmark::named_case cases[] = {
    {"ping_pong", ping_pong}, {"buffered_1_1", buffered_1_1}, {"buffered_5_5", buffered_5_5},
    {"select_2", select_2},   {"mutex_100", mutex_100},
};

}  // namespace

int main(int argc, char** argv) {
    return benchmark::run_steps(argc, argv, "channel_bench", cases);
}
