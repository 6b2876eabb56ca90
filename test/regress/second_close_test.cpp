// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/network.hpp"
#include "support/scheduler.hpp"
#include "support/skip.hpp"

#include "lib/netpoll/ring_poller.hpp"

#include <weft/as_result.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <utility>

// A life that has lost its last reference in the handler of the rescue signal is ended by whoever
// looks, which may be late. A second close that came meanwhile kept its worker until then.

using namespace std::chrono_literals;
using weft::detail::ring_poller;
using weft::detail::worker_thread;
using weft::net::tcp_stream;
using weft::test::spin_until;
using weft::test::stream_pair;

namespace {

/// Leaves a poll of the stream in the ring of its worker, and keeps that until `released`. Gives
/// whether that came in time.
weft::task<bool> keep_home(tcp_stream& stream, std::atomic<worker_thread*>& home,
                           const std::atomic<bool>& released) {
    std::array<std::byte, 1> nothing;
    const auto read =
        co_await weft::as_result(weft::with_timeout(1ms, stream.read_some(nothing)));
    home = &weft::test::this_worker();
    const bool in_time = spin_until([&] { return released.load(); });
    co_return !read.has_value() && in_time;
}

weft::task<> close(tcp_stream& stream) {
    co_await stream.close();
}

/// The worker of this task is the only one that is not kept.
weft::task<> close_twice() {
    const weft::test::held_slice_clock clock;  // The watchdog finds nothing to do.
    stream_pair both = co_await weft::test::connected_pair();
    std::atomic<worker_thread*> home{nullptr};
    std::atomic<bool> released{false};
    auto keeper = weft::co_spawn(keep_home(both.server, home, released));
    REQUIRE(spin_until([&] { return home.load() != nullptr; }));
    auto first = weft::co_spawn(close(both.server));
    while (both.server.is_open()) co_await weft::yield();
    // The handler takes the request of the first close, and the last completion of the poll.
    worker_thread& owner = *home;
    auto& ring = static_cast<ring_poller&>(owner.own_poller());
    const bool handed = spin_until([&] {
        return ring.interrupt_owner(owner.thread().id) && ring.unreleased() == 0;
    });
    auto second = weft::co_spawn(close(both.server));
    co_await weft::yield();  // It begins.
    released = true;
    const bool in_time = co_await std::move(keeper);
    co_await std::move(first);
    co_await std::move(second);
    CHECK(handed);
    CHECK(in_time);
}

}  // namespace

TEST_CASE("a second close keeps nobody while the end of a life is left to others",
          "[regress][netpoll]") {
    if (weft::test::backends().size() != 2) {
        WEFT_SKIP("this run is not to use io_uring, or cannot");
    }
    if (weft::test::thread_sanitizer) {
        WEFT_SKIP("under ThreadSanitizer a signal is not handled while a thread computes");
    }
    const weft::test::forced_backend forced("io_uring");
    weft::run(close_twice(), {.processors = 2, .compensate = false});
}
