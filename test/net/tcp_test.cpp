// SPDX-License-Identifier: MIT
#include <weft/net/tcp.hpp>

#include "support/backends.hpp"
#include "support/catch.hpp"
#include "support/watchdog.hpp"

#include <weft/as_result.hpp>
#include <weft/error.hpp>
#include <weft/io_error.hpp>
#include <weft/runtime.hpp>
#include <weft/sleep.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

using namespace std::chrono_literals;
using weft::net::endpoint;
using weft::net::tcp_listener;
using weft::net::tcp_stream;

namespace {

struct pair {
    tcp_stream client;
    tcp_stream server;
};

weft::task<pair> connected_pair(weft::net::connect_options options = {}) {
    tcp_listener listener = tcp_listener::bind(endpoint::parse("127.0.0.1:0"));
    tcp_stream client = co_await tcp_stream::connect(listener.local_endpoint(), options);
    tcp_stream server = co_await listener.accept();
    co_return pair{std::move(client), std::move(server)};
}

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

weft::task<std::string> read_to_end(tcp_stream& from) {
    std::string got;
    std::array<std::byte, 1000> buffer;
    while (const std::size_t count = co_await from.read_some(buffer)) {
        got.append(reinterpret_cast<const char*>(buffer.data()), count);
    }
    co_return got;
}

std::string pattern(std::size_t size) {
    std::string made(size, '\0');
    for (std::size_t i = 0; i < size; ++i) made[i] = static_cast<char>(i * 7 + i / 251);
    return made;
}

// One test case on every netpoller, under a watchdog.
template <class Body>
void on_each(Body body) {
    for (const char* backend : weft::test::backends()) {
        INFO("netpoll: " << backend);
        const weft::test::watchdog dog(60s, [backend] { return std::string(backend); });
        weft::test::run_on(backend, body());
    }
}

}  // namespace

TEST_CASE("bytes go both ways at once from two tasks", "[tcp]") {
    on_each([]() -> weft::task<> {
        pair both = co_await connected_pair();
        const std::string sent = pattern(3'000'000);
        // The two run on different threads, and Catch2's assertions are for one at a time.
        auto write = [](tcp_stream& to, const std::string& data) -> weft::task<std::size_t> {
            const std::size_t written = co_await to.write_all(bytes_of(data));
            to.shutdown_write();
            co_return written;
        };
        auto there = weft::co_spawn(write(both.client, sent));
        auto back = weft::co_spawn(write(both.server, sent));
        auto at_client = weft::co_spawn(read_to_end(both.client));
        {
            const auto awaited = co_await read_to_end(both.server);
            CHECK(awaited == sent);
        }
        {
            const auto awaited = co_await std::move(at_client);
            CHECK(awaited == sent);
        }
        const std::size_t written_there = co_await std::move(there);
        const std::size_t written_back = co_await std::move(back);
        CHECK(written_there == sent.size());
        CHECK(written_back == sent.size());
    });
}

