// SPDX-License-Identifier: MIT
#include "statistics.hpp"

#include <cstddef>
#include <iterator>

#include <weft/runtime.hpp>
#include <weft/statistics.hpp>

#include <fmt/format.h>

namespace kv {

void write_runtime_information(information_writer& out) {
    const weft::runtime_statistics statistics = weft::this_runtime::statistics();
    out.line("netpoll", statistics.netpoller);
    out.line("processors", weft::this_runtime::processors());
    out.line("tasks_spawned", statistics.tasks_spawned());
    out.line("tasks_alive", statistics.tasks_alive());
    for (std::size_t i = 0; i < statistics.processors.size(); ++i) {
        const weft::processor_statistics& each = statistics.processors[i];
        out.line(fmt::format("processor_{}", i),
                 fmt::format("tasks_run={},steals={},parks={},wakes={}", each.tasks_run,
                             each.steals, each.parks, each.wakes));
    }
}

std::string final_report(const server_information& server) {
    const weft::runtime_statistics statistics = weft::this_runtime::statistics();
    std::string text =
        fmt::format("{} clients, {} commands, {} tasks spawned, on {}\n",
                    server.counters.connections_received.load(std::memory_order_relaxed),
                    server.counters.commands_processed.load(std::memory_order_relaxed),
                    statistics.tasks_spawned(), statistics.netpoller);
    fmt::format_to(std::back_inserter(text), "{:>9} {:>14} {:>12} {:>12} {:>12}\n", "processor",
                   "tasks run", "steals", "parks", "wakes");
    for (std::size_t i = 0; i < statistics.processors.size(); ++i) {
        const weft::processor_statistics& each = statistics.processors[i];
        fmt::format_to(std::back_inserter(text), "{:>9} {:>14} {:>12} {:>12} {:>12}\n", i,
                       each.tasks_run, each.steals, each.parks, each.wakes);
    }
    return text;
}

}  // namespace kv
