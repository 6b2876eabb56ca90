// SPDX-License-Identifier: MIT
//
// Row 43 of the fault catalogue: peers that are slow, silent, gone, or killed.
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/network.hpp"
#include "support/scale.hpp"
#include "support/scheduler.hpp"

#include <weft/as_result.hpp>
#include <weft/error.hpp>
#include <weft/io_error.hpp>
#include <weft/sleep.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <functional>
#include <string>
#include <system_error>
#include <vector>

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

using namespace std::chrono_literals;
using weft::net::tcp_stream;
using weft::test::stream_pair;

namespace {

/// How a read ended, and how much had come by then.
struct outcome {
    std::error_code error;
    std::size_t moved = 0;
};

weft::task<outcome> read_one(tcp_stream& from) {
    std::array<std::byte, 1> one;
    const auto result = co_await weft::as_result(from.read_some(one));
    if (result) co_return outcome{{}, *result};
    co_return outcome{result.error(), 0};
}

weft::task<outcome> read_all(tcp_stream& from, std::span<std::byte> into,
                             std::chrono::nanoseconds limit) {
    try {
        co_return outcome{{}, co_await weft::with_timeout(limit, from.read_exact(into))};
    } catch (const weft::io_error& error) {
        co_return outcome{error.code(), error.transferred()};
    } catch (const std::system_error& error) { co_return outcome{error.code(), 0}; }
}

bool is_reset(const std::error_code& error) {
    return error == std::errc::connection_reset || error == std::errc::broken_pipe;
}

/// What the kernel delivers after the one error: the end, or the error of a socket that is not
/// connected; never a wait.
weft::task<> check_that_it_is_over(tcp_stream& from) {
    for (int i = 0; i < 3; ++i) {
        const outcome after = co_await read_one(from);
        CHECK(after.moved == 0);
        CHECK((!after.error || is_reset(after.error) || after.error == std::errc::not_connected));
    }
}

}  // namespace

TEST_CASE("row 43: a peer that sends a byte now and then does not get past a deadline",
          "[faults][netpoll]") {
    weft::test::on_each_backend([]() -> weft::task<> {
        stream_pair both = co_await weft::test::connected_pair();
        auto drip = weft::co_spawn([](tcp_stream& to) -> weft::task<> {
            for (;;) {
                co_await to.write_all(std::array{std::byte{1}});
                co_await weft::sleep_for(3ms);
            }
        }(both.client));
        std::array<std::byte, 100'000> request;
        // The deadline is one for all of the request, so that no byte puts it off.
        const auto begin = std::chrono::steady_clock::now();
        const outcome ended = co_await read_all(both.server, request, 60ms);
        const auto took = std::chrono::steady_clock::now() - begin;
        CHECK(ended.error == std::errc::timed_out);
        CHECK(ended.moved >= 1);
        CHECK(ended.moved < 1000);
        CHECK(took >= 60ms);
        CHECK(took < (weft::test::sanitized ? 20s : 5s));
        drip.request_stop();
        static_cast<void>(co_await weft::as_result(std::move(drip)));
    });
}

TEST_CASE("row 43: a peer that takes nothing does not get past a deadline", "[faults][netpoll]") {
    weft::test::on_each_backend([]() -> weft::task<> {
        stream_pair both = co_await weft::test::connected_pair();
        both.server.set_send_buffer_size(16 * 1024);
        const std::vector<std::byte> answer(std::size_t{4} << 20);
        outcome ended;
        try {
            co_await weft::with_timeout(20ms, both.server.write_all(answer));
        } catch (const weft::io_error& error) { ended = {error.code(), error.transferred()}; }
        CHECK(ended.error == std::errc::timed_out);
        CHECK(ended.moved > 0);
        CHECK(ended.moved < answer.size());
        // The connection is of no use any more; it can be reset without waiting for the peer.
        both.server.set_linger(0s);
        co_await both.server.close();
        std::vector<std::byte> got(answer.size());
        const outcome at_peer = co_await read_all(both.client, got, 10s);
        CHECK(is_reset(at_peer.error));
    });
}

