// SPDX-License-Identifier: MIT
#pragma once

#include "../echo/support.hpp"

#include <weft/net/tcp.hpp>

#include <string>
#include <utility>

namespace latency {

/// A connection over loopback whose other end is a plain blocking socket, for a thread that is no
/// worker.
class outside_end {
public:
    explicit outside_end(std::uint16_t port)
        : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        if (fd_ < 0) echo::die("socket");
        const sockaddr_in address = echo::loopback(port);
        if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
            echo::die("connect");
        echo::set_nodelay(fd_);
    }
    outside_end(const outside_end&) = delete;
    outside_end& operator=(const outside_end&) = delete;
    ~outside_end() { ::close(fd_); }

    void write_byte() const {
        const char byte = 'x';
        if (::send(fd_, &byte, 1, MSG_NOSIGNAL) != 1) echo::die("send");
    }
    void read_byte() const {
        char byte = 0;
        if (::recv(fd_, &byte, 1, 0) != 1) echo::die("recv");
    }
    /// The peer reads the end of the stream.
    void shut_down() const { ::shutdown(fd_, SHUT_WR); }

private:
    int fd_;
};

inline weft::net::tcp_listener listen_on_loopback() {
    return weft::net::tcp_listener::bind(weft::net::endpoint::parse("127.0.0.1:0"));
}

}  // namespace latency
