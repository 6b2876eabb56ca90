// SPDX-License-Identifier: MIT
#pragma once

#include "memory_budget.hpp"
#include "store.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kv {

/// Counted by all connections at once. The counters depend on nothing and nothing depends on them,
/// so each is relaxed.
struct server_counters {
    std::atomic<std::uint64_t> connections_received{0};
    std::atomic<std::uint64_t> connections_rejected{0};
    std::atomic<std::uint64_t> connections_open{0};
    std::atomic<std::uint64_t> commands_processed{0};
    std::atomic<std::uint64_t> protocol_errors{0};
};

/// The text of INFO while it is put together: lines "name:value" below headings "# Heading".
class information_writer {
public:
    void heading(std::string_view name);
    void line(std::string_view name, std::string_view content);
    void line(std::string_view name, std::uint64_t number);
    std::string take() { return std::move(text_); }

private:
    std::string text_;
};

/// What INFO and CONFIG GET tell about the server.
struct server_information {
    server_counters counters;
    memory_budget input_memory;  ///< for the requests of all clients that have not arrived whole
    std::vector<std::pair<std::string, std::string>> settings;  ///< for CONFIG GET
    std::function<void(information_writer&)> report_runtime;    ///< lines of the section "weft"
    time_point started;
};

/// The reply of INFO. `wants` tells whether a section, named in small letters, was asked for.
std::string describe_server(const server_information& server, const store& data, time_point now,
                            const std::function<bool(std::string_view)>& wants);

}  // namespace kv
