// SPDX-License-Identifier: MIT

// A server that sends back what it receives, with one task for each connection.
//
//     echo_server [ADDRESS:PORT]        127.0.0.1:7000 unless told otherwise; port 0 is a free one

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include <weft/weft.hpp>

namespace {

using namespace std::chrono_literals;

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

/// Has accept failed because there are no descriptors, or no memory of the kernel, for now?
bool is_used_up(std::error_code code) {
    return code == std::errc::too_many_files_open ||
           code == std::errc::too_many_files_open_in_system || code == std::errc::no_buffer_space ||
           code == std::errc::not_enough_memory;
}

weft::task<> listen(std::string_view address) {
    auto listener = weft::net::tcp_listener::bind(weft::net::endpoint::parse(address));
    std::printf("listening on %s\n", listener.local_endpoint().to_string().c_str());
    std::fflush(stdout);
    for (;;) {
        auto accepted = co_await weft::as_result(listener.accept());
        if (accepted) {
            weft::co_spawn(serve(*std::move(accepted))).detach();
        } else if (is_used_up(accepted.error())) {
            // New clients wait in the listener's queue until others leave.
            co_await weft::sleep_for(100ms);
        } else {
            throw std::system_error(accepted.error(), "accept");
        }
    }
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
