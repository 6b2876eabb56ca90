// SPDX-License-Identifier: MIT
#include "lib/net/socket_options.hpp"
#include "lib/netpoll/poll_descriptor.hpp"
#include "lib/netpoll/system_calls.hpp"

#include <weft/error.hpp>
#include <weft/net/tcp.hpp>

#include <cerrno>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

namespace weft::net {

namespace {

[[noreturn]] void fail(int error, const std::string& what) {
    throw std::system_error(error, std::system_category(), what);
}

void throw_if(int error, const char* what) {
    if (error != 0) fail(error, what);
}

/// The descriptor of an open object; throws for a closed one.
class used_descriptor : public detail::descriptor_use {
public:
    used_descriptor(const detail::descriptor_handle& handle, const char* what)
        : descriptor_use(handle.name()) {
        if (fd() < 0) throw std::system_error(make_error_code(errc::closed), what);
    }
};

endpoint endpoint_of(const detail::descriptor_handle& handle,
                     int (*ask)(int, sockaddr*, socklen_t*), const char* what) {
    const used_descriptor used(handle, what);
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    if (ask(used.fd(), reinterpret_cast<sockaddr*>(&address), &size) < 0) fail(errno, what);
    const result<endpoint> read = endpoint::from_sockaddr(address, size);
    if (!read.has_value()) throw std::system_error(read.error(), what);
    return *read;
}

void set(const detail::descriptor_handle& handle, int level, int name, int value,
         const char* what) {
    const used_descriptor used(handle, what);
    throw_if(detail::set_option(used.fd(), level, name, value), what);
}

int get(const detail::descriptor_handle& handle, int level, int name, const char* what) {
    const used_descriptor used(handle, what);
    int value = 0;
    throw_if(detail::get_option(used.fd(), level, name, value), what);
    return value;
}

/// Closes a socket that nobody has taken over.
class new_socket {
public:
    explicit new_socket(int fd) noexcept : fd_(fd) {}
    new_socket(const new_socket&) = delete;
    new_socket& operator=(const new_socket&) = delete;
    ~new_socket() {
        if (fd_ >= 0) detail::sys().close(fd_);
    }

