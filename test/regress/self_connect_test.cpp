// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/network.hpp"

#include <weft/as_result.hpp>
#include <weft/net/tcp.hpp>

#include <system_error>

#include <netinet/in.h>
#include <sys/socket.h>

// A socket that the system binds to the very port it is to connect to connects to itself. That was
// told as a refused connection for 127.0.0.1 and ::1 only.

using weft::detail::system_calls;
using weft::net::endpoint;
using weft::net::tcp_stream;

namespace {

/// Lets the system choose the port that is connected to, on any address of this machine.
int connect_from_same_port(int fd, const sockaddr* to, socklen_t size) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = reinterpret_cast<const sockaddr_in*>(to)->sin_port;
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) < 0) return -1;
    return weft::detail::kernel_system_calls().connect(fd, to, size);
}

/// A port that is free now.
std::uint16_t free_port() {
    const auto listener = weft::net::tcp_listener::bind(endpoint::parse("0.0.0.0:0"));
    return listener.local_endpoint().port();
}

}  // namespace

TEST_CASE("a connection of a socket with itself is refused, whatever the address is called",
          "[regress][tcp]") {
    system_calls table = weft::detail::kernel_system_calls();
    table.connect = connect_from_same_port;
    const weft::test::replaced_calls replaced(table);
    weft::test::on_each_backend([]() -> weft::task<> {
        for (const char* address : {"0.0.0.0", "127.0.0.1", "127.0.0.2"}) {
            const endpoint to(weft::net::ip_address::parse(address), free_port());
            auto connected = co_await weft::as_result(tcp_stream::connect(to));
            REQUIRE(!connected);
            CHECK(connected.error() == std::errc::connection_refused);
        }
    });
}
