// SPDX-License-Identifier: MIT

// A server that sends back what it receives, with one task for each connection.
//
//     echo_server [ADDRESS:PORT]        127.0.0.1:7000 unless told otherwise; port 0 is a free one

#include <array>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <span>
#include <string_view>
#include <system_error>

#include <weft/weft.hpp>

namespace {

weft::task<> serve(weft::net::tcp_stream stream) {
    std::array<std::byte, 4096> buffer;
    try {
        while (const std::size_t size = co_await stream.read_some(std::span(buffer))) {
            co_await stream.write_all(std::span(buffer).first(size));
        }
    } catch (const std::system_error&) {
        // The client is gone, or the program ends. The stream closes when this task does.
    }
}

weft::task<> listen(std::string_view address) {
    auto listener = weft::net::tcp_listener::bind(weft::net::endpoint::parse(address));
    std::printf("listening on %s\n", listener.local_endpoint().to_string().c_str());
    std::fflush(stdout);
    for (;;) weft::co_spawn(serve(co_await listener.accept())).detach();
}

}  // namespace

int main(int argc, char** argv) {
    try {
        weft::run(listen(argc > 1 ? argv[1] : "127.0.0.1:7000"));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "echo_server: %s\n", error.what());
        return 1;
    }
}
