// SPDX-License-Identifier: MIT
#include "lib/net/socket_options.hpp"
#include "lib/netpoll/poll_descriptor.hpp"
#include "lib/netpoll/system_calls.hpp"

#include <weft/detail/net/connection_operations.hpp>
#include <weft/detail/net/stream_operations.hpp>

#include <cerrno>

#include <netinet/in.h>
#include <netinet/tcp.h>

namespace weft::detail {

namespace {

/// So many connections in a row may fail between their arrival and accept(2). A socket that fails
/// for ever is not asked for ever.
constexpr unsigned accept_failures_limit = 64;

}  // namespace

[[gnu::hot]]
io_operation::attempt_outcome accept_operation::attempt(int fd) noexcept {
    const int taken = sys().accept4(fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (taken >= 0) {
        accepted_ = descriptor_handle(open_descriptor(taken, true));
        if (accepted_.empty()) {
            sys().close(taken);
            fail_with_errno(ENOMEM);
        }
        return attempt_outcome::done;
    }
    switch (errno) {
    case EAGAIN: return attempt_outcome::would_block;
    case EINTR: return attempt_outcome::again;
    // Errors of the connection, not of the listener: the next one may be good.
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case ENETUNREACH:
        if (++failures_ < accept_failures_limit) return attempt_outcome::again;
        break;
    default: break;
    }
    // EMFILE, ENFILE, ENOBUFS, ENOMEM: the connection stays in the queue. EINVAL: not listening, or
    // shut down. EBADF, EPERM, EOPNOTSUPP and the rest: as the system says.
    fail_with_errno(errno);
    return attempt_outcome::done;
}

descriptor_handle accept_operation::finish_accept() {
    if (const std::error_code error = finish()) [[unlikely]]
        throw_system_error(error, "accept");
    return std::move(accepted_);
}

bool connect_operation::start(branch& waiter) noexcept {
    if (socket_.empty() && !make_socket()) return true;
    return io_operation::start(waiter);
}

bool connect_operation::make_socket() noexcept {
    const int domain = to_.address().is_v4() ? AF_INET : AF_INET6;
    const int fd = sys().socket(domain, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        fail_with_errno(errno);
        return false;
    }
    int error = set_buffer_sizes(fd, options_.receive_buffer_size, options_.send_buffer_size);
    if (error == 0 && options_.nodelay) error = set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (error == 0 && options_.keep_alive.has_value()) {
        error = set_keep_alive_options(fd, options_.keep_alive);
    }
    if (error == 0 && options_.local.has_value()) {
        sockaddr_storage address;
        const socklen_t size = options_.local->to_sockaddr(address);
        if (sys().bind(fd, reinterpret_cast<const sockaddr*>(&address), size) < 0) error = errno;
    }
    if (error == 0) socket_ = descriptor_handle(open_descriptor(fd, true));
    if (error == 0 && socket_.empty()) error = ENOMEM;
    if (error != 0) {
        sys().close(fd);
        fail_with_errno(error);
        return false;
    }
    use(socket_.name());
    return true;
}

io_operation::attempt_outcome connect_operation::attempt(int fd) noexcept {
    if (called_) return look(fd);
    called_ = true;
    sockaddr_storage address;
    const socklen_t size = to_.to_sockaddr(address);
    if (sys().connect(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0) {
        return connected(fd);
    }
    switch (errno) {
    // The connection is on its way, also after a signal: a second call would be another one.
    case EINPROGRESS:
    case EINTR: return attempt_outcome::would_block;
    default: break;
    }
    fail_with_errno(errno);
    return attempt_outcome::done;
}

/// Has the connection come to an end, good or bad? A wake-up alone does not tell, it may be false.
io_operation::attempt_outcome connect_operation::look(int fd) noexcept {
    int error = 0;
    if (const int failed = get_option(fd, SOL_SOCKET, SO_ERROR, error); failed != 0) {
        error = failed;
    }
    if (error == 0) {
        sockaddr_storage peer;
        socklen_t size = sizeof(peer);
        if (sys().getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0) {
            return connected(fd);
        }
        if (errno == ENOTCONN) return attempt_outcome::would_block;
        error = errno;
    }
    fail_with_errno(error);
    return attempt_outcome::done;
}

/// A socket that the system binds to the very port it is to connect to connects to itself. That
/// happens on one machine, to a port in the range of those that the system chooses, where nobody
/// listens; and this is what it is told as. Both ends are compared as the system names them: an
/// address of this machine, or none (0.0.0.0), does as well as a loopback address.
io_operation::attempt_outcome connect_operation::connected(int fd) noexcept {
    if (options_.local.has_value()) return attempt_outcome::done;
    const auto name = [fd](int (*ask)(int, sockaddr*, socklen_t*)) -> result<net::endpoint> {
        sockaddr_storage address{};
        socklen_t size = sizeof(address);
        if (ask(fd, reinterpret_cast<sockaddr*>(&address), &size) < 0) {
            return failure(std::error_code(errno, std::system_category()));
        }
        return net::endpoint::from_sockaddr(address, size);
    };
    const result<net::endpoint> local = name(sys().getsockname);
    // The ports differ nearly always; then one call has told.
    if (!local.has_value() || local->port() != to_.port()) return attempt_outcome::done;
    const result<net::endpoint> remote = name(sys().getpeername);
    if (remote.has_value() && *local == *remote) fail_with_errno(ECONNREFUSED);
    return attempt_outcome::done;
}

descriptor_handle connect_operation::finish_connect() {
    if (const std::error_code error = finish()) [[unlikely]] {
        throw_system_error(error, ("connect to " + to_.to_string()).c_str());
    }
    return std::move(socket_);
}

}  // namespace weft::detail
