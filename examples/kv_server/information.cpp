// SPDX-License-Identifier: MIT
#include "information.hpp"

#include <array>
#include <chrono>
#include <cstdio>

#include <sys/resource.h>
#include <unistd.h>

namespace kv {

namespace {

std::uint64_t load(const std::atomic<std::uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
}

std::string seconds_text(const timeval& time) {
    std::array<char, 48> text;
    const int size =
        std::snprintf(text.data(), text.size(), "%lld.%06lld", static_cast<long long>(time.tv_sec),
                      static_cast<long long>(time.tv_usec));
    return {text.data(), static_cast<std::size_t>(size)};
}

void describe_process(const server_information& server, time_point now, information_writer& out) {
    out.heading("Server");
    // Clients read the version to learn which forms of commands they may use.
    out.line("redis_version", "7.0.0");
    out.line("server_name", "weft_kv");
    out.line("process_id", static_cast<std::uint64_t>(::getpid()));
    const auto uptime = std::chrono::floor<std::chrono::seconds>(now - server.started);
    out.line("uptime_in_seconds", static_cast<std::uint64_t>(uptime.count()));
}

void describe_clients(const server_information& server, information_writer& out) {
    out.heading("Clients");
    out.line("connected_clients", load(server.counters.connections_open));
}

void describe_memory(const server_information& server, const rusage& usage,
                     information_writer& out) {
    out.heading("Memory");
    out.line("used_memory_peak_rss", static_cast<std::uint64_t>(usage.ru_maxrss) * 1024);
    out.line("client_buffer_bytes", server.input_memory.used());
    out.line("client_buffer_limit", server.input_memory.limit());
}

void describe_statistics(const server_information& server, const store& data,
                         information_writer& out) {
    out.heading("Stats");
    out.line("total_connections_received", load(server.counters.connections_received));
    out.line("total_commands_processed", load(server.counters.commands_processed));
    out.line("rejected_connections", load(server.counters.connections_rejected));
    out.line("protocol_errors", load(server.counters.protocol_errors));
    out.line("expired_keys", data.expired());
}

void describe_processor_time(const rusage& usage, information_writer& out) {
    out.heading("CPU");
    out.line("used_cpu_sys", seconds_text(usage.ru_stime));
    out.line("used_cpu_user", seconds_text(usage.ru_utime));
}

void describe_keys(const store& data, information_writer& out) {
    out.heading("Keyspace");
    const std::size_t keys = data.size();
    if (keys == 0) return;
    out.line("db0", "keys=" + std::to_string(keys) + ",expires=" + std::to_string(data.expiring()) +
                        ",avg_ttl=0");
}

}  // namespace

void information_writer::heading(std::string_view name) {
    if (!text_.empty()) text_ += "\r\n";
    text_ += "# ";
    text_ += name;
    text_ += "\r\n";
}

void information_writer::line(std::string_view name, std::string_view content) {
    text_ += name;
    text_ += ':';
    text_ += content;
    text_ += "\r\n";
}

void information_writer::line(std::string_view name, std::uint64_t number) {
    line(name, std::to_string(number));
}

std::string describe_server(const server_information& server, const store& data, time_point now,
                            const std::function<bool(std::string_view)>& wants) {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    information_writer out;
    if (wants("server")) describe_process(server, now, out);
    if (wants("clients")) describe_clients(server, out);
    if (wants("memory")) describe_memory(server, usage, out);
    if (wants("stats")) describe_statistics(server, data, out);
    if (wants("cpu")) describe_processor_time(usage, out);
    if (wants("keyspace")) describe_keys(data, out);
    if (wants("weft") && server.report_runtime) {
        out.heading("Weft");
        server.report_runtime(out);
    }
    return out.take();
}

}  // namespace kv
