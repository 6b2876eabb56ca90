// SPDX-License-Identifier: MIT
#include "support/network.hpp"

#include <weft/as_result.hpp>
#include <weft/channel.hpp>
#include <weft/error.hpp>
#include <weft/on_end.hpp>
#include <weft/on_stop.hpp>
#include <weft/select.hpp>
#include <weft/shield.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

using namespace std::chrono_literals;
using weft::channel;
using weft::net::endpoint;
using weft::net::tcp_listener;
using weft::net::tcp_stream;
using weft::test::connected_pair;

namespace {

// One test case on every netpoller, with one worker and with two, under a watchdog.
template <class Body>
void on_each(Body body) {
    for (const char* backend : weft::test::backends()) {
        INFO("netpoll: " << backend);
        const weft::test::watchdog dog(60s, [backend] { return std::string(backend); });
        for (const unsigned processors : {1U, 2U}) {
            weft::test::run_on(backend, body(), processors);
        }
    }
}

weft::task<> say(tcp_stream& to, std::string text) {
    co_await to.write_all(std::as_bytes(std::span(text)));
}

weft::task<std::string> hear(tcp_stream& from) {
    std::array<std::byte, 1000> buffer;
    const std::size_t count = co_await from.read_some(buffer);
    co_return std::string(reinterpret_cast<const char*>(buffer.data()), count);
}

/// Sends when the task that called has waited.
weft::task<> send_later(channel<int>& to, int value) {
    for (int i = 0; i < 3; ++i) co_await weft::yield();
    co_await to.send(int(value));
}

}  // namespace

TEST_CASE("a task waits until there is something to read, and nothing is taken", "[readiness]") {
    on_each([]() -> weft::task<> {
        auto [client, server] = co_await connected_pair();
        for (int i = 0; i < 3; ++i) {
            const auto early = co_await weft::as_result(weft::with_timeout(1ms, server.readable()));
            CHECK(early.error() == std::errc::timed_out);
            auto says = weft::co_spawn(say, std::ref(client), std::string("hello"));
            co_await server.readable();
            co_await server.readable();
            const std::string heard = co_await hear(server);
            CHECK(heard == "hello");
            co_await std::move(says);
        }
        client.shutdown_write();
        co_await server.readable();  // The end can be read as well.
        const std::string nothing = co_await hear(server);
        CHECK(nothing.empty());
    });
}

TEST_CASE("a select waits for a stream and for a channel", "[readiness]") {
    on_each([]() -> weft::task<> {
        auto [client, server] = co_await connected_pair();
        channel<int> orders;
        for (int i = 0; i < 20; ++i) {
            auto sends = weft::co_spawn(send_later, std::ref(orders), int(i));
            auto made = co_await weft::select(server.readable(), orders.recv());
            REQUIRE(made.index() == 1);
            CHECK(std::get<1>(made) == i);
            co_await std::move(sends);
            // The select has given the turn back: another task may read.
            auto hears = weft::co_spawn(hear, std::ref(server));
            co_await say(client, "one");
            const std::string other = co_await std::move(hears);
            CHECK(other == "one");
        }
    });
}

TEST_CASE("a select that is told of data reads it without waiting", "[readiness]") {
    on_each([]() -> weft::task<> {
        auto [client, server] = co_await connected_pair();
        channel<int> never;
        for (int i = 0; i < 20; ++i) {
            auto says = weft::co_spawn(say, std::ref(client), std::to_string(i));
            const auto made =
                co_await weft::select(never.recv(), server.readable(), weft::sleep_for(1h));
            REQUIRE(made.index() == 1);
            const std::string heard = co_await hear(server);
            CHECK(heard == std::to_string(i));
            co_await std::move(says);
            const auto none = co_await weft::select(server.readable(), weft::otherwise);
            CHECK(none.index() == 1);
        }
        // It stands in no line of the other case.
        CHECK(never.try_send(1).error() == std::errc::operation_would_block);
    });
}

TEST_CASE("a select waits for room to write", "[readiness]") {
    on_each([]() -> weft::task<> {
        auto [client, server] = co_await connected_pair();
        auto made = co_await weft::select(client.writable(), weft::sleep_for(1h));
        CHECK(made.index() == 0);
        const std::string much(1 << 16, 'x');
        std::size_t written = 0;
        for (;;) {
            made = co_await weft::select(client.writable(), weft::sleep_for(20ms));
            if (made.index() == 1) break;
            written += co_await client.write_some(std::as_bytes(std::span(much)));
        }
        auto drains = weft::co_spawn(
            [](tcp_stream& from, std::size_t wanted) -> weft::task<> {
                while (wanted != 0) wanted -= (co_await hear(from)).size();
            },
            std::ref(server), written);
        made = co_await weft::select(client.writable(), weft::sleep_for(1h));
        CHECK(made.index() == 0);
        co_await std::move(drains);
    });
}

TEST_CASE("a select waits for a connection", "[readiness]") {
    on_each([]() -> weft::task<> {
        auto listener = tcp_listener::bind(endpoint::parse("127.0.0.1:0"));
        auto made = co_await weft::select(listener.readable(), weft::sleep_for(1ms));
        CHECK(made.index() == 1);
        tcp_stream client = co_await tcp_stream::connect(listener.local_endpoint());
        made = co_await weft::select(listener.readable(), weft::sleep_for(1h));
        CHECK(made.index() == 0);
        tcp_stream server = co_await listener.accept();
        co_await say(client, "there");
        const std::string heard = co_await hear(server);
        CHECK(heard == "there");
    });
}

