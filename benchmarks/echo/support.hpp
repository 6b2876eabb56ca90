// SPDX-License-Identifier: MIT
//
// What the echo programs share: the error exit, the command line, the listening
// socket and the line by which a server tells its port. Nothing of weft is used here, so that
// the servers weft is compared with depend on the kernel and the C library alone.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>

namespace echo {

/// Prints "what: text of errno" and ends the process with status 1.
[[noreturn]] inline void die(const char* what) {
    std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
    std::exit(1);
}

/// Prints a message and ends the process with status 1.
[[noreturn]] inline void die_because(const char* message) {
    std::fprintf(stderr, "%s\n", message);
    std::exit(1);
}

/// Reads all of `text` as a number. False where it is none, or one that does not fit.
template <class Number>
bool parse_number(std::string_view text, Number& value) {
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    return parsed.ec == std::errc{} && parsed.ptr == end;
}

/// The value of `--name=value` in a command line, or `fallback` where the option is not given.
/// A value that is no number ends the process.
inline std::uint64_t number_option(int argc, char** argv, std::string_view name,
                                   std::uint64_t fallback) {
    for (int i = 1; i < argc; ++i) {
        std::string_view argument = argv[i];
        if (!argument.starts_with(name) || !argument.substr(name.size()).starts_with('=')) continue;
        std::uint64_t value = 0;
        if (!parse_number(argument.substr(name.size() + 1), value))
            die_because("an option has a value that is no number");
        return value;
    }
    return fallback;
}

/// Asks for small packets to leave at once. A failure would falsify every latency.
inline void set_nodelay(int fd) {
    const int on = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) die("TCP_NODELAY");
}

inline sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
}

/// Prints "port N", by which the driver learns that a server is ready. From then on the process
/// also ends when its parent does, so that an interrupted measurement leaves no server behind.
inline void announce(std::uint16_t port) {
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) die("PR_SET_PDEATHSIG");
    std::printf("port %u\n", static_cast<unsigned>(port));
    std::fflush(stdout);
}

/// Opens a non-blocking listening socket on 127.0.0.1 and announces it. With port 0 the kernel
/// chooses.
inline int listen_and_announce(std::uint16_t port) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) die("socket");
    const int on = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) die("SO_REUSEADDR");
    sockaddr_in address = loopback(port);
    socklen_t size = sizeof address;
    if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0) die("bind");
    if (listen(fd, 1024) != 0) die("listen");
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) die("getsockname");
    announce(ntohs(address.sin_port));
    return fd;
}

/// Accepts one connection, without delay for small packets. -1: none is waiting.
inline int accept_one(int listener) {
    for (;;) {
        const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            set_nodelay(fd);
            return fd;
        }
        switch (errno) {
        case EAGAIN:  // Nobody waits any more.
            return -1;
        case EINTR:         // A signal came; the queue is as it was.
        case ECONNABORTED:  // The peer left before it was accepted; the next one may be there.
        case EPROTO:        // The same, as some protocols report it.
        case EPERM:         // A firewall rule forbade this one.
            continue;
        case EMFILE:  // Serving on with fewer connections than asked for would measure
        case ENFILE:  // something else than the case says.
            die_because("accept: no descriptor is free; raise `ulimit -n`");
        case ENOBUFS:  // The kernel has no memory for another socket; the case cannot be
                       // measured.
        case ENOMEM:
        default: die("accept");
        }
    }
}

}  // namespace echo
