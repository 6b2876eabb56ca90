// SPDX-License-Identifier: MIT
#pragma once

#include <weft/net/address.hpp>

#include <chrono>
#include <optional>

namespace weft::net {

/// When the system asks a silent peer whether it is still there, and when it gives it up: after
/// `idle` without data, then every `interval`, `count` times. The connection then fails with
/// std::errc::timed_out. Durations are whole seconds, at least one.
struct keep_alive_options {
    std::chrono::seconds idle{15};
    std::chrono::seconds interval{15};
    int count = 9;

    bool operator==(const keep_alive_options&) const = default;
};

/// How tcp_listener::bind makes its socket. What is said about streams holds for every stream that
/// the listener accepts.
struct listen_options {
    /// Connections that the system keeps until they are accepted. The system lowers it to its own
    /// limit (net.core.somaxconn).
    int backlog = 4096;
    /// Bind although connections of an earlier listener at this address are still ending.
    bool reuse_address = true;
    /// Let several listeners share the address; the system spreads connections over them.
    bool reuse_port = false;
    /// A listener at an IPv6 address takes no IPv4 connections. Without it one at `::` takes both.
    bool v6_only = false;
    /// Streams send small writes at once instead of gathering them (Nagle's algorithm is off).
    bool nodelay = true;
    /// Streams check silent peers.
    std::optional<keep_alive_options> keep_alive = std::nullopt;
    /// Bytes that the system keeps for a stream; it doubles the numbers for its own needs and has
    /// limits (net.core.rmem_max, wmem_max). Without a number the system adapts them as it goes.
    std::optional<int> receive_buffer_size = std::nullopt;
    std::optional<int> send_buffer_size = std::nullopt;
};

/// How tcp_stream::connect makes its socket; as in listen_options.
struct connect_options {
    /// Where the connection comes from. Without it the system chooses address and port.
    std::optional<endpoint> local = std::nullopt;
    bool nodelay = true;
    std::optional<keep_alive_options> keep_alive = std::nullopt;
    std::optional<int> receive_buffer_size = std::nullopt;
    std::optional<int> send_buffer_size = std::nullopt;
};

}  // namespace weft::net
