// SPDX-License-Identifier: MIT
#pragma once

// What tests of streams share: a connected pair on loopback, a run on each netpoller, and another
// table of system calls for a while.

#include "support/backends.hpp"
#include "support/catch.hpp"
#include "support/watchdog.hpp"

#include "lib/netpoll/system_calls.hpp"

#include <weft/net/tcp.hpp>
#include <weft/runtime.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace weft::test {

/// While it lives, the netpoller and the sockets call the kernel through another table. Only while
/// no runtime exists.
class replaced_calls {
public:
    explicit replaced_calls(const detail::system_calls& table)
        : before_(detail::replace_system_calls(table)) {}
    replaced_calls(const replaced_calls&) = delete;
    replaced_calls& operator=(const replaced_calls&) = delete;
    ~replaced_calls() { detail::replace_system_calls(before_); }

private:
    detail::system_calls before_;
};

/// For tables that replace poll: is the question about waits of sockets? The watchdog asks in the
/// same way whether an epoll set has events.
inline bool asks_about_sockets(const pollfd* asked) {
    struct stat kind {};
    return ::fstat(asked->fd, &kind) == 0 && S_ISSOCK(kind.st_mode);
}

/// The two ends of one connection.
struct stream_pair {
    net::tcp_stream client;
    net::tcp_stream server;
};

inline task<stream_pair> connected_pair() {
    auto listener = net::tcp_listener::bind(net::endpoint::parse("127.0.0.1:0"));
    net::tcp_stream client = co_await net::tcp_stream::connect(listener.local_endpoint());
    net::tcp_stream server = co_await listener.accept();
    co_return stream_pair{std::move(client), std::move(server)};
}

/// The two ends of a socket pair, each as a stream.
inline stream_pair local_pair() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    return {net::tcp_stream::adopt(ends[0]), net::tcp_stream::adopt(ends[1])};
}

/// Runs the task that `make_main()` gives on each netpoller, under a watchdog.
template <class MakeMain>
void on_each_backend(MakeMain make_main, unsigned processors = 2) {
    for (const char* backend : backends()) {
        INFO("netpoll: " << backend);
        const watchdog dog(std::chrono::seconds(90), [backend] { return std::string(backend); });
        run_on(backend, make_main(), processors);
    }
}

/// Raises the soft limit on open files to the hard one. Gives the limit.
inline std::size_t raise_descriptor_limit() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, 1'000'000));
}

}  // namespace weft::test
