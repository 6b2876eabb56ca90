// SPDX-License-Identifier: MIT
#include "lib/sched/run_watch.hpp"

#include "lib/base/thread_usage.hpp"
#include "support/catch.hpp"
#include "support/scheduler.hpp"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include <unistd.h>

// The rules of the watchdog, without a clock and without threads.

using namespace std::chrono_literals;
using weft::detail::branch;
using weft::detail::report_limit;
using weft::detail::run_watch;
using weft::detail::thread_usage;
using weft::detail::waiting_work;
using weft::detail::watch_verdict;

namespace {

constexpr std::chrono::nanoseconds report_after = 100ms;

/// A worker that runs one branch, a millisecond at a time.
struct watched_worker {
    branch first, second;
    run_watch watch;
    run_watch::sight seen{.count = 1, .branch = &first, .life = 0, .site = {}};

    watched_worker() { watch.see(seen, 1ms); }

    /// A millisecond later it still runs it.
    watch_verdict goes_on(const waiting_work& waiting,
                          thread_usage::used used = {1ms, thread_usage::kind::computed}) {
        CHECK(watch.see(seen, 1ms));
        return watch.judge(1ms, used, waiting, report_after);
    }
};

}  // namespace

TEST_CASE("a branch that others wait for loses the slice after 5 ms and yields after 10",
          "[watchdog]") {
    watched_worker worker;
    for (int now = 1; now <= 30; ++now) {
        const watch_verdict verdict = worker.goes_on({.in_queues = true});
        CHECK(verdict.slice_over == (now == 5));
        CHECK(verdict.yield == (now == 10));
        CHECK(verdict.overrun == (now == 10));
        CHECK_FALSE(verdict.timer_due);
        CHECK_FALSE(verdict.ring);
    }
}

TEST_CASE("a branch that nobody waits for is asked for nothing, but counted", "[watchdog]") {
    watched_worker worker;
    for (int now = 1; now <= 30; ++now) {
        const watch_verdict verdict = worker.goes_on({});
        CHECK_FALSE(verdict.slice_over);
        CHECK_FALSE(verdict.yield);
        CHECK(verdict.overrun == (now == 10));
    }
    // Somebody comes late.
    const watch_verdict verdict = worker.goes_on({.in_queues = true});
    CHECK(verdict.slice_over);
    CHECK(verdict.yield);
}

TEST_CASE("another run begins from the start, of the same branch too", "[watchdog]") {
    watched_worker worker;
    for (int now = 1; now < 10; ++now) worker.goes_on({.in_queues = true});
    ++worker.seen.count;
    CHECK_FALSE(worker.watch.see(worker.seen, 1ms));
    for (int now = 1; now < 10; ++now) CHECK_FALSE(worker.goes_on({.in_queues = true}).yield);
    worker.seen.branch = nullptr;
    CHECK_FALSE(worker.watch.see(worker.seen, 1ms));
    CHECK_FALSE(worker.watch.see(worker.seen, 1ms));
    CHECK_FALSE(worker.watch.active());
    worker.seen.branch = &worker.second;
    CHECK_FALSE(worker.watch.see(worker.seen, 1ms));
    CHECK(worker.watch.active());
}

TEST_CASE("due timers and the poller are asked for once in a run", "[watchdog]") {
    watched_worker worker;
    CHECK(worker.goes_on({.timer = true}).timer_due);
    const watch_verdict second = worker.goes_on({.timer = true, .poller = true});
    CHECK_FALSE(second.timer_due);
    CHECK(second.ring);
    CHECK_FALSE(worker.goes_on({.timer = true, .poller = true}).ring);
}

TEST_CASE("time in which the thread had no processor is not held against the task", "[watchdog]") {
    watched_worker worker;
    constexpr thread_usage::used none{0ns, thread_usage::kind::computed};
    for (int now = 1; now <= 500; ++now) {
        const watch_verdict verdict = worker.goes_on({.in_queues = true}, none);
        CHECK(verdict.yield == (now == 10));  // Which costs nothing.
        CHECK_FALSE(verdict.overrun);
        CHECK_FALSE(verdict.report);
    }
    CHECK(worker.watch.used() == 0ns);
}

TEST_CASE("a task keeps its worker after 10 ms, of which its thread has used half", "[watchdog]") {
    for (const bool short_of_a_core : {false, true}) {
        watched_worker worker;
        for (int now = 1; now <= 12; ++now) {
            const bool uses = !short_of_a_core || now % 3 == 0;
            worker.goes_on({}, uses ? thread_usage::used{1ms, thread_usage::kind::computed}
                                    : thread_usage::used{});
            CHECK(worker.watch.keeps_worker() == (now >= 10 && !short_of_a_core));
        }
        ++worker.seen.count;
        worker.watch.see(worker.seen, 1ms);
        CHECK_FALSE(worker.watch.keeps_worker());
    }
}

TEST_CASE("a call counts as one that blocks after a slice, whatever the task did before",
          "[watchdog]") {
    constexpr thread_usage::used computed{1ms, thread_usage::kind::computed};
    constexpr thread_usage::used blocked{1ms, thread_usage::kind::blocked};
    for (const int before : {0, 1, 10, 500}) {
        watched_worker worker;
        for (int now = 1; now <= before; ++now) {
            worker.goes_on({}, computed);
            CHECK_FALSE(worker.watch.is_blocked());
        }
        for (int now = 1; now <= 30; ++now) {
            worker.goes_on({}, blocked);
            CHECK(worker.watch.is_blocked() == (now >= 10));
        }
    }
}

