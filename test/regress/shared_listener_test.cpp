// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <weft/weft.hpp>

#include <functional>
#include <thread>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

// Two runtimes share a listener, so that a poll may be armed in the ring of one of them while a
// task of the other waits. The worker that took the completion ran that task itself.

namespace {

constexpr int connections = 40;

weft::task<int> accept_here(weft::net::tcp_listener& listener, unsigned processors, int count) {
    int at_home = 0;
    for (int i = 0; i < count; ++i) {
        co_await listener.accept();
        if (weft::this_runtime::processors() == processors) ++at_home;
    }
    co_return at_home;
}

void connect_once(const weft::net::endpoint& to) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_storage address;
    const socklen_t size = to.to_sockaddr(address);
    CHECK(::connect(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0);
    ::close(fd);
}

}  // namespace

TEST_CASE("a task that waits for a shared descriptor stays in its runtime", "[regress][netpoll]") {
    const auto backend = GENERATE(weft::netpoll_backend::automatic, weft::netpoll_backend::epoll);
    weft::runtime one({.processors = 1, .netpoll = backend});
    weft::runtime two({.processors = 2, .netpoll = backend});
    auto listener = weft::net::tcp_listener::bind(weft::net::endpoint::parse("127.0.0.1:0"));
    auto first = one.co_spawn(accept_here, std::ref(listener), 1U, connections / 2);
    auto second = two.co_spawn(accept_here, std::ref(listener), 2U, connections / 2);
    for (int i = 0; i < connections; ++i) connect_once(listener.local_endpoint());
    CHECK(first.get() == connections / 2);
    CHECK(second.get() == connections / 2);
}

// The listener is destroyed with the main task's frame, before the runtime asks anybody to stop:
// the acceptor's errc::closed ended the process.
TEST_CASE("regress: a detached acceptor ends in order when its listener is closed", "[regress]") {
    bool failed = false;
    auto accept_all = [](weft::net::tcp_listener& on) -> weft::task<> {
        for (;;) static_cast<void>(co_await on.accept());
    };
    auto main = [&]() -> weft::task<> {
        auto listener = weft::net::tcp_listener::bind(
            weft::net::endpoint(weft::net::ip_address::loopback_v4(), 0));
        weft::co_spawn(accept_all(listener)).detach();
        co_await weft::sleep_for(std::chrono::milliseconds(1));
    };
    for (int i = 0; i < 20; ++i) {
        weft::run(main(), {.processors = 2,
                           .on_failure = [&](const weft::task_failure&) { failed = true; },
                           .log = [](std::string_view) {}});
    }
    CHECK_FALSE(failed);
}
