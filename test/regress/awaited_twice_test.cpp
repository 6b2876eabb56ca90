// SPDX-License-Identifier: MIT
//
// An awaiter that is kept in a variable and awaited a second time used to give what it had given
// before, or the end of the stream that it had not reached. It is one operation: it says so.
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/network.hpp"

#include <weft/weft.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

using namespace std::chrono_literals;
using weft::net::tcp_stream;

namespace {

weft::task<> sleep_twice() {
    auto sleep = weft::sleep_for(1ms);
    co_await sleep;
    co_await sleep;
}

weft::task<> read_twice() {
    weft::test::stream_pair both = co_await weft::test::connected_pair();
    std::array<std::byte, 2> buffer;
    co_await both.client.write_all(buffer);
    auto read = both.server.read_exact(buffer);
    co_await read;
    co_await read;
}

weft::task<> accept_twice() {
    auto listener = weft::net::tcp_listener::bind(weft::net::endpoint::parse("127.0.0.1:0"));
    const tcp_stream one = co_await tcp_stream::connect(listener.local_endpoint());
    const tcp_stream two = co_await tcp_stream::connect(listener.local_endpoint());
    auto accept = listener.accept();
    const tcp_stream first = co_await accept;
    const tcp_stream second = co_await accept;
}

weft::task<> await_a_started_task_twice() {
    auto started = []() -> weft::task<> { co_return; }().operator co_await();
    co_await started;
    co_await started;
}

weft::task<> join_twice() {
    auto handle = weft::co_spawn([]() -> weft::task<> { co_return; });
    auto join = handle.operator co_await();
    co_await join;
    co_await join;
}

weft::task<> as_result_twice() {
    auto request = weft::as_result(weft::sleep_for(1ms));
    auto awaiter = std::move(request).operator co_await();
    static_cast<void>(co_await awaiter);
    static_cast<void>(co_await awaiter);
}

/// A stop, a failure and a result are all ends.
weft::task<> read_after_a_stop() {
    weft::test::stream_pair both = co_await weft::test::connected_pair();
    auto reader = weft::co_spawn([](tcp_stream& from) -> weft::task<> {
        std::array<std::byte, 2> buffer;
        auto read = from.read_some(buffer);
        try {
            co_await read;
        } catch (const std::system_error&) {}
        co_await read;
    }(both.server));
    co_await weft::yield();
    reader.request_stop();
    co_await std::move(reader);
}

}  // namespace

TEST_CASE("regress: an operation that is awaited a second time ends with a message", "[regress]") {
    const std::array<weft::task<> (*)(), 7> misuses = {
        sleep_twice, read_twice,      accept_twice,     await_a_started_task_twice,
        join_twice,  as_result_twice, read_after_a_stop};
    for (std::size_t i = 0; i < misuses.size(); ++i) {
        const auto result =
            weft::test::run_in_child([&] { weft::run(misuses[i](), {.processors = 2}); });
        INFO("misuse " << i << ": " << result.describe());
        CHECK(result.aborted_with("awaited a second time"));
    }
}

TEST_CASE("regress: an operation may be kept in a variable and awaited once", "[regress]") {
    auto main = []() -> weft::task<std::size_t> {
        weft::test::stream_pair both = co_await weft::test::connected_pair();
        std::array<std::byte, 2> buffer{};
        auto write = both.client.write_all(buffer);
        auto unused = both.client.write_all(buffer);
        auto copy = unused;
        auto read = both.server.read_exact(buffer);
        auto sleep = weft::sleep_for(1ms);
        co_await sleep;
        co_await write;
        static_cast<void>(copy);
        co_return co_await read;
    };
    CHECK(weft::run(main(), {.processors = 2}) == 2);
}
