// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/network.hpp"
#include "support/scheduler.hpp"

#include <weft/weft.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <string>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

// When a worker asks the kernel about waits that began without EAGAIN
// (include/weft/detail/netpoll/unverified_waits.hpp): after it has taken what the kernel has told,
// and before it sleeps beside other processors. That the watchdog reminds it is shown by what short
// reads leave behind (../net/unverified_read_test.cpp).

using weft::detail::kernel_system_calls;
using weft::detail::system_calls;
using weft::test::held_slice_clock;
using weft::test::replaced_calls;
using weft::test::run_on;
using weft::test::spin_until;
using weft::test::this_core;
using weft::test::this_worker;

namespace {

constexpr int rounds = 20;

/// Questions to the kernel, and those that it answered with "readable".
std::atomic<int> questions{0};
std::atomic<int> losses{0};

system_calls counted_questions() {
    system_calls table = kernel_system_calls();
    table.poll = [](pollfd* asked, unsigned long count, int milliseconds) {
        const int readable = kernel_system_calls().poll(asked, count, milliseconds);
        if (!weft::test::asks_about_sockets(asked)) return readable;
        ++questions;
        if (readable > 0) ++losses;
        return readable;
    };
    return table;
}

/// A stream, and the other end of it without weft. What that sends is there when the call returns.
class local_peer {
public:
    local_peer() {
        std::array<int, 2> ends{};
        constexpr int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
        REQUIRE(::socketpair(AF_UNIX, type, 0, ends.data()) == 0);
        fd_ = ends[0];
        stream = weft::net::tcp_stream::adopt(ends[1]);
    }
    ~local_peer() { ::close(fd_); }
    local_peer(const local_peer&) = delete;
    local_peer& operator=(const local_peer&) = delete;

    bool send_byte() const { return ::send(fd_, "x", 1, 0) == 1; }

    weft::net::tcp_stream stream;

private:
    int fd_ = -1;
};

/// Reads as many bytes, one at a time.
weft::task<bool> read_bytes(local_peer& peer, int count, std::atomic<int>& read) {
    std::array<std::byte, 64> buffer;
    for (int i = 0; i < count; ++i) {
        const auto limit = weft::test::watchdog_limit;
        const std::size_t size =
            co_await weft::with_timeout(limit, peer.stream.read_some(buffer));
        if (size != 1) co_return false;
        ++read;
    }
    co_return true;
}

bool anything_noted() {
    return !this_worker().own_poller().unverified.empty();
}

/// Waits in the calling task, which keeps its worker, until the watchdog has looked twice.
bool wait_for_looks() {
    const weft::detail::watchdog& dog = this_core().dog;
    const std::uint64_t before = dog.looks();
    return spin_until([&] { return dog.looks() >= before + 2; });
}

/// With one processor: each byte arrives when the wait for it is to be asked about at once.
weft::task<> send_before_the_question() {
    const held_slice_clock clock;
    local_peer peer;
    std::atomic<int> read = 0;
    constexpr int warm = 4;  // Until the poll of the socket stays armed.
    auto reader = weft::co_spawn(read_bytes(peer, warm + rounds, read));
    bool sent = true;
    int noted = 0;
    for (int i = 0; i < warm + rounds; ++i) {
        co_await weft::yield();
        if (anything_noted()) {
            ++noted;
            sent = wait_for_looks() && sent;
            co_await weft::yield();  // From now on the wait is old.
            sent = wait_for_looks() && sent;
        }
        sent = peer.send_byte() && sent;
        while (read == i) co_await weft::yield();
    }
    const bool complete = co_await std::move(reader);
    CHECK(complete);
    CHECK(sent);
    CHECK(noted >= rounds / 2);
}

/// On a worker of its own, which it keeps: looks whenever the reader's worker sleeps.
struct sleep_watcher {
    local_peer& peer;
    const weft::detail::poller& of_reader;
    const std::atomic<int>& read;
    std::atomic<bool> runs = false;
    int unasked = 0;  ///< How often it slept over an unverified wait.
    bool ok = true;

    weft::task<> run() {
        runs = true;
        auto& idle = this_core().idle;
        for (int i = 0; ok && read < rounds; ++i) {
            ok = spin_until([&] { return idle.parked_hint() != 0; });
            if (!of_reader.unverified.empty()) ++unasked;
            ok = ok && peer.send_byte() && spin_until([&] { return read > i; });
        }
        co_return;
    }
};

/// With two processors: the reader's worker has nothing to do but to wait, the other one is kept.
weft::task<> sleep_beside_another() {
    const held_slice_clock clock;
    local_peer peer;
    std::atomic<int> read = 0;
    sleep_watcher watcher{peer, this_worker().own_poller(), read};
    auto other = weft::co_spawn(watcher.run());
    REQUIRE(spin_until([&] { return watcher.runs.load(); }));
    const bool complete = co_await read_bytes(peer, rounds, read);
    co_await std::move(other);
    CHECK(complete);
    CHECK(watcher.ok);
    CHECK(watcher.unasked == 0);
}

}  // namespace

TEST_CASE("an event is taken before the kernel is asked about waits", "[conformance][net]") {
    const replaced_calls replaced(counted_questions());
    for (const char* backend : weft::test::backends()) {
        INFO("netpoll: " << backend);
        losses = 0;
        const weft::test::forced_backend forced(backend);
        weft::run(send_before_the_question(), {.processors = 1, .compensate = false});
        CHECK(losses == 0);
    }
}

TEST_CASE("nobody sleeps over a wait that only it can ask about", "[conformance][net]") {
    const replaced_calls replaced(counted_questions());
    for (const char* backend : weft::test::backends()) {
        INFO("netpoll: " << backend);
        questions = 0;
        const weft::test::forced_backend forced(backend);
        weft::run(sleep_beside_another(), {.processors = 2, .compensate = false});
        CHECK(questions > 0);
    }
}
