// SPDX-License-Identifier: MIT
//
// What programs have in common that measure what small steps cost, each by many of them:
//
//     PROGRAM --case=NAME [--minimum-ms=N] [--operations=N]
//
// prints one line of JSON. The number of processors comes from WEFT_MAXPROCS. A case first doubles
// its number of operations until it takes the minimum, which also warms everything up, and then
// measures once; with --operations it runs that many once, as a counter of instructions wants it.
#pragma once

#include <weft/runtime.hpp>
#include <weft/statistics.hpp>
#include <weft/task.hpp>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <span>
#include <string>
#include <string_view>

namespace benchmark {

struct named_case {
    std::string_view name;
    weft::task<> (*run)(std::uint64_t operations);
};

struct measurement {
    std::uint64_t operations = 0;
    double nanoseconds = 0;
    double cpu_nanoseconds = 0;  // Of all threads.
    std::uint64_t wakes = 0;
};

inline double cpu_time() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

inline std::uint64_t total_wakes() {
    std::uint64_t sum = 0;
    for (const auto& processor : weft::this_runtime::statistics().processors)
        sum += processor.wakes;
    return sum;
}

inline weft::task<measurement> measure_once(const named_case& chosen, std::uint64_t operations) {
    const std::uint64_t wakes = total_wakes();
    const double cpu = cpu_time();
    const auto start = std::chrono::steady_clock::now();
    co_await chosen.run(operations);
    const std::chrono::duration<double, std::nano> elapsed =
        std::chrono::steady_clock::now() - start;
    co_return measurement{operations, elapsed.count(), cpu_time() - cpu, total_wakes() - wakes};
}

inline weft::task<measurement> measure(const named_case& chosen, double minimum_ns) {
    // A multiple of all crowds, so that every operation of a case is a whole one.
    std::uint64_t operations = 1000;
    while ((co_await measure_once(chosen, operations)).nanoseconds < minimum_ns) operations *= 2;
    co_return co_await measure_once(chosen, operations);
}

[[noreturn]] inline void refuse(const char* program, std::span<const named_case> cases) {
    std::fprintf(stderr, "usage: %s --case=NAME [--minimum-ms=N] [--operations=N]\ncases:",
                 program);
    for (const named_case& known : cases)
        std::fprintf(stderr, " %s", std::string(known.name).c_str());
    std::fputs("\n", stderr);
    std::exit(2);
}

/// The whole main of such a program.
inline int run_steps(int argc, char** argv, const char* program,
                     std::span<const named_case> cases) {
    const named_case* chosen = nullptr;
    std::uint64_t minimum_ms = 200;
    std::uint64_t operations = 0;
    for (int i = 1; i < argc; ++i) {
        const std::string_view argument = argv[i];
        const std::string_view value = argument.substr(argument.find('=') + 1);
        std::uint64_t number = 0;
        const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
        const bool is_number =
            parsed.ec == std::errc{} && parsed.ptr == value.data() + value.size();
        if (argument.starts_with("--case=")) {
            for (const named_case& known : cases)
                if (known.name == value) chosen = &known;
        } else if (argument.starts_with("--minimum-ms=") && is_number) {
            minimum_ms = number;
        } else if (argument.starts_with("--operations=") && is_number) {
            operations = number;
        } else {
            refuse(program, cases);
        }
    }
    if (chosen == nullptr) refuse(program, cases);
    const measurement taken =
        operations != 0 ? weft::run(measure_once(*chosen, operations))
                        : weft::run(measure(*chosen, static_cast<double>(minimum_ms) * 1e6));
    const auto count = static_cast<double>(taken.operations);
    std::printf(
        "{\"case\": \"%s\", \"operations\": %.0f, \"ns_per_op\": %.3f, "
        "\"cpu_ns_per_op\": %.3f, \"wakes_per_op\": %.6f}\n",
        std::string(chosen->name).c_str(), count, taken.nanoseconds / count,
        taken.cpu_nanoseconds / count, static_cast<double>(taken.wakes) / count);
    return 0;
}

}  // namespace benchmark
