// SPDX-License-Identifier: MIT
#include "connection.hpp"

#include "expirer.hpp"
#include "session.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <weft/as_result.hpp>
#include <weft/error.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

namespace kv {

namespace {

using namespace std::chrono_literals;

constexpr auto first_accept_pause = 5ms;
constexpr auto longest_accept_pause = 1s;

/// How long a client that is told of an error may take to close its side.
constexpr auto drain_time = 1s;

/// Errors that end a connection in the course of things: the client is gone, or the server ends.
bool is_ordinary_end(std::error_code code) {
    constexpr std::array ordinary{
        std::errc::connection_reset,  // Closed with bytes unread, or killed.
        std::errc::broken_pipe,       // The same, seen by a write.
        std::errc::not_connected,     // The same, seen by a half close.
        std::errc::timed_out,         // No answer to keep-alive, or no time left to drain.
        std::errc::host_unreachable,  // What the network says of a peer that is gone.
        std::errc::network_unreachable, std::errc::network_down,
        std::errc::operation_canceled,  // The server ends.
    };
    return std::ranges::any_of(ordinary, [code](std::errc each) { return code == each; });
}

void report(std::string_view what, std::string_view why) {
    std::fprintf(stderr, "kv_server: %.*s: %.*s\n", static_cast<int>(what.size()), what.data(),
                 static_cast<int>(why.size()), why.data());
}

/// Sends all replies with as few system calls as the kernel allows, and forgets them.
weft::task<> send_replies(weft::net::tcp_stream& stream, reply& replies) {
    if (replies.is_one_piece()) {
        co_await stream.write_all(std::as_bytes(std::span(replies.text())));
        replies.clear();
        co_return;
    }
    std::vector<std::string_view> pieces;
    replies.gather(pieces);
    std::vector<weft::net::const_buffer> buffers;
    for (const std::string_view piece : pieces) {
        buffers.emplace_back(std::as_bytes(std::span(piece)));
    }
    co_await stream.write_all(std::span<const weft::net::const_buffer>(buffers));
    replies.clear();
}

weft::task<> converse(weft::net::tcp_stream& stream, session& client) {
    while (!client.closing()) {
        if (const std::span<char> room = client.room(); !room.empty()) {
            const std::size_t size = co_await stream.read_some(std::as_writable_bytes(room));
            if (size == 0) co_return;
            client.received(size);
        }
        do {
            client.execute(current_time());
            if (!client.replies().empty()) co_await send_replies(stream, client.replies());
            if (client.requests_remain()) co_await weft::checkpoint();
        } while (client.requests_remain());
    }
}

/// Ends the own side and reads what the client still sends. Closing a socket with bytes unread
/// resets the connection, which can destroy the last reply before the client has read it.
weft::task<> drain(weft::net::tcp_stream& stream) {
    stream.shutdown_write();
    std::array<std::byte, 1024> unwanted;
    while (co_await stream.read_some(std::span(unwanted)) != 0) {}
}

weft::task<> refuse_client(weft::net::tcp_stream stream) {
    constexpr std::string_view message = "-ERR max number of clients reached\r\n";
    // The first bytes on a connection find room in its buffer, so this does not wait.
    static_cast<void>(
        co_await weft::as_result(stream.write_all(std::as_bytes(std::span(message)))));
}

/// Takes the next client and starts its task, or tells the client that there are too many. A client
/// for whose task there is no memory loses its connection. Returns what accept has failed with.
weft::task<std::error_code> accept_client(weft::net::tcp_listener& listener,
                                          server_context& server) {
    auto accepted = co_await weft::as_result(listener.accept());
    if (!accepted) co_return accepted.error();
    server_counters& counters = server.information.counters;
    counters.connections_received.fetch_add(1, std::memory_order_relaxed);
    if (counters.connections_open.load(std::memory_order_relaxed) < server.max_clients) {
        open_connection counted(counters);
        weft::co_spawn(serve_client(*std::move(accepted), std::move(counted), server)).detach();
    } else {
        counters.connections_rejected.fetch_add(1, std::memory_order_relaxed);
        co_await refuse_client(*std::move(accepted));
    }
    co_return std::error_code();
}

/// Takes no memory, since that may be what is used up.
void report_exhausted(std::error_code failure) {
    std::fprintf(stderr, "kv_server: accept: %s; new clients wait until others leave (said once)\n",
                 std::strerror(failure.value()));
}

/// What accept may fail with, by what is to be done.
enum class accept_failure { client_gone, exhausted, stopped, fatal };

accept_failure classify(std::error_code code) {
    if (code == std::errc::operation_canceled || code == weft::errc::closed) {
        return accept_failure::stopped;
    }
    if (code == std::errc::not_enough_memory) return accept_failure::exhausted;
    switch (code.value()) {
    // The limits of this process or the system, and memory of the kernel.
    case EMFILE:
    case ENFILE:
    case ENOBUFS: return accept_failure::exhausted;
    // Errors of connections that failed before they were accepted, many in a row, or a firewall's
    // no: the next one may be good.
    case ECONNABORTED:
    case EPROTO:
    case EPERM:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case ENETUNREACH: return accept_failure::client_gone;
    default: return accept_failure::fatal;
    }
}

}  // namespace

weft::task<> serve_client(weft::net::tcp_stream stream, open_connection, server_context& server) {
    try {
        session client(server.data, server.information, server.limits);
        co_await converse(stream, client);
        if (client.closing()) co_await weft::with_timeout(drain_time, drain(stream));
    } catch (const std::system_error& error) {
        if (!is_ordinary_end(error.code())) report("connection", error.what());
    } catch (const std::exception& error) {
        // No memory, for one. It costs this client its connection and nobody else anything.
        report("connection", error.what());
    }
}

weft::task<> accept_clients(weft::net::tcp_listener& listener, server_context& server) {
    std::chrono::milliseconds pause = first_accept_pause;
    bool reported = false;
    for (;;) {
        std::error_code failure;
        try {
            failure = co_await accept_client(listener, server);
        } catch (const std::bad_alloc&) {
            failure = std::make_error_code(std::errc::not_enough_memory);
        }
        if (!failure) {
            pause = first_accept_pause;
            continue;
        }
        switch (classify(failure)) {
        case accept_failure::client_gone: break;
        case accept_failure::stopped: co_return;
        case accept_failure::fatal: throw std::system_error(failure, "accept");
        case accept_failure::exhausted:
            if (!std::exchange(reported, true)) report_exhausted(failure);
            try {
                if (!co_await weft::as_result(weft::sleep_for(pause))) co_return;
            } catch (const std::bad_alloc&) {
                // There is no memory for a timer either: the other tasks get their turn instead.
                pause = 0ms;
            }
            if (pause == 0ms && !co_await weft::as_result(weft::yield())) co_return;
            pause = std::clamp<std::chrono::milliseconds>(2 * pause, first_accept_pause,
                                                          longest_accept_pause);
            break;
        }
    }
}

}  // namespace kv
