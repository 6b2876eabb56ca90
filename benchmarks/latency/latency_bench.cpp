// SPDX-License-Identifier: MIT
//
// How long something that is ready waits.
//
//     latency_bench --case=NAME [--rounds=N]
//
// prints one line of JSON for each runtime that was measured: weft, and in the case of the ticker a
// bare thread beside it. The number of processors comes from WEFT_MAXPROCS.
#include "cases.hpp"

#include "../echo/support.hpp"

#include <weft/runtime.hpp>

#include <string>
#include <string_view>
#include <thread>

namespace {

struct named_case {
    std::string_view name;
    weft::task<> (*run)(latency::samples& found, unsigned rounds);
    unsigned rounds;
};

constexpr named_case cases[] = {
    {"hog_echo", latency::hog_echo, 500},
    {"busy_socket", latency::busy_socket, 300},
    {"spawn_chain", latency::spawn_chain, 500},
    {"stuck_ready", latency::stuck_ready, 50},
    {"stuck_timer", latency::stuck_timer, 50},
    {"stuck_socket", latency::stuck_socket, 50},
    {"stuck_ready_all_busy", latency::stuck_ready_all_busy, 50},
    {"stuck_timer_all_busy", latency::stuck_timer_all_busy, 50},
    {"stuck_socket_all_busy", latency::stuck_socket_all_busy, 50},
    {"sleep_50us", latency::sleep_50us, 5000},
    {"blocking_ticker", latency::blocking_ticker, 3000},
};

const named_case* find_case(std::string_view name) {
    for (const named_case& known : cases)
        if (known.name == name) return &known;
    return nullptr;
}

std::string_view chosen_name(int argc, char** argv) {
    constexpr std::string_view option = "--case=";
    for (int i = 1; i < argc; ++i) {
        const std::string_view argument = argv[i];
        if (argument.starts_with(option)) return argument.substr(option.size());
    }
    return {};
}

}  // namespace

int main(int argc, char** argv) {
    const named_case* chosen = find_case(chosen_name(argc, argv));
    if (chosen == nullptr) {
        std::fputs("usage: latency_bench --case=NAME [--rounds=N]\ncases:", stderr);
        for (const named_case& known : cases)
            std::fprintf(stderr, " %s", std::string(known.name).c_str());
        std::fputs("\n", stderr);
        return 2;
    }
    const auto rounds =
        static_cast<unsigned>(echo::number_option(argc, argv, "--rounds", chosen->rounds));
    latency::samples beside;
    std::thread bare;
    if (chosen->run == latency::blocking_ticker)
        bare = std::thread([&] { latency::thread_ticker(beside, rounds); });
    latency::samples found;
    weft::run(chosen->run(found, rounds));
    if (bare.joinable()) {
        bare.join();
        beside.print("thread");
    }
    found.print("weft");
    return 0;
}
