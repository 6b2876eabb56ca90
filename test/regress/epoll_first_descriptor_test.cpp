// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <weft/weft.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

// The sentinel of a runtime on epoll went to sleep before any descriptor was registered, so it
// slept outside the set. The worker that registered the first one parked beside it, and nobody
// waited in the set.

using namespace std::chrono_literals;

namespace {

class client {
public:
    explicit client(const weft::net::endpoint& to) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_storage address;
        const socklen_t size = to.to_sockaddr(address);
        REQUIRE(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), size) == 0);
    }
    client(const client&) = delete;
    client& operator=(const client&) = delete;
    ~client() { ::close(fd_); }

private:
    int fd_;
};

std::uint64_t parks(const weft::runtime& of) {
    std::uint64_t sum = 0;
    for (const auto& each : of.statistics().processors) sum += each.parks;
    return sum;
}

/// Waits until no worker has gone to sleep for a while. Where that takes long, the test may miss
/// the fault, but never reports one that is not there.
void wait_until_quiet(const weft::runtime& watched) {
    for (std::uint64_t before = 0, now = parks(watched); now != before || now == 0;) {
        std::this_thread::sleep_for(10ms);
        before = std::exchange(now, parks(watched));
    }
}

weft::task<> accept_one(weft::net::tcp_listener& listener) {
    co_await listener.accept();
}

}  // namespace

TEST_CASE("epoll: a parked runtime notices the first descriptor that was registered",
          "[regress][netpoll]") {
    for (int round = 0; round < 10; ++round) {
        weft::runtime watched({.processors = 3, .netpoll = weft::netpoll_backend::epoll});
        auto listener =
            weft::net::tcp_listener::bind(weft::net::endpoint::parse("127.0.0.1:0"));
        wait_until_quiet(watched);
        auto accepted = watched.co_spawn(accept_one, std::ref(listener));
        wait_until_quiet(watched);
        const client connected(listener.local_endpoint());
        const auto give_up_at = std::chrono::steady_clock::now() + 20s;
        while (!accepted.done() && std::chrono::steady_clock::now() < give_up_at) {
            std::this_thread::sleep_for(1ms);
        }
        REQUIRE(accepted.done());
        accepted.get();
    }
}
