// SPDX-License-Identifier: MIT
#pragma once

#include "resp_parser.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

#include <weft/net/address.hpp>

namespace kv {

/// What the command line sets.
struct server_options {
    weft::net::ip_address host = weft::net::ip_address::loopback_v4();
    std::uint16_t port = 6379;
    unsigned processors = 0;  ///< 0: what the runtime chooses
    std::size_t max_clients = 15'000;
    std::size_t shards = 64;
    parser_limits limits;
    std::size_t max_input_memory = std::size_t{512} << 20;
};

/// Reads the command line. Returns nothing if the program is to end at once, because help was asked
/// for or an argument is wrong: that was then said, and `exit_status` is set to 0 or 2.
std::optional<server_options> parse_options(int argc, char** argv, int& exit_status);

}  // namespace kv
