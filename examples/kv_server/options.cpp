// SPDX-License-Identifier: MIT
#include "options.hpp"

#include "integer.hpp"

#include <array>
#include <cstdio>
#include <string_view>

#include <getopt.h>

namespace kv {

namespace {

constexpr const char* usage =
    R"(usage: kv_server [OPTION...]

A key-value server that speaks the Redis protocol (RESP2 and inline commands), on weft.

  --host ADDRESS           IP address to listen on (127.0.0.1); the server asks nobody for a
                           password, so think before you choose another
  --port N                 port, 0 for a free one, which the first line of the output names (6379)
  --processors N           processors to run on (all that this process may use; WEFT_MAXPROCS
                           comes before either)
  --max-clients N          connections beyond these are told so and closed (15000)
  --max-bulk BYTES         largest key or value (16777216)
  --max-request BYTES      largest request (67108864)
  --max-input-memory BYTES for the unfinished requests of all clients together (536870912)
  --shards N               independently locked parts of the store (64)
  --help                   this text

SIGINT and SIGTERM end the server; it then prints what each processor has done. A second one ends
it at once.
)";

enum option_id {
    option_host = 256,
    option_port,
    option_processors,
    option_max_clients,
    option_max_bulk,
    option_max_request,
    option_max_input_memory,
    option_shards,
    option_help,
};

constexpr std::array long_options{
    option{"host", required_argument, nullptr, option_host},
    option{"port", required_argument, nullptr, option_port},
    option{"processors", required_argument, nullptr, option_processors},
    option{"max-clients", required_argument, nullptr, option_max_clients},
    option{"max-bulk", required_argument, nullptr, option_max_bulk},
    option{"max-request", required_argument, nullptr, option_max_request},
    option{"max-input-memory", required_argument, nullptr, option_max_input_memory},
    option{"shards", required_argument, nullptr, option_shards},
    option{"help", no_argument, nullptr, option_help},
    option{nullptr, 0, nullptr, 0},
};

/// Reads a number from `least` to `most` into `target`, or says what is wrong with it.
template <class Number>
bool read_number(const char* name, Number& target, std::int64_t least, std::int64_t most) {
    const auto number = parse_integer(optarg);
    if (!number || *number < least || *number > most) {
        std::fprintf(stderr, "kv_server: --%s: '%s' is not a number from %lld to %lld\n", name,
                     optarg, static_cast<long long>(least), static_cast<long long>(most));
        return false;
    }
    target = static_cast<Number>(*number);
    return true;
}

bool read_host(weft::net::ip_address& target) {
    const auto address = weft::net::ip_address::try_parse(optarg);
    if (!address) {
        std::fprintf(stderr, "kv_server: --host: '%s' is not an IP address\n", optarg);
        return false;
    }
    target = *address;
    return true;
}

bool read_option(int id, const char* name, server_options& options) {
    constexpr std::int64_t kibibyte = 1024;
    constexpr std::int64_t gibibyte = kibibyte * kibibyte * kibibyte;
    switch (id) {
    case option_host: return read_host(options.host);
    case option_port: return read_number(name, options.port, 0, 65535);
    case option_processors: return read_number(name, options.processors, 1, 1024);
    case option_max_clients: return read_number(name, options.max_clients, 1, 10'000'000);
    case option_max_bulk: return read_number(name, options.limits.bulk, 1, gibibyte);
    case option_max_request:
        return read_number(name, options.limits.request, kibibyte, 2 * gibibyte);
    case option_max_input_memory:
        return read_number(name, options.max_input_memory, kibibyte, 1024 * gibibyte);
    case option_shards: return read_number(name, options.shards, 1, 65536);
    default: return false;  // getopt_long has said what is wrong.
    }
}

}  // namespace

std::optional<server_options> parse_options(int argc, char** argv, int& exit_status) {
    server_options options;
    int index = 0;
    for (int id; (id = ::getopt_long(argc, argv, "", long_options.data(), &index)) != -1;) {
        if (id == option_help) {
            std::fputs(usage, stdout);
            exit_status = 0;
            return std::nullopt;
        }
        if (!read_option(id, long_options[static_cast<std::size_t>(index)].name, options)) {
            exit_status = 2;
            return std::nullopt;
        }
    }
    if (optind < argc) {
        std::fprintf(stderr, "kv_server: unexpected argument '%s'; see --help\n", argv[optind]);
        exit_status = 2;
        return std::nullopt;
    }
    return options;
}

}  // namespace kv
