// SPDX-License-Identifier: MIT
//
// The load generator of the echo benchmark. It drives one server or several; of several each gets
// a short slice in turn, so that whatever else the machine does meanwhile hits all of them alike.
// For each slice it reads the CPU clock of the server's process. The figures of a server are the
// medians over its slices; the latencies are counted over all of them.
//
//     client [--connections=N] [--slices=N] [--slice-ms=N] [--warmup-ms=N] NAME:PORT:PID...
//
// prints one line of JSON for each server, in the order given.
#include "load.hpp"
#include "observed_process.hpp"
#include "support.hpp"

#include <algorithm>
#include <cinttypes>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr std::uint64_t nanoseconds_per_millisecond = 1'000'000;

/// What one slice cost, for each request.
struct slice {
    double server_cpu_ns = 0;
    double client_cpu_ns = 0;
    double elapsed_ns = 0;
    double server_waits = 0;
};

double median(std::vector<slice> slices, double slice::* member) {
    const auto middle = slices.begin() + static_cast<std::ptrdiff_t>(slices.size() / 2);
    std::nth_element(slices.begin(), middle, slices.end(),
                     [member](const auto& a, const auto& b) { return a.*member < b.*member; });
    return (*middle).*member;
}

class driven_server {
public:
    driven_server(std::string name, std::uint16_t port, pid_t pid, std::size_t connections)
        : name_(std::move(name)), process_(pid), load_(port, connections) {}

    void warm_up(std::uint64_t duration) {
        load_.run_slice(duration);
        load_.forget_latencies();
    }

    /// The costly read stands outside the interval: first at its start, last at its end.
    void measure(std::uint64_t duration) {
        const std::uint64_t waits = process_.waits();
        const std::uint64_t client_cpu = echo::read_clock(CLOCK_PROCESS_CPUTIME_ID);
        const std::uint64_t server_cpu = process_.cpu_time();
        const std::uint64_t start = echo::read_clock(CLOCK_MONOTONIC);
        const auto requests = static_cast<double>(load_.run_slice(duration));
        const auto each = [requests](std::uint64_t from, std::uint64_t to) {
            return static_cast<double>(to - from) / requests;
        };
        slice taken;
        taken.elapsed_ns = each(start, echo::read_clock(CLOCK_MONOTONIC));
        taken.server_cpu_ns = each(server_cpu, process_.cpu_time());
        taken.client_cpu_ns = each(client_cpu, echo::read_clock(CLOCK_PROCESS_CPUTIME_ID));
        taken.server_waits = each(waits, process_.waits());
        slices_.push_back(taken);
        requests_ += requests;
    }

    void print() const {
        std::printf(
            "{\"name\": \"%s\", \"requests\": %.0f, \"cpu_us_per_req\": %.4f, "
            "\"client_cpu_us_per_req\": %.4f, \"req_per_s\": %.1f, "
            "\"waits_per_req\": %.4f, \"p50_us\": %.2f, \"p99_us\": %.2f}\n",
            name_.c_str(), requests_, median(slices_, &slice::server_cpu_ns) / 1e3,
            median(slices_, &slice::client_cpu_ns) / 1e3, 1e9 / median(slices_, &slice::elapsed_ns),
            median(slices_, &slice::server_waits), quantile_us(0.50), quantile_us(0.99));
    }

private:
    double quantile_us(double fraction) const {
        return static_cast<double>(load_.latencies().quantile(fraction)) / 1e3;
    }

    std::string name_;
    echo::observed_process process_;
    echo::load load_;
    std::vector<slice> slices_;
    double requests_ = 0;
};

/// One argument of the form NAME:PORT:PID.
std::unique_ptr<driven_server> server_of(std::string_view argument, std::size_t connections) {
    const std::size_t first = argument.find(':');
    const std::size_t second = argument.find(':', first + 1);
    std::uint16_t port = 0;
    pid_t pid = 0;
    if (second == std::string_view::npos ||
        !echo::parse_number(argument.substr(first + 1, second - first - 1), port) ||
        !echo::parse_number(argument.substr(second + 1), pid))
        echo::die_because("a server is named NAME:PORT:PID");
    return std::make_unique<driven_server>(std::string(argument.substr(0, first)), port, pid,
                                           connections);
}

}  // namespace

int main(int argc, char** argv) {
    const auto option = [&](std::string_view name, std::uint64_t fallback) {
        return echo::number_option(argc, argv, name, fallback);
    };
    const std::size_t connections = option("--connections", 1);
    const std::uint64_t slices = option("--slices", 20);
    const std::uint64_t slice_time = option("--slice-ms", 50) * nanoseconds_per_millisecond;
    const std::uint64_t warm_up_time = option("--warmup-ms", 200) * nanoseconds_per_millisecond;

    std::vector<std::unique_ptr<driven_server>> servers;
    for (int i = 1; i < argc; ++i)
        if (argv[i][0] != '-') servers.push_back(server_of(argv[i], connections));
    if (servers.empty() || slices == 0 || connections == 0) {
        echo::die_because(
            "usage: client [--connections=N] [--slices=N] [--slice-ms=N] "
            "[--warmup-ms=N] NAME:PORT:PID...");
    }
    for (const auto& server : servers) server->warm_up(warm_up_time);
    for (std::uint64_t i = 0; i < slices; ++i)
        for (const auto& server : servers) server->measure(slice_time);
    for (const auto& server : servers) server->print();
}