TEST_CASE("row 43: FIN is the end of the stream, each time", "[faults][netpoll]") {
    weft::test::on_each_backend([]() -> weft::task<> {
        stream_pair both = co_await weft::test::connected_pair();
        auto reader = weft::co_spawn(read_one(both.server));
        co_await weft::yield();
        both.client.shutdown_write();
        const outcome first = co_await std::move(reader);
        CHECK_FALSE(first.error);
        CHECK(first.moved == 0);
        for (int i = 0; i < 3; ++i) {
            const outcome next = co_await read_one(both.server);
            CHECK_FALSE(next.error);
            CHECK(next.moved == 0);
        }
        std::array<std::byte, 4> wanted;
        const outcome exact = co_await read_all(both.server, wanted, 10s);
        CHECK(exact.error == weft::errc::unexpected_eof);
        // The other direction goes on.
        co_await both.server.write_all(std::array{std::byte{9}});
        const outcome back = co_await read_one(both.client);
        CHECK(back.moved == 1);
    });
}

TEST_CASE("row 43: RST is an error, once, for whoever waits", "[faults][netpoll]") {
    weft::test::on_each_backend([]() -> weft::task<> {
        for (int i = 0; i < 20; ++i) {
            stream_pair both = co_await weft::test::connected_pair();
            auto reader = weft::co_spawn(read_one(both.server));
            auto queued = weft::co_spawn(read_one(both.server));
            if (i % 2 == 0) co_await weft::sleep_for(100us);
            both.client.set_linger(0s);
            co_await both.client.close();
            const outcome one = co_await std::move(reader);
            const outcome other = co_await std::move(queued);
            // The kernel tells it once; whoever comes second finds the end.
            constexpr auto reset = std::errc::connection_reset;
            CHECK(((one.error == reset && !other.error) || (!one.error && other.error == reset)));
            CHECK(one.moved + other.moved == 0);
            co_await check_that_it_is_over(both.server);
            const auto written =
                co_await weft::as_result(both.server.write_all(std::array{std::byte{1}}));
            CHECK((!written && is_reset(written.error())));
        }
    });
}

namespace {

/// Discards everything that arrives at a socket, acknowledgements included: for the kernel of this
/// end the peer has vanished without a word.
void vanish(int fd) {
    sock_filter drop_all[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    const sock_fprog filter{.len = 1, .filter = drop_all};
    REQUIRE(::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) == 0);
}

weft::task<stream_pair> pair_with_vanished_client() {
    stream_pair both = co_await weft::test::connected_pair();
    const int fd = co_await both.client.release();
    vanish(fd);
    both.client = tcp_stream::adopt(fd);
    co_return both;
}

}  // namespace

TEST_CASE("row 43: a half-open peer is found by a deadline, by keep-alive, or by what is sent",
          "[faults][netpoll]") {
    weft::test::on_each_backend([]() -> weft::task<> {
        stream_pair both = co_await pair_with_vanished_client();
        // Nothing tells a reader, but its own deadline.
        std::array<std::byte, 16> buffer;
        const outcome late = co_await read_all(both.server, buffer, 20ms);
        CHECK(late.error == std::errc::timed_out);
        CHECK(late.moved == 0);
        // Probes without an answer: one error of the system for whoever waits, without a limit.
        both.server.set_keep_alive(
            weft::net::keep_alive_options{.idle = 1s, .interval = 1s, .count = 1});
        // Beside it a writer whose data nobody acknowledges.
        stream_pair writing = co_await pair_with_vanished_client();
        auto writer = weft::co_spawn([](tcp_stream& to) -> weft::task<std::error_code> {
            const int fd = co_await to.release();
            const unsigned milliseconds = 500;
            ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof(milliseconds));
            to = tcp_stream::adopt(fd);
            const std::vector<std::byte> much(std::size_t{8} << 20);
            const auto result = co_await weft::as_result(to.write_all(much));
            co_return result ? std::error_code() : result.error();
        }(writing.server));
        const outcome probed = co_await read_one(both.server);
        CHECK(probed.error == std::errc::timed_out);
        co_await check_that_it_is_over(both.server);
        const std::error_code unsent = co_await std::move(writer);
        CHECK(unsent == std::errc::timed_out);
    });
}

