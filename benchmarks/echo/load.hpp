// SPDX-License-Identifier: MIT
#pragma once

#include "histogram.hpp"
#include "observed_process.hpp"
#include "support.hpp"

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace echo {

/// Keeps N connections to one server busy in a closed loop: each sends one message, waits until
/// all of it has come back, compares it and sends the next. One thread, one epoll set.
///
/// It works in slices. At the end of a slice no connection sends any more, and the slice is over
/// when the last answer is here: what was measured beside it belongs to whole requests. Between
/// two slices both sides are idle.
class load {
public:
    load(std::uint16_t port, std::size_t connections) : connections_(connections) {
        epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
        if (epoll_fd_ < 0) die("epoll_create1");
        for (std::size_t i = 0; i < connections; ++i) connect_one(connections_[i], port, i);
    }

    /// Runs one slice of `duration` nanoseconds. Returns how many requests were answered in it.
    std::uint64_t run_slice(std::uint64_t duration) {
        now_ = read_clock(CLOCK_MONOTONIC);
        end_ = now_ + duration;
        answered_ = 0;
        for (client_connection& peer : connections_) send_next(peer);
        std::array<epoll_event, 256> events;
        while (outstanding_ > 0) {
            const int count = epoll_wait(epoll_fd_, events.data(), events.size(), patience_ms);
            if (count == 0) die_because("the server has answered nobody for 5 s");
            if (count < 0) {
                if (errno == EINTR) continue;  // Stopped and continued; nothing was lost.
                die("epoll_wait");
            }
            for (const epoll_event& ready :
                 std::span(events).first(static_cast<std::size_t>(count)))
                receive(*static_cast<client_connection*>(ready.data.ptr));
        }
        return answered_;
    }

    void forget_latencies() { latencies_.clear(); }
    const histogram& latencies() const { return latencies_; }

private:
    static constexpr std::size_t message_size = 64;
    static constexpr int patience_ms = 5000;

    /// The first eight bytes of a message count the requests of its connection, so that a late
    /// answer to an earlier one is noticed; the rest tells the connections apart.
    struct client_connection {
        int fd = -1;
        std::size_t received = 0;
        std::uint64_t sent_at = 0;
        std::uint64_t sequence = 0;
        std::array<char, message_size> message{};
        std::array<char, message_size> answer{};
    };

    void connect_one(client_connection& peer, std::uint16_t port, std::size_t index) {
        peer.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (peer.fd < 0) die("socket");
        const sockaddr_in address = loopback(port);
        const auto* raw = reinterpret_cast<const sockaddr*>(&address);
        if (connect(peer.fd, raw, sizeof address) != 0) die("connect");
        set_nodelay(peer.fd);
        for (std::size_t i = 0; i < message_size; ++i)
            peer.message[i] = static_cast<char>(index * 31 + i);
        epoll_event event{};
        event.events = EPOLLIN | EPOLLET;
        event.data.ptr = &peer;
        if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, peer.fd, &event) != 0) die("epoll_ctl");
    }

    /// The send buffer is empty, since the answer to all that was sent before is here: a message
    /// always fits.
    void send_next(client_connection& peer) {
        ++peer.sequence;
        std::memcpy(peer.message.data(), &peer.sequence, sizeof peer.sequence);
        peer.received = 0;
        peer.sent_at = now_;
        ssize_t count = 0;
        do count = send(peer.fd, peer.message.data(), message_size, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (count < 0 && errno == EINTR);
        if (count < 0) die("send");
        if (static_cast<std::size_t>(count) != message_size)
            die_because("an empty socket did not take a whole message");
        ++outstanding_;
    }

    /// An answer in one piece, the usual case, costs one call. Of one in several pieces this takes
    /// what is there, as edges demand; the rest brings an edge of its own.
    void receive(client_connection& peer) {
        while (peer.received < message_size) {
            const ssize_t count = recv(peer.fd, peer.answer.data() + peer.received,
                                       message_size - peer.received, MSG_DONTWAIT);
            if (count > 0) {
                peer.received += static_cast<std::size_t>(count);
                continue;
            }
            if (count == 0) die_because("the server closed a connection");
            if (errno == EAGAIN) return;
            if (errno != EINTR) die("recv");
        }
        if (peer.answer != peer.message) die_because("an answer is not what was sent");
        --outstanding_;
        ++answered_;
        now_ = read_clock(CLOCK_MONOTONIC);
        latencies_.record(now_ - peer.sent_at);
        if (now_ < end_) send_next(peer);
    }

    int epoll_fd_ = -1;
    std::uint64_t now_ = 0;
    std::uint64_t end_ = 0;
    std::uint64_t answered_ = 0;
    std::size_t outstanding_ = 0;
    std::vector<client_connection> connections_;
    histogram latencies_;
};

}  // namespace echo