    int fd() const noexcept { return fd_; }
    void taken() noexcept { fd_ = -1; }

private:
    int fd_;
};

detail::descriptor_handle take_over(int fd, const std::string& what) {
    detail::descriptor_handle handle(detail::open_descriptor(fd, false));
    if (handle.empty()) fail(ENOMEM, what);
    return handle;
}

/// Is it a stream socket, and of the kind that is asked for? A pipe or a file would fail at the
/// first read, far from where the mistake was made.
void check_adopted(int fd, bool listening) {
    const char* const what = listening ? "adopting a listener: not a listening stream socket"
                                       : "adopting a stream: not a connected stream socket";
    int type = 0;
    int accepts = 0;
    throw_if(detail::get_option(fd, SOL_SOCKET, SO_TYPE, type), what);
    if (type != SOCK_STREAM) fail(EPROTOTYPE, what);
    throw_if(detail::get_option(fd, SOL_SOCKET, SO_ACCEPTCONN, accepts), what);
    if ((accepts != 0) != listening) fail(EINVAL, what);
    // As tcp_stream::set_linger(). The streams of a listener inherit it.
    linger waits{};
    socklen_t size = sizeof(waits);
    if (detail::sys().getsockopt(fd, SOL_SOCKET, SO_LINGER, &waits, &size) < 0) fail(errno, what);
    if (waits.l_onoff != 0 && waits.l_linger > 0) {
        fail(EINVAL, "adopting a socket: its close would wait; switch SO_LINGER off before");
    }
}

/// Leaves the descriptor as it was where it throws.
detail::descriptor_handle adopt_socket(int fd, bool listening) {
    check_adopted(fd, listening);
    const char* const what = "adopting a socket";
    const int flags = detail::sys().get_status_flags(fd);
    if (flags < 0) fail(errno, what);
    const bool blocks = (flags & O_NONBLOCK) == 0;
    if (blocks && detail::sys().set_status_flags(fd, flags | O_NONBLOCK) < 0) fail(errno, what);
    try {
        return take_over(fd, what);
    } catch (...) {
        if (blocks) detail::sys().set_status_flags(fd, flags);
        throw;
    }
}

int apply(int fd, const endpoint& local, const listen_options& options) noexcept {
    int error = 0;
    const auto set_if = [&](bool wanted, int level, int name, int value) {
        if (error == 0 && wanted) error = detail::set_option(fd, level, name, value);
    };
    set_if(options.reuse_address, SOL_SOCKET, SO_REUSEADDR, 1);
    set_if(options.reuse_port, SOL_SOCKET, SO_REUSEPORT, 1);
    set_if(local.address().is_v6(), IPPROTO_IPV6, IPV6_V6ONLY, options.v6_only ? 1 : 0);
    // What follows is inherited by the streams.
    set_if(options.nodelay, IPPROTO_TCP, TCP_NODELAY, 1);
    if (error == 0) {
        error = detail::set_buffer_sizes(fd, options.receive_buffer_size, options.send_buffer_size);
    }
    if (error == 0 && options.keep_alive.has_value()) {
        error = detail::set_keep_alive_options(fd, options.keep_alive);
    }
    return error;
}

}  // namespace

// Awaiters.

void close_awaiter::await_resume() {
    if (!ended()) throw_unless_completed();
}

int release_awaiter::await_resume() {
    if (const int fd = take_fd(); fd >= 0) return fd;
    throw_unless_completed();
    throw std::system_error(make_error_code(errc::closed), "release");
}

// Streams.

tcp_stream tcp_stream::adopt(int fd) {
    return tcp_stream(adopt_socket(fd, false));
}

void tcp_stream::shutdown_write() {
    const used_descriptor used(handle_, "shutdown_write");
    if (detail::sys().shutdown(used.fd(), SHUT_WR) < 0) fail(errno, "shutdown_write");
}

endpoint tcp_stream::local_endpoint() const {
    return endpoint_of(handle_, detail::sys().getsockname, "local_endpoint");
}

endpoint tcp_stream::remote_endpoint() const {
    return endpoint_of(handle_, detail::sys().getpeername, "remote_endpoint");
}

void tcp_stream::set_nodelay(bool on) {
    set(handle_, IPPROTO_TCP, TCP_NODELAY, on ? 1 : 0, "set_nodelay");
}

bool tcp_stream::nodelay() const {
    return get(handle_, IPPROTO_TCP, TCP_NODELAY, "nodelay") != 0;
}

void tcp_stream::set_keep_alive(const std::optional<keep_alive_options>& options) {
    const used_descriptor used(handle_, "set_keep_alive");
    throw_if(detail::set_keep_alive_options(used.fd(), options), "set_keep_alive");
}

std::optional<keep_alive_options> tcp_stream::keep_alive() const {
    const used_descriptor used(handle_, "keep_alive");
    std::optional<keep_alive_options> options;
    throw_if(detail::get_keep_alive_options(used.fd(), options), "keep_alive");
    return options;
}

void tcp_stream::set_receive_buffer_size(int bytes) {
    set(handle_, SOL_SOCKET, SO_RCVBUF, bytes, "set_receive_buffer_size");
}

int tcp_stream::receive_buffer_size() const {
    return get(handle_, SOL_SOCKET, SO_RCVBUF, "receive_buffer_size");
}

void tcp_stream::set_send_buffer_size(int bytes) {
    set(handle_, SOL_SOCKET, SO_SNDBUF, bytes, "set_send_buffer_size");
}

int tcp_stream::send_buffer_size() const {
    return get(handle_, SOL_SOCKET, SO_SNDBUF, "send_buffer_size");
}

void tcp_stream::set_linger(std::optional<std::chrono::seconds> duration) {
    const used_descriptor used(handle_, "set_linger");
    if (duration.has_value() && duration->count() != 0) fail(EINVAL, "set_linger");
    const linger value{.l_onoff = duration.has_value() ? 1 : 0, .l_linger = 0};
    const int result =
        detail::sys().setsockopt(used.fd(), SOL_SOCKET, SO_LINGER, &value, sizeof(value));
    if (result < 0) fail(errno, "set_linger");
    if (duration.has_value()) handle_.name().descriptor->never_shut_down();
}

// Listeners.

tcp_listener tcp_listener::bind(const endpoint& local, const listen_options& options) {
    const std::string what = "listening on " + local.to_string();
    const int domain = local.address().is_v4() ? AF_INET : AF_INET6;
    new_socket made(detail::sys().socket(domain, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (made.fd() < 0) fail(errno, what);
    if (const int error = apply(made.fd(), local, options); error != 0) fail(error, what);
    sockaddr_storage address;
    const socklen_t size = local.to_sockaddr(address);
    if (detail::sys().bind(made.fd(), reinterpret_cast<const sockaddr*>(&address), size) < 0) {
        fail(errno, what);
    }
    if (detail::sys().listen(made.fd(), options.backlog) < 0) fail(errno, what);
    tcp_listener listener(take_over(made.fd(), what));
    made.taken();
    return listener;
}

tcp_listener tcp_listener::adopt(int fd) {
    return tcp_listener(adopt_socket(fd, true));
}

endpoint tcp_listener::local_endpoint() const {
    return endpoint_of(handle_, detail::sys().getsockname, "local_endpoint");
}

}  // namespace weft::net
