// SPDX-License-Identifier: MIT
#include "lib/net/socket_options.hpp"

#include "lib/netpoll/system_calls.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>

#include <netinet/in.h>
#include <netinet/tcp.h>

namespace weft::detail {

namespace {

int to_seconds(std::chrono::seconds duration) noexcept {
    // Negative and huge numbers reach the kernel as such, and it refuses them.
    return static_cast<int>(std::clamp<std::chrono::seconds::rep>(duration.count(), -1,
                                                                  std::numeric_limits<int>::max()));
}

}  // namespace

int set_option(int fd, int level, int name, int value) noexcept {
    return sys().setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? errno : 0;
}

int get_option(int fd, int level, int name, int& value) noexcept {
    socklen_t size = sizeof(value);
    return sys().getsockopt(fd, level, name, &value, &size) < 0 ? errno : 0;
}

int set_keep_alive_options(int fd, const std::optional<net::keep_alive_options>& options) noexcept {
    if (!options.has_value()) return set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 0);
    // The times first, so that no probe is sent by the system's own.
    int error = set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, to_seconds(options->idle));
    if (error == 0) {
        error = set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, to_seconds(options->interval));
    }
    if (error == 0) error = set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, options->count);
    if (error == 0) error = set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    return error;
}

int get_keep_alive_options(int fd, std::optional<net::keep_alive_options>& options) noexcept {
    options.reset();
    int on = 0;
    if (const int error = get_option(fd, SOL_SOCKET, SO_KEEPALIVE, on); error != 0) return error;
    if (on == 0) return 0;
    int idle = 0;
    int interval = 0;
    int count = 0;
    int error = get_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle);
    if (error == 0) error = get_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval);
    if (error == 0) error = get_option(fd, IPPROTO_TCP, TCP_KEEPCNT, count);
    options = net::keep_alive_options{.idle = std::chrono::seconds(idle),
                                      .interval = std::chrono::seconds(interval),
                                      .count = count};
    return error;
}

int set_buffer_sizes(int fd, const std::optional<int>& receive,
                     const std::optional<int>& send) noexcept {
    int error = 0;
    if (receive.has_value()) error = set_option(fd, SOL_SOCKET, SO_RCVBUF, *receive);
    if (error == 0 && send.has_value()) error = set_option(fd, SOL_SOCKET, SO_SNDBUF, *send);
    return error;
}

}  // namespace weft::detail
