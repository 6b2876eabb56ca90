// SPDX-License-Identifier: MIT
#include "connection.hpp"
#include "expirer.hpp"
#include "information.hpp"
#include "options.hpp"
#include "signal_watch.hpp"
#include "statistics.hpp"
#include "store.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>
#include <stop_token>
#include <string>
#include <utility>

#include <sys/resource.h>

#include <weft/net/tcp.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/task.hpp>

namespace {

std::array<std::uint64_t, 2> random_seed() {
    std::random_device source;
    const auto number = [&source] { return std::uint64_t{source()} << 32 | source(); };
    return {number(), number()};
}

/// Each client takes a descriptor, and the usual soft limit of 1024 is there for programs that use
/// select(). If it cannot be raised, accept says so when the time comes.
void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// What CONFIG GET tells; clients ask for some of these before they start.
void describe_settings(const kv::server_options& options, kv::server_information& information) {
    information.settings = {
        {"appendonly", "no"},
        {"bind", options.host.to_string()},
        {"client-query-buffer-limit", std::to_string(options.limits.request)},
        {"databases", "1"},
        {"maxclients", std::to_string(options.max_clients)},
        {"maxmemory", "0"},
        {"proto-max-bulk-len", std::to_string(options.limits.bulk)},
        {"save", ""},
        {"timeout", "0"},
    };
}

/// Serves until `stop` is requested, then says what was done. Clients that are still connected are
/// served until the runtime has ended, longer than this frame lives, so what they use is owned by
/// main().
weft::task<> serve(const kv::server_options& options, kv::server_context& server,
                   kv::expirer& expiry, std::stop_token stop) {
    // A client whose machine is gone without a word is found out and closed in the end.
    const weft::net::keep_alive_options keep_alive{.idle = std::chrono::minutes(5)};
    auto listener = weft::net::tcp_listener::bind(weft::net::endpoint(options.host, options.port),
                                                  {.keep_alive = keep_alive});
    std::printf("listening on %s\n", listener.local_endpoint().to_string().c_str());
    std::fflush(stdout);

    weft::spawn_options accepting{.name = "accept", .stop_token = std::move(stop)};
    co_await weft::co_spawn(kv::accept_clients(listener, server), accepting);

    co_await listener.close();
    co_await expiry.stop();
    std::fputs(kv::final_report(server.information).c_str(), stdout);
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    int exit_status = 0;
    const auto options = kv::parse_options(argc, argv, exit_status);
    if (!options) return exit_status;
    raise_descriptor_limit();
    try {
        kv::store data(options->shards, random_seed());
        kv::expirer expiry(data);
        kv::server_information information{
            .counters = {},
            .input_memory = kv::memory_budget(options->max_input_memory),
            .settings = {},
            .report_runtime = kv::write_runtime_information,
            .started = kv::current_time(),
        };
        describe_settings(*options, information);
        kv::server_context server{data, information, options->limits, options->max_clients};
        // Blocks the signals, which the threads of the runtime inherit.
        kv::signal_watch signals;
        weft::run(serve(*options, server, expiry, signals.stop_token()),
                  weft::runtime_options{.processors = options->processors});
    } catch (const std::exception& error) {
        std::fprintf(stderr, "kv_server: %s\n", error.what());
        return 1;
    }
    return 0;
}
