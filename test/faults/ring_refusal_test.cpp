// SPDX-License-Identifier: MIT
//
// For how long a kernel has refused to let a ring be entered: attempts count, not the time in which
// none was made, and whatever thread of control was let in ends it.
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/network.hpp"
#include "support/one_processor.hpp"
#include "support/skip.hpp"

#include "lib/netpoll/refusal_time.hpp"
#include "lib/netpoll/ring_poller.hpp"

#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/yield.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include <pthread.h>
#include <signal.h>

using namespace std::chrono_literals;
using weft::detail::kernel_system_calls;
using weft::detail::refusal_time;
using weft::detail::system_calls;
using weft::test::stream_pair;

namespace {

std::atomic<bool> refusing{false};
std::atomic<int> refused{0};
std::atomic<int> admitted{0};

/// What a ring says that is entered while it does not refuse.
enum class answer { all_done, interrupted, refused_the_second_time };
std::atomic<answer> next_answer{answer::all_done};
std::atomic<int> second_times{0};

int end_with(int error) {
    errno = error;
    return -1;
}

system_calls refusing_calls() {
    system_calls table = kernel_system_calls();
    table.io_uring_enter = [](int fd, unsigned submit, unsigned wanted, unsigned flags,
                              const void* argument, std::size_t size) {
        if (!refusing) {
            ++admitted;
            // These two enter nothing, so what waits in the ring goes on waiting.
            if (next_answer == answer::interrupted) return end_with(EINTR);
            if (next_answer == answer::refused_the_second_time) {
                if (admitted % 2 != 0) return 0;
                ++second_times;
                return end_with(EAGAIN);
            }
            return kernel_system_calls().io_uring_enter(fd, submit, wanted, flags, argument, size);
        }
        ++refused;
        return end_with(EAGAIN);
    };
    return table;
}

/// Until the worker has entered its ring in vain, for a poll that is to be armed.
weft::task<> until_refused() {
    const int before = refused;
    while (refused == before) co_await weft::yield();
}

weft::task<> read_one(weft::net::tcp_stream& from) {
    std::array<std::byte, 1> one;
    co_await from.read_some(one);
}

/// No other worker takes a reader, and submits its poll, before the ring refuses.
void run_alone_on_a_ring(weft::task<> main) {
    const weft::test::forced_backend forced("io_uring");
    weft::test::run_alone(std::move(main));
}

void keep_worker_for(std::chrono::nanoseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until) {}
}

/// Between two refusals the ring is not entered for longer than it may be refused.
weft::task<> refuse_beside_a_long_task(std::chrono::nanoseconds kept) {
    stream_pair both = co_await weft::test::connected_pair();
    auto reader = weft::co_spawn(read_one(both.server));
    refusing = true;  // Also the handler, by which the watchdog would have the poll submitted.
    co_await until_refused();
    keep_worker_for(kept);
    co_await until_refused();
    refusing = false;
    co_await both.client.write_all(std::array{std::byte{1}});
    co_await std::move(reader);
}

/// Between two refusals the handler of the rescue signal is let in. Each round needs the ring for a
/// poll of its own.
weft::task<> refuse_the_owner_only(int rounds, std::chrono::nanoseconds kept, answer then) {
    // A completion that waits in the ring, so that the handler enters again and again.
    stream_pair ready = co_await weft::test::connected_pair();
    auto early = weft::co_spawn(read_one(ready.server));
    std::vector<stream_pair> pairs;
    for (int i = 0; i < rounds; ++i) pairs.push_back(co_await weft::test::connected_pair());
    co_await weft::sleep_for(1ms);  // Its poll is armed.
    std::vector<weft::join_handle<void>> readers;
    for (stream_pair& each : pairs) {
        readers.push_back(weft::co_spawn(read_one(each.server)));
        refusing = true;
        co_await until_refused();
        if (&each == &pairs.front()) co_await ready.client.write_all(std::array{std::byte{1}});
        admitted = 0;
        next_answer = then;
        refusing = false;
        ::pthread_kill(::pthread_self(), SIGURG);
        weft::test::child_check(admitted > 0, "the handler has not entered the ring");
        keep_worker_for(kept);
    }
    next_answer = answer::all_done;
    weft::test::child_check((then == answer::refused_the_second_time) == (second_times > 0),
                            "the handler was refused the second time");
    co_await std::move(early);
    for (stream_pair& each : pairs) co_await each.client.write_all(std::array{std::byte{1}});
    for (auto& each : readers) co_await std::move(each);
}

}  // namespace

TEST_CASE("refusals count from one attempt to the next", "[faults][netpoll]") {
    constexpr auto gap = refusal_time::longest_gap;
    refusal_time refusal;
    weft::detail::monotonic_time now = 1'000'000'000;
    const auto after = [&](std::chrono::nanoseconds time) {
        now += time.count();
        return refusal.refused(now);
    };
    CHECK_FALSE(refusal.lasts());
    CHECK(after(0ns) == 0ns);
    CHECK(refusal.lasts());
    CHECK(after(1ms) == 1ms);
    CHECK(after(2ms) == 3ms);
    CHECK(after(1h) == 3ms + gap);  // Nobody has asked meanwhile.
    CHECK(after(1ms) == 4ms + gap);
    refusal.admitted();
    CHECK_FALSE(refusal.lasts());
    CHECK(after(1ms) == 0ns);
    CHECK(after(1ms) == 1ms);
}

TEST_CASE("a ring that is seldom entered is not refused meanwhile", "[faults][netpoll]") {
    if (!weft::test::io_uring_starts()) { WEFT_SKIP("io_uring cannot start here"); }
    const weft::test::replaced_calls calls(refusing_calls());
    const auto result = weft::test::run_in_child([] {
        weft::detail::ring_poller::set_patience(600ms);
        run_alone_on_a_ring(refuse_beside_a_long_task(800ms));
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

// It is let in even if a signal comes meanwhile, or it is refused when it comes once more.
TEST_CASE("a ring that lets a signal handler in does not refuse", "[faults][netpoll]") {
    if (!weft::test::io_uring_starts()) { WEFT_SKIP("io_uring cannot start here"); }
    const weft::test::replaced_calls calls(refusing_calls());
    for (const answer then :
         {answer::all_done, answer::interrupted, answer::refused_the_second_time}) {
        const auto result = weft::test::run_in_child([then] {
            weft::detail::ring_poller::set_patience(600ms);
            run_alone_on_a_ring(
                refuse_the_owner_only(10, refusal_time::longest_gap + 1ms, then));
        });
        INFO("answer " << static_cast<int>(then) << ": " << result.describe());
        CHECK(result.signal == 0);
        CHECK(result.status == 0);
    }
}
