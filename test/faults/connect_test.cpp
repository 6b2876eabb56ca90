// SPDX-License-Identifier: MIT
//
// Connections that take their time, are refused, are interrupted, or cannot even be begun.
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/network.hpp"

#include <weft/as_result.hpp>
#include <weft/error.hpp>
#include <weft/sleep.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string>
#include <system_error>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace std::chrono_literals;
using weft::detail::kernel_system_calls;
using weft::detail::system_calls;
using weft::net::endpoint;
using weft::net::tcp_listener;
using weft::net::tcp_stream;

namespace {

std::atomic<unsigned> calls;
std::atomic<int> injected;

/// A listener whose queue is full: the kernel answers no further connection, and does not refuse it
/// either.
class full_listener {
public:
    full_listener() {
        fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(address);
        auto* const plain = reinterpret_cast<sockaddr*>(&address);
        REQUIRE(::bind(fd_, plain, size) == 0);
        REQUIRE(::listen(fd_, 0) == 0);
        REQUIRE(::getsockname(fd_, plain, &size) == 0);
        to_ = endpoint::parse("127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
        // One fits into the queue; those behind it stay half open.
        for (int& each : fillers_) {
            each = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
            static_cast<void>(::connect(each, plain, size));
        }
    }
    full_listener(const full_listener&) = delete;
    full_listener& operator=(const full_listener&) = delete;
    ~full_listener() {
        close_fillers();
        close();
    }

    const endpoint& address() const { return to_; }
    /// Makes room for whoever asks next. The fillers go first: one that is half open asks again
    /// too, and could take the only place before the connection that the test looks at.
    void take_all() {
        close_fillers();
        for (int taken; (taken = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
            ::close(taken);
        }
    }
    void close() {
        if (fd_ >= 0) ::close(fd_);
        fd_ = -1;
    }

private:
    void close_fillers() {
        for (int& each : fillers_) {
            if (each >= 0) ::close(each);
            each = -1;
        }
    }

    int fd_ = -1;
    endpoint to_ = endpoint::parse("127.0.0.1:0");
    std::array<int, 2> fillers_{-1, -1};
};

weft::task<std::error_code> connect(endpoint to) {
    auto result = co_await weft::as_result(tcp_stream::connect(to));
    co_return result ? std::error_code() : result.error();
}

/// A port on which nobody listens.
endpoint closed_port() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    ::close(fd);
    return endpoint::parse("127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
}

system_calls counting_calls() {
    system_calls table = kernel_system_calls();
    table.connect = [](int fd, const sockaddr* address, socklen_t size) {
        ++calls;
        return kernel_system_calls().connect(fd, address, size);
    };
    return table;
}

}  // namespace

TEST_CASE("connect: what nobody answers ends by a deadline or a stop and leaves nothing behind",
          "[faults][netpoll]") {
    const weft::test::replaced_calls counted(counting_calls());
    const std::size_t descriptors = weft::test::descriptor_count();
    weft::test::on_each_backend([]() -> weft::task<> {
        full_listener full;
        calls = 0;
        auto late =
            co_await weft::as_result(weft::with_timeout(20ms, tcp_stream::connect(full.address())));
        CHECK((!late && late.error() == std::errc::timed_out));
        auto stopped = weft::co_spawn(connect(full.address()));
        co_await weft::sleep_for(1ms);
        stopped.request_stop();
        const std::error_code error = co_await std::move(stopped);
        CHECK(error == std::errc::operation_canceled);
        CHECK(calls == 2);  // Each was called once, and both said EINPROGRESS.
    });
    CHECK(weft::test::descriptor_count() == descriptors);
}

TEST_CASE("connect: an answer that comes late, good or bad, is the answer", "[faults][netpoll]") {
    const weft::test::replaced_calls counted(counting_calls());
    weft::test::on_each_backend([]() -> weft::task<> {
        full_listener full;
        full_listener dying;
        calls = 0;
        auto good = weft::co_spawn(connect(full.address()));
        auto bad = weft::co_spawn(connect(dying.address()));
        co_await weft::sleep_for(1ms);
        CHECK_FALSE(good.done());
        CHECK_FALSE(bad.done());
        full.take_all();
        dying.close();
        // The kernel asks again after a second.
        const std::error_code connected = co_await std::move(good);
        const std::error_code refused = co_await std::move(bad);
        CHECK_FALSE(connected);
        CHECK(refused == std::errc::connection_refused);
        CHECK(calls == 2);
    });
}

TEST_CASE("connect: a port where nobody listens refuses", "[faults][netpoll]") {
    const std::size_t descriptors = weft::test::descriptor_count();
    weft::test::on_each_backend([]() -> weft::task<> {
        const endpoint to = closed_port();
        std::error_code code;
        std::string what;
        try {
            static_cast<void>(co_await tcp_stream::connect(to));
        } catch (const std::system_error& error) {
            code = error.code();
            what = error.what();
        }
        CHECK(code == std::errc::connection_refused);
        CHECK(what.find(to.to_string()) != std::string::npos);
    });
    CHECK(weft::test::descriptor_count() == descriptors);
}

TEST_CASE("connect: a signal in the middle of it starts no second connection",
          "[faults][netpoll]") {
    system_calls table = kernel_system_calls();
    table.connect = [](int fd, const sockaddr* address, socklen_t size) {
        ++calls;
        kernel_system_calls().connect(fd, address, size);
        errno = injected;
        return -1;
    };
    const weft::test::replaced_calls replaced(table);
    for (const int error : {EINTR, EINPROGRESS}) {
        INFO("errno " << error);
        injected = error;
        weft::test::on_each_backend([]() -> weft::task<> {
            calls = 0;
            weft::test::stream_pair both = co_await weft::test::connected_pair();
            CHECK(calls == 1);
            co_await both.client.write_all(std::array{std::byte{5}});
            std::array<std::byte, 1> got{};
            co_await both.server.read_exact(got);
            CHECK(got[0] == std::byte{5});
        });
    }
}

TEST_CASE("connect: every other errno is told as it is, and the socket is closed",
          "[faults][netpoll]") {
    system_calls table = kernel_system_calls();
    table.connect = [](int, const sockaddr*, socklen_t) {
        ++calls;
        errno = injected;
        return -1;
    };
    const weft::test::replaced_calls replaced(table);
    const std::size_t descriptors = weft::test::descriptor_count();
    weft::test::on_each_backend([]() -> weft::task<> {
        for (const int error : {ECONNREFUSED, ENETUNREACH, EHOSTUNREACH, ETIMEDOUT, EADDRNOTAVAIL,
                                EADDRINUSE, EACCES, EPERM, EAGAIN, ENOBUFS, EALREADY, EISCONN,
                                ECONNRESET, EAFNOSUPPORT, EBADF, ENOTSOCK, 4095}) {
            calls = 0;
            injected = error;
            const std::error_code told = co_await connect(endpoint::parse("127.0.0.1:9"));
            CAPTURE(error);
            CHECK(told == std::error_code(error, std::system_category()));
            CHECK(calls == 1);
        }
    });
    CHECK(weft::test::descriptor_count() == descriptors);
}

TEST_CASE("connect: a socket that cannot be made is told as it is", "[faults][netpoll]") {
    static std::atomic<bool> fails;
    system_calls table = kernel_system_calls();
    table.socket = [](int domain, int type, int protocol) {
        if (!fails) return kernel_system_calls().socket(domain, type, protocol);
        errno = injected;
        return -1;
    };
    const weft::test::replaced_calls replaced(table);
    weft::test::on_each_backend([]() -> weft::task<> {
        for (const int error : {EMFILE, ENFILE, ENOBUFS, ENOMEM, EAFNOSUPPORT, EPERM}) {
            injected = error;
            fails = true;
            const std::error_code told = co_await connect(endpoint::parse("127.0.0.1:9"));
            fails = false;
            CAPTURE(error);
            CHECK(told == std::error_code(error, std::system_category()));
        }
        weft::test::stream_pair both = co_await weft::test::connected_pair();
        CHECK(both.client.is_open());
    });
}