TEST_CASE("a select that was stopped leaves the stream as it was", "[readiness]") {
    on_each([]() -> weft::task<> {
        auto [client, server] = co_await connected_pair();
        channel<int> never;
        for (int i = 0; i < 10; ++i) {
            const auto late = co_await weft::as_result(weft::with_timeout(
                100us * i, weft::select(server.readable(), never.recv(), server.readable())));
            CHECK(late.error() == std::errc::timed_out);
        }
        co_await say(client, "still");
        const std::string heard = co_await hear(server);
        CHECK(heard == "still");
    });
}

TEST_CASE("a select waits for the turn of a stream that another task reads", "[readiness]") {
    on_each([]() -> weft::task<> {
        auto [client, server] = co_await connected_pair();
        channel<int> orders;
        auto first = weft::co_spawn(hear, std::ref(server));
        for (int i = 0; i < 3; ++i) co_await weft::yield();
        auto sends = weft::co_spawn(send_later, std::ref(orders), 1);
        auto made = co_await weft::select(server.readable(), orders.recv());
        CHECK(made.index() == 1);
        co_await std::move(sends);
        const auto selects = [](tcp_stream& from,
                                channel<int>& or_from) -> weft::task<std::string> {
            const auto told = co_await weft::select(from.readable(), or_from.recv());
            co_return told.index() == 0 ? co_await hear(from) : std::string("an order");
        };
        auto second = weft::co_spawn(selects, std::ref(server), std::ref(orders));
        for (int i = 0; i < 3; ++i) co_await weft::yield();
        co_await say(client, "one");
        const std::string heard = co_await std::move(first);
        CHECK(heard == "one");
        co_await say(client, "two");
        const std::string then = co_await std::move(second);
        CHECK(then == "two");
    });
}

TEST_CASE("the first of several streams is found by a select", "[readiness]") {
    on_each([]() -> weft::task<> {
        auto [client, server] = co_await connected_pair();
        auto [other_client, other_server] = co_await connected_pair();
        for (int i = 0; i < 20; ++i) {
            tcp_stream& speaks = i % 2 == 0 ? client : other_client;
            tcp_stream& listens = i % 2 == 0 ? server : other_server;
            auto says = weft::co_spawn(say, std::ref(speaks), std::to_string(i));
            const auto made = co_await weft::select(server.readable(), other_server.readable());
            CHECK(made.index() == static_cast<std::size_t>(i % 2));
            const std::string heard = co_await hear(listens);
            CHECK(heard == std::to_string(i));
            co_await std::move(says);
        }
    });
}

TEST_CASE("a stream that is closed makes its case, and the read that follows says so",
          "[readiness]") {
    on_each([]() -> weft::task<> {
        auto [client, server] = co_await connected_pair();
        auto closes = weft::co_spawn(
            [](tcp_stream& closed) -> weft::task<> {
                for (int i = 0; i < 3; ++i) co_await weft::yield();
                co_await closed.close();
            },
            std::ref(server));
        auto made = co_await weft::select(server.readable(), weft::sleep_for(1h));
        CHECK(made.index() == 0);
        co_await std::move(closes);
        made = co_await weft::select(server.readable(), weft::sleep_for(1h));
        CHECK(made.index() == 0);
        std::array<std::byte, 10> buffer;
        const auto read = co_await weft::as_result(server.read_some(buffer));
        CHECK(read.error() == weft::errc::closed);
        const auto waited = co_await weft::as_result(server.readable());
        CHECK(waited.error() == weft::errc::closed);
    });
}

TEST_CASE("a runtime ends while selects wait for streams", "[readiness]") {
    on_each([]() -> weft::task<> {
        const auto waits = []() -> weft::task<> {
            auto [client, server] = co_await connected_pair();
            channel<int> never;
            co_await weft::select(server.readable(), never.recv(), client.readable());
        };
        for (int i = 0; i < 10; ++i) weft::co_spawn(waits).detach();
        for (int i = 0; i < 10; ++i) co_await weft::yield();
    });
    SUCCEED("nothing is touched too late");
}

TEST_CASE("selects that no stop reaches are destroyed where they wait", "[readiness]") {
    for (const char* backend : weft::test::backends()) {
        INFO("netpoll: " << backend);
        const weft::test::forced_backend forced(backend);
        const weft::test::watchdog dog(60s, [backend] { return std::string(backend); });
        std::stop_source source;
        const auto waits = [](std::stop_token token) -> weft::task<> {
            auto [client, server] = co_await connected_pair();
            channel<int> never;
            auto sleeps = weft::co_spawn(
                []() -> weft::task<> { co_await weft::shield(weft::sleep_for(1h)); });
            co_await weft::shield(weft::select(server.readable(), never.recv(),
                                               weft::on_stop(token), weft::on_end(sleeps),
                                               server.readable()));
        };
        const auto main = [&]() -> weft::task<> {
            for (int i = 0; i < 10; ++i) weft::co_spawn(waits, source.get_token()).detach();
            co_await weft::sleep_for(1ms);
        };
        weft::run(main(), {.processors = 2, .shutdown_grace = 1ms});
        CHECK(source.request_stop());
    }
}
