// SPDX-License-Identifier: MIT
//
// The echo server as a user of weft writes it, on one processor.
#include <weft/net/tcp.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/task.hpp>

#include "support.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <system_error>

namespace {

weft::task<> serve(weft::net::tcp_stream stream) {
    try {
        stream.set_nodelay(true);
        std::array<std::byte, 4096> buffer;
        while (const std::size_t size = co_await stream.read_some(buffer))
            co_await stream.write_all(std::span(buffer).first(size));
    } catch (const std::system_error&) {
        // The peer was killed or gave up; that ends this connection and no other.
    }
}

weft::task<> accept_all(std::uint16_t port) {
    auto listener = weft::net::tcp_listener::bind(
        weft::net::endpoint::parse("127.0.0.1:" + std::to_string(port)));
    echo::announce(listener.local_endpoint().port());
    for (;;) weft::co_spawn(serve(co_await listener.accept())).detach();
}

}  // namespace

int main(int argc, char** argv) {
    const auto port = static_cast<std::uint16_t>(echo::number_option(argc, argv, "--port", 0));
    weft::run(accept_all(port), {.processors = 1});
}
