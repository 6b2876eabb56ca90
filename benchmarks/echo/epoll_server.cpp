// SPDX-License-Identifier: MIT
//
// The echo server that an expert writes by hand over epoll: one thread, one epoll set, each
// connection registered once, for edges, and never modified.
//
// Level-triggered it took 1.01 times the CPU time for each echo (between 0.98 and 1.04 at 1, 32 and
// 256 connections; interleaved slices on a busy machine, Linux 6.18), since each ready socket
// is asked once more in the next turn. Receiving from all ready sockets before sending to any
// took 0.98, at the price of a buffer for each; that is not how such servers are written.
#include "connection.hpp"
#include "support.hpp"

#include <sys/epoll.h>

#include <array>
#include <span>

namespace {

using echo::connection;

void accept_all(int epoll_fd, int listener) {
    for (;;) {
        const int fd = echo::accept_one(listener);
        if (fd < 0) return;
        auto* accepted = new connection(fd);
        epoll_event event{};
        event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
        event.data.ptr = accepted;
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) echo::die("epoll_ctl");
    }
}

}  // namespace

int main(int argc, char** argv) {
    const int listener = echo::listen_and_announce(
        static_cast<std::uint16_t>(echo::number_option(argc, argv, "--port", 0)));
    const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0) echo::die("epoll_create1");
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = nullptr;  // The listener; connections have their address here.
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event) != 0) echo::die("epoll_ctl");

    std::array<epoll_event, 256> events;
    for (;;) {
        const int count = epoll_wait(epoll_fd, events.data(), events.size(), -1);
        if (count < 0) {
            if (errno == EINTR) continue;  // Stopped and continued; nothing was lost.
            echo::die("epoll_wait");
        }
        for (const epoll_event& ready : std::span(events).first(static_cast<std::size_t>(count))) {
            auto* peer = static_cast<connection*>(ready.data.ptr);
            if (peer == nullptr) {
                accept_all(epoll_fd, listener);
                continue;
            }
            const bool ended = ready.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
            if (peer->serve(ended) == echo::verdict::finished) delete peer;
        }
    }
}