TEST_CASE("a task that computes after a call is not blocked after half a slice, however long that "
          "was",
          "[watchdog]") {
    constexpr thread_usage::used computed{1ms, thread_usage::kind::computed};
    constexpr thread_usage::used blocked{1ms, thread_usage::kind::blocked};
    for (const int before : {10, 11, 10'000}) {
        watched_worker worker;
        for (int now = 1; now <= before; ++now) worker.goes_on({}, blocked);
        CHECK(worker.watch.is_blocked());
        // Short of a core it does neither.
        for (int now = 1; now <= 20; ++now) worker.goes_on({}, {});
        CHECK(worker.watch.is_blocked());
        for (int now = 1; now <= 20; ++now) {
            worker.goes_on({}, computed);
            CHECK(worker.watch.is_blocked() == (now < 5));
        }
        CHECK(worker.watch.keeps_worker());
    }
}

TEST_CASE("a task that computes a little between calls is blocked", "[watchdog]") {
    constexpr thread_usage::used little{200us, thread_usage::kind::computed};
    constexpr thread_usage::used blocked{1ms, thread_usage::kind::blocked};
    watched_worker worker;
    for (int now = 1; now <= 60; ++now) {
        worker.goes_on({}, now % 4 == 0 ? little : blocked);
        if (now >= 20) CHECK(worker.watch.is_blocked());
    }
    // Another run knows nothing of it.
    ++worker.seen.count;
    worker.watch.see(worker.seen, 1ms);
    CHECK_FALSE(worker.watch.is_blocked());
    for (int now = 1; now < 10; ++now) {
        worker.goes_on({}, blocked);
        CHECK_FALSE(worker.watch.is_blocked());
    }
}

TEST_CASE("a report comes after the threshold, and again when the time has doubled",
          "[watchdog]") {
    watched_worker worker;
    for (int now = 1; now <= 500; ++now) {
        CHECK(worker.goes_on({}).report == (now == 100 || now == 200 || now == 400));
    }
    CHECK_FALSE(worker.watch.mostly_blocked());
    watched_worker blocked;
    for (int now = 1; now <= 100; ++now) {
        blocked.goes_on({}, {1ms, thread_usage::kind::blocked});
    }
    CHECK(blocked.watch.mostly_blocked());
}

TEST_CASE("there is at most one report a second, and the next one counts those left out",
          "[watchdog]") {
    report_limit limit;
    std::uint64_t left_out = 99;
    CHECK(limit.allow(5, left_out));
    CHECK(left_out == 0);
    CHECK_FALSE(limit.allow(6, left_out));
    CHECK_FALSE(limit.allow(1'000'000'004, left_out));
    CHECK(limit.allow(1'000'000'005, left_out));
    CHECK(left_out == 2);
    CHECK(limit.allow(2'000'000'005, left_out));
    CHECK(left_out == 0);
}

TEST_CASE("a report that was allowed and not made leaves the next one its turn", "[watchdog]") {
    report_limit limit;
    std::uint64_t left_out = 0;
    CHECK(limit.allow(5, left_out));
    CHECK_FALSE(limit.allow(6, left_out));
    CHECK_FALSE(limit.allow(7, left_out));
    CHECK(limit.allow(1'000'000'005, left_out));
    CHECK(left_out == 2);
    limit.take_back(left_out);
    CHECK(limit.allow(1'000'000'006, left_out));
    CHECK(left_out == 2);
    CHECK_FALSE(limit.allow(1'000'000'007, left_out));
}

TEST_CASE("what a thread uses: it computes, is blocked, or has ended", "[watchdog]") {
    std::atomic<weft::detail::thread_name> name{weft::detail::thread_name{}};
    std::atomic<int> phase{0};
    std::thread thread([&] {
        name = weft::detail::thread_name::of_this_thread();
        phase = 1;
        while (phase == 1) {}
        phase.wait(2);
    });
    REQUIRE(weft::test::spin_until([&] { return phase == 1; }));
    thread_usage usage;
    usage.begin(name);
    // It gets at least some time.
    std::chrono::nanoseconds computed{0};
    CHECK(weft::test::spin_until([&] {
        std::this_thread::sleep_for(1ms);
        computed += usage.take(1s).time;
        return computed >= 5ms;
    }));
    phase = 2;
    CHECK(weft::test::spin_until([&] {
        std::this_thread::sleep_for(1ms);
        const auto used = usage.take(1s);
        return used.how == thread_usage::kind::blocked && used.time == 1s;
    }));
    phase = 3;
    phase.notify_all();
    thread.join();
    // The kernel lets a joiner go on before the thread has computed its last.
    const auto entry = "/proc/self/task/" + std::to_string(name.load().id);
    CHECK(weft::test::spin_until([&] { return ::access(entry.c_str(), F_OK) != 0; }));
    usage.take(1s);
    CHECK(usage.take(1s).time == 0ns);
}
