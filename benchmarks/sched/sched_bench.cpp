// SPDX-License-Identifier: MIT
//
// What the scheduler's basic steps cost.
//
//     sched_bench --case=NAME [--minimum-ms=N] [--operations=N]
//
// prints one line of JSON; ../steps.hpp says more.
#include <weft/spawn.hpp>
#include <weft/task.hpp>
#include <weft/yield.hpp>

#include "../steps.hpp"
#include "baton.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace {

constexpr std::uint64_t crowd = 1000;

weft::task<> nothing() {
    co_return;
}

/// One operation: spawn a child, await its handle.
weft::task<> spawn_join_one(std::uint64_t operations) {
    for (std::uint64_t i = 0; i < operations; ++i) co_await weft::co_spawn(nothing());
}

/// One operation: one of a thousand children, all spawned before the first is awaited.
weft::task<> spawn_join_batch(std::uint64_t operations) {
    std::vector<weft::join_handle<void>> children;
    children.reserve(crowd);
    for (std::uint64_t i = 0; i < operations; i += crowd) {
        for (std::uint64_t k = 0; k < crowd; ++k) children.push_back(weft::co_spawn(nothing()));
        for (auto& child : children) co_await std::move(child);
        children.clear();
    }
}

/// One operation: the only task yields.
weft::task<> yield_1(std::uint64_t operations) {
    for (std::uint64_t i = 0; i < operations; ++i) co_await weft::yield();
}

/// One operation: one of a thousand tasks yields to the next.
weft::task<> yield_1000(std::uint64_t operations) {
    std::vector<weft::join_handle<void>> yielders;
    yielders.reserve(crowd);
    for (std::uint64_t i = 0; i < crowd; ++i)
        yielders.push_back(weft::co_spawn(yield_1(operations / crowd)));
    for (auto& yielder : yielders) co_await std::move(yielder);
}

weft::task<> serve(benchmark::baton& mine, benchmark::baton& other, std::uint64_t rounds) {
    for (std::uint64_t i = 0; i < rounds; ++i) {
        other.post();
        co_await mine.wait();
    }
}

weft::task<> answer(benchmark::baton& mine, benchmark::baton& other, std::uint64_t rounds) {
    for (std::uint64_t i = 0; i < rounds; ++i) {
        co_await mine.wait();
        other.post();
    }
}

/// One operation: one of two tasks wakes the other and waits to be woken.
weft::task<> ping_pong(std::uint64_t operations) {
    std::array<benchmark::baton, 2> sides;
    auto first = weft::co_spawn(serve(sides[0], sides[1], operations / 2));
    auto second = weft::co_spawn(answer(sides[1], sides[0], operations / 2));
    co_await std::move(first);
    co_await std::move(second);
}

constexpr benchmark::named_case cases[] = {
    {"spawn_join_one", spawn_join_one},
    {"spawn_join_batch", spawn_join_batch},
    {"yield_1", yield_1},
    {"yield_1000", yield_1000},
    {"ping_pong", ping_pong},
};

}  // namespace

int main(int argc, char** argv) {
    return benchmark::run_steps(argc, argv, "sched_bench", cases);
}