namespace {

/// A listening socket, made without weft, and its port.
struct plain_listener {
    int fd = -1;
    sockaddr_in address{};

    plain_listener() {
        fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        auto* const plain = reinterpret_cast<sockaddr*>(&address);
        socklen_t size = sizeof(address);
        REQUIRE(::bind(fd, plain, size) == 0);
        REQUIRE(::listen(fd, 16) == 0);
        REQUIRE(::getsockname(fd, plain, &size) == 0);
    }
};

/// A process that connects, sends one byte, leaves what it gets unread, and stays until it is
/// killed.
pid_t fork_peer(const plain_listener& listener) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::alarm(120);
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    const char one = 1;
    const auto* const to = reinterpret_cast<const sockaddr*>(&listener.address);
    if (::connect(fd, to, sizeof(listener.address)) != 0 || ::write(fd, &one, 1) != 1) ::_exit(1);
    for (;;) ::pause();
}

weft::task<> watch_the_killing(weft::net::tcp_listener listener, pid_t peer, bool leave_unread) {
    tcp_stream stream = co_await listener.accept();
    const outcome hello = co_await read_one(stream);
    CHECK(hello.moved == 1);
    if (leave_unread) co_await stream.write_all(std::array{std::byte{1}, std::byte{2}});
    auto reader = weft::co_spawn(read_one(stream));
    co_await weft::yield();
    ::kill(peer, SIGKILL);
    const outcome ended = co_await std::move(reader);
    // Its kernel closes the socket: with a reset if something was left unread, else in order.
    CHECK(ended.moved == 0);
    if (leave_unread) {
        CHECK(ended.error == std::errc::connection_reset);
    } else {
        CHECK_FALSE(ended.error);
    }
    co_await check_that_it_is_over(stream);
    co_await stream.close();
}

}  // namespace

TEST_CASE("row 43: a peer that is killed ends its connection, in order or with a reset",
          "[faults][netpoll]") {
    const std::size_t descriptors = weft::test::descriptor_count();
    for (const char* backend : weft::test::backends()) {
        for (const bool leave_unread : {false, true}) {
            INFO("netpoll: " << backend << ", unread: " << leave_unread);
            const plain_listener plain;
            const pid_t peer = fork_peer(plain);  // While this process has one thread.
            REQUIRE(peer > 0);
            weft::test::run_on(backend, watch_the_killing(weft::net::tcp_listener::adopt(plain.fd),
                                                          peer, leave_unread));
            int status = 0;
            ::waitpid(peer, &status, 0);
            CHECK(WIFSIGNALED(status));
        }
    }
    CHECK(weft::test::descriptor_count() == descriptors);
}

namespace {

std::size_t resident_kilobytes() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
        std::size_t value = 0;
        if (word == "VmRSS:" && status >> value) return value;
    }
    return 0;
}