TEST_CASE("vectored transfers keep the order of their buffers", "[tcp]") {
    on_each([]() -> weft::task<> {
        pair both = co_await connected_pair();
        const std::string data = pattern(200'000);
        std::vector<weft::net::const_buffer> out;
        // More buffers than one call takes, of uneven sizes, some of them empty.
        for (std::size_t at = 0, size = 0; at < data.size(); at += size) {
            size = std::min(data.size() - at, (at * 31) % 1500);
            if (size == 0) {
                out.emplace_back();
                size = 1;
            }
            out.push_back(bytes_of(data).subspan(at, size));
        }
        REQUIRE(out.size() > 2 * weft::detail::largest_vector);
        auto write = weft::co_spawn([](tcp_stream& to, auto& buffers) -> weft::task<std::size_t> {
            co_return co_await to.write_all(buffers);
        }(both.client, out));
        std::string got(data.size(), '\0');
        const auto memory = std::as_writable_bytes(std::span(got));
        const std::vector<weft::net::mutable_buffer> in = {
            memory.first(10), {}, memory.subspan(10, 150'000), memory.subspan(150'010)};
        {
            const auto awaited = co_await both.server.read_exact(in);
            CHECK(awaited == data.size());
        }
        CHECK(got == data);
        {
            const auto awaited = co_await std::move(write);
            CHECK(awaited == data.size());
        }
    });
}

TEST_CASE("half close: the end arrives and the other direction goes on", "[tcp]") {
    on_each([]() -> weft::task<> {
        pair both = co_await connected_pair();
        both.client.shutdown_write();
        {
            const auto awaited = co_await read_to_end(both.server);
            CHECK(awaited == "");
        }
        co_await both.server.write_all(bytes_of("still here"));
        both.server.shutdown_write();
        {
            const auto awaited = co_await read_to_end(both.client);
            CHECK(awaited == "still here");
        }
    });
}

TEST_CASE("read_exact tells how much came before the end", "[tcp]") {
    on_each([]() -> weft::task<> {
        pair both = co_await connected_pair();
        co_await both.client.write_all(bytes_of("abc"));
        both.client.shutdown_write();
        std::array<std::byte, 10> buffer;
        std::size_t transferred = 99;
        std::error_code code;
        try {
            co_await both.server.read_exact(buffer);
        } catch (const weft::io_error& error) {
            transferred = error.transferred();
            code = error.code();
        }
        CHECK(transferred == 3);
        CHECK(code == weft::errc::unexpected_eof);
    });
}

TEST_CASE("a reset is an error once a read meets it", "[tcp]") {
    on_each([]() -> weft::task<> {
        pair both = co_await connected_pair();
        std::array<std::byte, 10> buffer;
        auto read = weft::co_spawn([](tcp_stream& from, auto& into) -> weft::task<std::error_code> {
            auto result = co_await weft::as_result(from.read_some(into));
            co_return result ? std::error_code() : result.error();
        }(both.server, buffer));
        co_await weft::sleep_for(2ms);
        both.client.set_linger(0s);
        co_await both.client.close();
        {
            const auto awaited = co_await std::move(read);
            CHECK(awaited == std::errc::connection_reset);
        }
        // Writing to it is an error too, and never a signal.
        auto written = co_await weft::as_result(both.server.write_all(bytes_of("x")));
        CHECK(!written);
    });
}

TEST_CASE("a refused connection throws connection_refused", "[tcp]") {
    on_each([]() -> weft::task<> {
        endpoint nobody;
        {
            tcp_listener listener = tcp_listener::bind(endpoint::parse("127.0.0.1:0"));
            nobody = listener.local_endpoint();
            co_await listener.close();
        }
        auto result = co_await weft::as_result(tcp_stream::connect(nobody));
        REQUIRE(!result);
        CHECK(result.error() == std::errc::connection_refused);
    });
}

TEST_CASE("a timeout ends a read, and what comes later is read by the next one", "[tcp]") {
    on_each([]() -> weft::task<> {
        pair both = co_await connected_pair();
        std::array<std::byte, 10> buffer;
        auto late =
            co_await weft::as_result(weft::with_timeout(2ms, both.server.read_some(buffer)));
        REQUIRE(!late);
        CHECK(late.error() == std::errc::timed_out);
        co_await both.client.write_all(bytes_of("later"));
        {
            const auto awaited = co_await both.server.read_some(buffer);
            CHECK(awaited == 5);
        }
    });
}

TEST_CASE("several readers get their turns in order, and one of them can be cancelled", "[tcp]") {
    on_each([]() -> weft::task<> {
        pair both = co_await connected_pair();
        auto read = [](tcp_stream& from) -> weft::task<char> {
            std::array<std::byte, 1> one;
            co_await from.read_exact(one);
            co_return static_cast<char>(one[0]);
        };
        std::vector<weft::join_handle<char>> readers;
        for (int i = 0; i < 4; ++i) {
            readers.push_back(weft::co_spawn(read(both.server)));
            co_await weft::sleep_for(1ms);  // So that they come in this order.
        }
        readers[2].request_stop();
        auto stopped = co_await weft::as_result(std::move(readers[2]));
        REQUIRE(!stopped);
        CHECK(stopped.error() == std::errc::operation_canceled);
        co_await both.client.write_all(bytes_of("123"));
        {
            const auto awaited = co_await std::move(readers[0]);
            CHECK(awaited == '1');
        }
        {
            const auto awaited = co_await std::move(readers[1]);
            CHECK(awaited == '2');
        }
        {
            const auto awaited = co_await std::move(readers[3]);
            CHECK(awaited == '3');
        }
    });
}

TEST_CASE("options are set and read back", "[tcp]") {
    on_each([]() -> weft::task<> {
        pair both = co_await connected_pair({.receive_buffer_size = 20'000});
        CHECK(both.client.nodelay());
        CHECK(both.server.nodelay());  // Inherited from the listener.
        both.client.set_nodelay(false);
        CHECK_FALSE(both.client.nodelay());
        CHECK(both.client.receive_buffer_size() == 40'000);
        CHECK_FALSE(both.client.keep_alive().has_value());
        const weft::net::keep_alive_options wanted{.idle = 7s, .interval = 3s, .count = 4};
        both.client.set_keep_alive(wanted);
        CHECK(both.client.keep_alive() == wanted);
        CHECK(both.client.remote_endpoint() == both.server.local_endpoint());
        CHECK(both.server.remote_endpoint() == both.client.local_endpoint());
    });
}

TEST_CASE("IPv6 and a dual-stack listener", "[tcp]") {
    on_each([]() -> weft::task<> {
        std::optional<tcp_listener> listener;
        try {
            listener = tcp_listener::bind(endpoint::parse("[::]:0"));
        } catch (const std::system_error& error) {
            WARN("no IPv6 here: " << error.what());
            co_return;
        }
        const std::uint16_t port = listener->local_endpoint().port();
        for (const char* address : {"::1", "127.0.0.1"}) {
            auto client =
                co_await tcp_stream::connect(endpoint(weft::net::ip_address::parse(address), port));
            auto server = co_await listener->accept();
            CHECK(server.remote_endpoint().address().is_loopback());
        }
    });
}

TEST_CASE("release gives the connection back, adopt takes it", "[tcp]") {
    on_each([]() -> weft::task<> {
        pair both = co_await connected_pair();
        std::array<std::byte, 10> buffer;
        // Leaves a poll armed, whose end release() waits for.
        co_await weft::as_result(weft::with_timeout(1ms, both.server.read_some(buffer)));
        const int fd = co_await both.server.release();
        REQUIRE(fd >= 0);
        CHECK_FALSE(both.server.is_open());
        auto closed = co_await weft::as_result(both.server.read_some(buffer));
        REQUIRE(!closed);
        CHECK(closed.error() == weft::errc::closed);
        tcp_stream again = tcp_stream::adopt(fd);
        co_await both.client.write_all(bytes_of("hello"));
        {
            const auto awaited = co_await again.read_some(buffer);
            CHECK(awaited == 5);
        }
    });
}

TEST_CASE("a stream outlives its runtime and is used in the next one", "[tcp]") {
    for (const char* first : weft::test::backends()) {
        for (const char* second : weft::test::backends()) {
            INFO(first << " then " << second);
            pair both = weft::test::run_on(first, []() -> weft::task<pair> {
                pair made = co_await connected_pair();
                std::array<std::byte, 10> buffer;
                co_await weft::as_result(weft::with_timeout(1ms, made.server.read_some(buffer)));
                co_return made;
            }());
            weft::test::run_on(second, [](pair& used) -> weft::task<> {
                auto write = weft::co_spawn([](tcp_stream& to) -> weft::task<> {
                    co_await weft::sleep_for(1ms);
                    co_await to.write_all(bytes_of("again"));
                }(used.client));
                std::array<std::byte, 10> buffer;
                {
                    const auto awaited = co_await used.server.read_some(buffer);
                    CHECK(awaited == 5);
                }
                co_await std::move(write);
            }(both));
        }
    }
}
