// SPDX-License-Identifier: MIT
#include "lib/netpoll/epoll_poller.hpp"

#include "support/catch.hpp"

#include <weft/detail/base/clock.hpp>

#include <atomic>
#include <chrono>
#include <thread>

// A waker that was late rang the bell for a poller that did not wait any more. Its wake was counted
// as not seen for as long as that worker slept elsewhere, and so long each wait of the others
// returned at once: a processor in use for nothing.

using namespace std::chrono_literals;
using weft::detail::branch_list;
using weft::detail::epoll_poller;
using weft::detail::epoll_set;
using weft::detail::monotonic_now;
using weft::detail::monotonic_time;

namespace {

constexpr monotonic_time millisecond = 1'000'000;
constexpr monotonic_time hour = 3600'000 * millisecond;

}  // namespace

TEST_CASE("epoll: a wake for a poller that does not wait leaves the others asleep",
          "[regress][netpoll]") {
    epoll_set set;
    REQUIRE(set.set_up().error == 0);
    epoll_poller away(set);
    epoll_poller stays(set);
    away.wake();
    branch_list readied;
    const monotonic_time until = monotonic_now() + 20 * millisecond;
    int turns = 0;
    while (monotonic_now() < until && turns < 1000) {
        stays.wait(until, readied);
        ++turns;
    }
    CHECK(turns < 10);

    // It is kept for the one that it is meant for.
    const monotonic_time before = monotonic_now();
    away.wait(before + hour, readied);
    CHECK(monotonic_now() - before < hour / 2);
}

TEST_CASE("epoll: of two that wait each comes back when it is woken, whoever reads the bell",
          "[regress][netpoll]") {
    epoll_set set;
    REQUIRE(set.set_up().error == 0);
    epoll_poller first(set);
    epoll_poller second(set);
    const auto wait_for = [](epoll_poller& waiting, const std::atomic<bool>& reason) {
        branch_list readied;
        while (!reason.load()) waiting.wait(monotonic_now() + hour, readied);
    };
    for (int round = 0; round < 200; ++round) {
        std::atomic<bool> first_reason{false};
        std::atomic<bool> second_reason{false};
        std::thread one([&] { wait_for(first, first_reason); });
        std::thread two([&] { wait_for(second, second_reason); });
        if (round % 4 == 0) std::this_thread::sleep_for(1ms);
        first_reason = true;
        first.wake();
        if (round % 2 == 0) one.join();
        second_reason = true;
        second.wake();
        if (round % 2 != 0) one.join();
        two.join();
    }
    SUCCEED("nobody was left waiting");
}