std::chrono::nanoseconds cpu_time() {
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// Serves a connection as a server does: with a limit on the time that a request may take.
weft::task<outcome> serve_stuck(tcp_stream stream, std::chrono::nanoseconds limit,
                                std::atomic<std::size_t>& waiting) {
    std::array<std::byte, 64> request;
    ++waiting;
    co_return co_await read_all(stream, request, limit);
}

/// Half of the peers send a part of a request and stop, half of them send nothing.
weft::task<> connect_stuck(std::vector<tcp_stream>& peers, std::vector<tcp_stream>& servers,
                           std::size_t count) {
    auto listener = weft::net::tcp_listener::bind(weft::net::endpoint::parse("127.0.0.1:0"));
    for (std::size_t i = 0; i < count; ++i) {
        peers.push_back(co_await tcp_stream::connect(listener.local_endpoint()));
        servers.push_back(co_await listener.accept());
        if (i % 2 == 0) co_await peers.back().write_all(std::array{std::byte{1}});
    }
}

/// A live connection beside them is served at once: the slowest of some round trips.
weft::task<std::chrono::nanoseconds> slowest_round_trip() {
    stream_pair live = co_await weft::test::connected_pair();
    std::chrono::nanoseconds slowest{0};
    for (int i = 0; i < 100; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        auto reader = weft::co_spawn(read_one(live.server));
        co_await live.client.write_all(std::array{std::byte{1}});
        const outcome got = co_await std::move(reader);
        CHECK(got.moved == 1);
        slowest =
            std::max<std::chrono::nanoseconds>(slowest, std::chrono::steady_clock::now() - begin);
    }
    co_return slowest;
}

weft::task<> serve_many_stuck_peers(std::size_t count) {
    std::vector<tcp_stream> peers;
    std::vector<tcp_stream> servers;
    co_await connect_stuck(peers, servers, count);
    const std::size_t before = resident_kilobytes();
    std::atomic<std::size_t> waiting{0};
    std::vector<weft::join_handle<outcome>> served;
    for (auto& each : servers) {
        // Far away: they end when they are stopped.
        served.push_back(weft::co_spawn(serve_stuck(std::move(each), 1h, std::ref(waiting))));
    }
    while (waiting < count) co_await weft::sleep_for(1ms);
    co_await weft::sleep_for(50ms);  // Lets the last ones park; nothing below depends on it.
    const std::size_t kilobytes = resident_kilobytes() - before;
    const auto cpu_before = cpu_time();
    co_await weft::sleep_for(300ms);
    const auto cpu = cpu_time() - cpu_before;
    const auto slowest = co_await slowest_round_trip();
    CAPTURE(count, kilobytes, cpu.count(), slowest.count());
    CHECK(slowest < (weft::test::sanitized ? 10s : 1s));
    if (!weft::test::sanitized) {
        CHECK(kilobytes < count * 8);
        CHECK(cpu < 30ms);
    }
    for (auto& each : served) each.request_stop();
    std::size_t as_expected = 0;
    for (std::size_t i = 0; i < served.size(); ++i) {
        const outcome ended = co_await std::move(served[i]);
        const std::size_t moved = i % 2 == 0 ? 1 : 0;
        if (ended.error == std::errc::operation_canceled && ended.moved == moved) ++as_expected;
    }
    CHECK(as_expected == count);
}

weft::task<> throw_stuck_peers_out(std::size_t count) {
    std::vector<tcp_stream> peers;
    std::vector<tcp_stream> servers;
    co_await connect_stuck(peers, servers, count);
    std::atomic<std::size_t> waiting{0};
    std::vector<weft::join_handle<outcome>> served;
    for (auto& each : servers) {
        served.push_back(weft::co_spawn(serve_stuck(std::move(each), 50ms, std::ref(waiting))));
    }
    std::size_t late = 0;
    for (auto& each : served) {
        const outcome ended = co_await std::move(each);
        if (ended.error == std::errc::timed_out) ++late;
    }
    CHECK(late == count);
    // Each peer sees the end of its connection.
    std::size_t told = 0;
    for (auto& each : peers) {
        const outcome at_peer = co_await read_one(each);
        if (at_peer.moved == 0) ++told;
    }
    CHECK(told == count);
}

}  // namespace

TEST_CASE("row 43: thousands of stuck peers cost memory only", "[faults][netpoll]") {
    const std::size_t limit = weft::test::raise_descriptor_limit();
    const std::size_t wanted = weft::test::scaled_count(4'000, 8'000);
    const std::size_t count = std::min(wanted, (limit - 200) / 2);
    if (count < wanted) {
        WARN("RLIMIT_NOFILE is " << limit << ": " << count << " peers instead of " << wanted);
    }
    const std::size_t descriptors = weft::test::descriptor_count();
    weft::test::on_each_backend([=] { return serve_many_stuck_peers(count); });
    weft::test::on_each_backend([=] { return throw_stuck_peers_out(count); });
    CHECK(weft::test::descriptor_count() == descriptors);
}
