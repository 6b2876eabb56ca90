// SPDX-License-Identifier: MIT
#include "support/backends.hpp"
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/nothing.hpp"
#include "support/scheduler.hpp"

#include <weft/as_result.hpp>
#include <weft/net/tcp.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/yield.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <utility>

// A task waited for release(), the descriptor was given to its operation, and the runtime ended and
// destroyed the frame before the task could run and take it. Nobody closed it.

using namespace std::chrono_literals;
using weft::net::endpoint;
using weft::net::tcp_listener;
using weft::net::tcp_stream;
using weft::test::nothing;

namespace {

/// `resumed` tells whether the task got the descriptor.
weft::task<> release(tcp_stream& from, bool& resumed) {
    // They stand in the queue before whoever is readied late.
    for (int i = 0; i < 40; ++i) weft::co_spawn(nothing).detach();
    const int fd = co_await from.release();
    resumed = true;
    tcp_stream::adopt(fd);
}

// The reader holds the last reference: when it has been told that the stream is closed, the release
// is complete. Then it readies one more, so that the releaser goes behind the tasks in the queue,
// and ends the runtime, without grace.
weft::task<> end_with_release_done(bool& resumed) {
    tcp_listener listener = tcp_listener::bind(endpoint::parse("127.0.0.1:0"));
    tcp_stream client = co_await tcp_stream::connect(listener.local_endpoint());
    tcp_stream server = co_await listener.accept();
    auto releaser = weft::co_spawn(release, std::ref(server), std::ref(resumed));
    std::array<std::byte, 1> one;
    co_await weft::as_result(server.read_some(one));
    weft::co_spawn(nothing).detach();
    releaser.detach();
}

}  // namespace

TEST_CASE("a descriptor that release() was given and did not take is closed at the end",
          "[regress][netpoll]") {
    const weft::test::forced_backend forced("epoll");
    const weft::test::held_slice_clock still;  // A slice that ends changes who runs first.
    bool resumed = false;
    weft::run(nothing(), {.processors = 1});  // What is opened once for the process is open now.
    const std::size_t before = weft::test::descriptor_count();
    weft::run(end_with_release_done(resumed), {.processors = 1, .shutdown_grace = 0s});
    CHECK_FALSE(resumed);  // Else the test tells nothing.
    CHECK(weft::test::descriptor_count() == before);
}
