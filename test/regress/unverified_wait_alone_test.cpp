// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/network.hpp"
#include "support/scheduler.hpp"

#include <weft/weft.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <string_view>

#include <sys/socket.h>
#include <unistd.h>

// With one processor, two workers run while a task keeps one of them. The other one took itself for
// alone, and slept over an unverified wait; the branch that it ran next kept it, while the first
// one was idle again. It has to ask before it sleeps.

using namespace std::chrono_literals;
using weft::detail::kernel_system_calls;
using weft::test::spin_until;
using weft::test::this_core;
using weft::test::this_worker;

namespace {

struct scene {
    std::atomic<int> read{0};
    std::atomic<unsigned> reader_on{0};
    std::atomic<bool> second_runs{false};
    std::atomic<int> in_time{0};
};

weft::task<> read_all(weft::net::tcp_stream& stream, scene& at) {
    std::array<std::byte, 64> buffer;
    for (;;) {
        at.reader_on = this_worker().index();
        const auto size = co_await weft::as_result(stream.read_some(buffer));
        if (!size || *size == 0) co_return;
        at.read += static_cast<int>(*size);
    }
}

/// Keeps its worker until so much is read, or for two seconds.
weft::task<> keep_until_read(scene& at, int wanted) {
    at.second_runs = true;
    at.in_time = spin_until([&] { return at.read >= wanted; }, 2s) ? 1 : -1;
    co_return;
}

/// False: the reader was elsewhere.
weft::task<bool> attempt(scene& at) {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    auto stream = weft::net::tcp_stream::adopt(ends[1]);
    const auto send = [&](std::string_view text) {
        return ::send(ends[0], text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
    };
    auto reader = weft::co_spawn(read_all(stream, at));
    // From here on this task keeps its worker, and the reader runs on the other one.
    constexpr int warm = 8;
    bool good = true;
    for (int i = 1; i <= warm; ++i) {
        good = good && send("x") && spin_until([&] { return at.read >= i; });
    }
    auto& core = this_core();
    const unsigned mine = this_worker().index();
    weft::join_handle<void> second;
    good = good && core.worker_count() == 2 && at.reader_on != mine && send("xy") &&
           spin_until([&] {
               const auto& io = core.worker_at(1 - mine).own_poller();
               return at.read > warm + 1 ||
                      (at.read == warm + 1 && core.idle.parked_hint() != 0 &&
                       !io.unverified.empty());
           });
    if (good && at.read > warm + 1) {
        at.in_time = 1;  // It, or the watchdog, has asked.
    } else if (good) {
        second = weft::co_spawn(keep_until_read(at, warm + 2));
        good = spin_until([&] { return at.second_runs.load(); });
        // Now the second one keeps the reader's worker, and this one has nothing to do.
        co_await std::move(second);
    }
    ::close(ends[0]);
    co_await std::move(reader);
    co_return good;
}

}  // namespace

TEST_CASE("with one processor, nobody idles beside a wait that a worker in the place of another "
          "has left unasked",
          "[regress][net]") {
    auto table = kernel_system_calls();
    // Gives one byte at a time, so that a short read leaves something behind.
    table.recv = [](int fd, void* buffer, std::size_t size, int flags) {
        return kernel_system_calls().recv(fd, buffer, size > 1 ? 1 : size, flags);
    };
    const weft::test::replaced_calls replaced(table);
    int tried = 0, late = 0;
    auto main = [&]() -> weft::task<> {
        for (int i = 0; i < 10 && late == 0; ++i) {
            scene at;
            if (!co_await attempt(at)) continue;
            ++tried;
            if (at.in_time != 1) ++late;
        }
    };
    weft::run(main(), {.processors = 1, .log = [](std::string_view) {}});
    CHECK(tried > 0);
    CHECK(late == 0);
}
