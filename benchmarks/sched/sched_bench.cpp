// SPDX-License-Identifier: MIT
//
// What the scheduler's basic steps cost.
//
//     sched_bench --case=NAME [--minimum-ms=N] [--operations=N]
//
// prints one line of JSON. The number of processors comes from WEFT_MAXPROCS. A case first doubles
// its number of operations until it takes the minimum, which also warms everything up, and then
// measures once; with --operations it runs that many once, as a counter of instructions wants it.
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/task.hpp>
#include <weft/yield.hpp>

#include "baton.hpp"

#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
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

struct named_case {
    std::string_view name;
    weft::task<> (*run)(std::uint64_t operations);
};

constexpr named_case cases[] = {
    {"spawn_join_one", spawn_join_one},
    {"spawn_join_batch", spawn_join_batch},
    {"yield_1", yield_1},
    {"yield_1000", yield_1000},
    {"ping_pong", ping_pong},
};

struct measurement {
    std::uint64_t operations = 0;
    double nanoseconds = 0;
    double cpu_nanoseconds = 0;  // Of all threads.
    std::uint64_t wakes = 0;
};

double cpu_time() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

std::uint64_t total_wakes() {
    std::uint64_t sum = 0;
    for (const auto& processor : weft::this_runtime::statistics().processors)
        sum += processor.wakes;
    return sum;
}

weft::task<measurement> measure_once(const named_case& chosen, std::uint64_t operations) {
    const std::uint64_t wakes = total_wakes();
    const double cpu = cpu_time();
    const auto start = std::chrono::steady_clock::now();
    co_await chosen.run(operations);
    const std::chrono::duration<double, std::nano> elapsed =
        std::chrono::steady_clock::now() - start;
    co_return measurement{operations, elapsed.count(), cpu_time() - cpu, total_wakes() - wakes};
}

weft::task<measurement> measure(const named_case& chosen, double minimum_ns) {
    // A multiple of the crowd, so that every operation of a case is a whole one.
    std::uint64_t operations = crowd;
    while ((co_await measure_once(chosen, operations)).nanoseconds < minimum_ns) operations *= 2;
    co_return co_await measure_once(chosen, operations);
}

const named_case* find_case(std::string_view name) {
    for (const named_case& known : cases)
        if (known.name == name) return &known;
    return nullptr;
}

[[noreturn]] void refuse() {
    std::fputs("usage: sched_bench --case=NAME [--minimum-ms=N] [--operations=N]\ncases:", stderr);
    for (const named_case& known : cases)
        std::fprintf(stderr, " %s", std::string(known.name).c_str());
    std::fputs("\n", stderr);
    std::exit(2);
}

std::uint64_t number(std::string_view text) {
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    if (parsed.ec != std::errc{} || parsed.ptr != end) refuse();
    return value;
}

}  // namespace

int main(int argc, char** argv) {
    const named_case* chosen = nullptr;
    std::uint64_t minimum_ms = 200;
    std::uint64_t operations = 0;
    for (int i = 1; i < argc; ++i) {
        const std::string_view argument = argv[i];
        const std::string_view value = argument.substr(argument.find('=') + 1);
        if (argument.starts_with("--case="))
            chosen = find_case(value);
        else if (argument.starts_with("--minimum-ms="))
            minimum_ms = number(value);
        else if (argument.starts_with("--operations="))
            operations = number(value);
        else
            refuse();
    }
    if (chosen == nullptr) refuse();
    const measurement taken =
        operations != 0 ? weft::run(measure_once(*chosen, operations))
                        : weft::run(measure(*chosen, static_cast<double>(minimum_ms) * 1e6));
    const auto count = static_cast<double>(taken.operations);
    std::printf(
        "{\"case\": \"%s\", \"operations\": %.0f, \"ns_per_op\": %.3f, "
        "\"cpu_ns_per_op\": %.3f, \"wakes_per_op\": %.6f}\n",
        std::string(chosen->name).c_str(), count, taken.nanoseconds / count,
        taken.cpu_nanoseconds / count, static_cast<double>(taken.wakes) / count);
}
