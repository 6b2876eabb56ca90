// SPDX-License-Identifier: MIT
#pragma once

#include "information.hpp"
#include "resp_parser.hpp"
#include "store.hpp"

#include <atomic>
#include <cstddef>
#include <utility>

#include <weft/net/tcp.hpp>
#include <weft/task.hpp>

namespace kv {

/// What all connections share; outlives them.
struct server_context {
    store& data;
    server_information& information;
    parser_limits limits;
    std::size_t max_clients;
};

/// Counts a connection among the open ones as long as it lives.
class open_connection {
public:
    explicit open_connection(server_counters& counters) : counters_(&counters) {
        // A figure that guards nothing. Relaxed.
        counters.connections_open.fetch_add(1, std::memory_order_relaxed);
    }
    open_connection(open_connection&& other) noexcept
        : counters_(std::exchange(other.counters_, nullptr)) {}
    open_connection& operator=(open_connection&&) = delete;
    ~open_connection() {
        // Relaxed, as above.
        if (counters_) counters_->connections_open.fetch_sub(1, std::memory_order_relaxed);
    }

private:
    server_counters* counters_;
};

/// Serves one client until it closes the connection, asks to quit, sends what cannot be understood,
/// or the task is stopped. A client that is gone is nothing to report.
weft::task<> serve_client(weft::net::tcp_stream stream, open_connection counted,
                          server_context& server);

/// Accepts clients and starts a task for each, until the task is stopped or the listener closed;
/// then it returns. Where descriptors or memory are used up it says so once, waits from 5 ms
/// doubling to 1 s, and goes on: clients that connect meanwhile wait in the listener's queue.
weft::task<> accept_clients(weft::net::tcp_listener& listener, server_context& server);

}  // namespace kv
