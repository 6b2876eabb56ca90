// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scheduler.hpp"

#include <weft/weft.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

// What needs a clock: S11, S20 (the overrun slice), S31, S32 and S34 of the scheduler's checklist,
// and what the watchdog adds to S33. As the design reads them: a coroutine cannot be taken off a
// processor, so it is asked to go at its next await, and its worker's work is done by others.

using namespace std::chrono_literals;
using weft::test::held_slice_clock;
using weft::test::spin_until;
using weft::test::this_core;
using weft::test::this_worker;

namespace {

/// Waits in the calling task, which keeps its worker, until the watchdog has looked twice.
bool wait_for_looks() {
    const weft::detail::watchdog& dog = this_core().dog;
    const std::uint64_t before = dog.looks();
    return spin_until([&] { return dog.looks() >= before + 2; });
}

/// The same, while `time` passes on the clock of slices.
bool run_on(held_slice_clock& clock, std::chrono::milliseconds time) {
    bool looked = wait_for_looks();
    for (auto passed = 0ms; passed < time; passed += 1ms) {
        clock.advance(1ms);
        looked = wait_for_looks() && looked;
    }
    return looked;
}

weft::task<> note(std::vector<int>& order, int id) {
    order.push_back(id);
    co_return;
}

/// Behind all others, in the global queue.
void note_in_global(std::vector<int>& order, int id) {
    std::thread outside([&core = this_core(), &order, id] {
        weft::detail::task_control* control = weft::detail::prepare_spawn(
            {.runtime = &core, .name = {}, .stop_token = {}, .where = {}});
        weft::detail::launch(*control, note(order, id).release_frame());
        weft::detail::abandon(control);
    });
    outside.join();
}

void compute_for(std::chrono::nanoseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until) {}
}

}  // namespace

TEST_CASE("S11 a thread without a processor watches as long as the runtime lives",
          "[conformance]") {
    weft::runtime runtime({.processors = 2});
    CHECK(runtime.statistics().processors.size() == 2);
    weft::detail::runtime_core* core = nullptr;
    auto look = [&]() -> weft::task<> {
        core = &this_core();
        co_return;
    };
    runtime.co_spawn(look()).get();
    CHECK(core->dog.watches());
    // It rests when nothing has happened for a while, and looks again when somebody works.
    for (int round = 0; round < 3; ++round) {
        REQUIRE(spin_until([&] { return core->dog.rests(); }));
        const std::uint64_t looks = core->dog.looks();
        std::this_thread::sleep_for(20ms);
        CHECK(core->dog.looks() == looks);
        auto work = [&]() -> weft::task<bool> { co_return wait_for_looks(); };
        CHECK(runtime.co_spawn(work()).get());
    }
}

TEST_CASE("S20 S32 a task that has overrun its slice goes behind the global queue",
          "[conformance]") {
    held_slice_clock clock;
    std::vector<int> order, early, late;
    bool looked = false;
    auto main = [&]() -> weft::task<> {
        note_in_global(order, 3);
        weft::co_spawn(note, std::ref(order), 1).detach();
        weft::co_spawn(note, std::ref(order), 2).detach();
        // Short of its slice it goes on at once.
        looked = run_on(clock, 9ms);
        co_await weft::checkpoint();
        early = order;
        looked = run_on(clock, 2ms) && looked;
        co_await weft::checkpoint();
        late = order;
    };
    weft::run(main(), {.processors = 1, .compensate = false});
    CHECK(looked);
    CHECK(early.empty());
    CHECK(late == std::vector<int>{1, 2, 3});
}

TEST_CASE("S32 yield goes behind the local queue, and behind the global one after an overrun",
          "[conformance]") {
    for (const bool overrun : {false, true}) {
        held_slice_clock clock;
        std::vector<int> order;
        std::size_t before = 0;
        auto main = [&]() -> weft::task<> {
            note_in_global(order, 3);
            weft::co_spawn(note, std::ref(order), 1).detach();
            weft::co_spawn(note, std::ref(order), 2).detach();
            run_on(clock, overrun ? 11ms : 2ms);
            co_await weft::yield();
            before = order.size();
            while (order.size() < 3) co_await weft::yield();
        };
        weft::run(main(), {.processors = 1, .compensate = false});
        CHECK(before == (overrun ? 3U : 2U));
    }
}

TEST_CASE("S31 a task that runs for 10 ms goes at its next await, if others wait",
          "[conformance]") {
    held_slice_clock clock;
    bool alone = false, asked = false, alone_yielded = false;
    auto main = [&]() -> weft::task<> {
        const std::uint64_t runs = weft::this_runtime::statistics().processors[0].tasks_run;
        run_on(clock, 30ms);
        co_await weft::checkpoint();
        alone = true;
        alone_yielded = weft::this_runtime::statistics().processors[0].tasks_run != runs;
        std::vector<int> order;
        weft::co_spawn(note, std::ref(order), 1).detach();
        // It has overrun already.
        run_on(clock, 2ms);
        co_await weft::checkpoint();
        asked = !order.empty();
    };
    weft::run(main(), {.processors = 1, .compensate = false});
    CHECK(alone);
    CHECK_FALSE(alone_yielded);
    CHECK(asked);
}

// By the real clock. Without a watchdog a task gives way after 128 checkpoints only, here 256 ms.
// The slice is time on the clock, so a thread that had to wait for a CPU passes fewer checkpoints
// in it, and a watchdog that had to wait lets more of them pass; the latter says nothing.
TEST_CASE("S31 two tasks that compute take turns of about 10 ms", "[conformance]") {
    using clock = std::chrono::steady_clock;
    int fewest = 1000;
    clock::duration shortest = clock::duration::max();
    for (int attempt = 0; attempt < 10 && fewest > 32; ++attempt) {
        int checkpoints = 0;
        std::atomic<bool> other_ran{false};
        clock::duration taken{};
        const auto begin = clock::now();
        auto main = [&]() -> weft::task<> {
            auto other = weft::co_spawn(
                [](std::atomic<bool>& ran) -> weft::task<> {
                    ran = true;
                    co_return;
                },
                std::ref(other_ran));
            while (!other_ran) {
                compute_for(2ms);
                ++checkpoints;
                co_await weft::checkpoint();
            }
            taken = clock::now() - begin;
            co_await std::move(other);
        };
        weft::run(main(), {.processors = 1, .compensate = false, .log = [](std::string_view) {}});
        fewest = std::min(fewest, checkpoints);
        shortest = std::min(shortest, taken);
    }
    INFO("checkpoints before the other task ran: " << fewest);
    INFO("shortest turn: " << shortest / 1us << " us");
    CHECK(shortest >= 9ms);
    CHECK(fewest <= 32);
}

TEST_CASE("S33 a task that has used up the slice hands nothing on through runnext",
          "[conformance]") {
    for (const bool used_up : {false, true}) {
        held_slice_clock clock;
        std::vector<int> order;
        auto main = [&]() -> weft::task<> {
            co_await weft::yield();  // Comes from the ring now, with a slice of its own.
            weft::co_spawn(note, std::ref(order), 1).detach();
            weft::co_spawn(note, std::ref(order), 2).detach();  // In runnext.
            run_on(clock, used_up ? 6ms : 3ms);
            while (order.size() < 2) co_await weft::yield();
        };
        weft::run(main(), {.processors = 1, .compensate = false});
        CHECK(order == (used_up ? std::vector<int>{1, 2} : std::vector<int>{2, 1}));
    }
}

TEST_CASE("S34 a task that does not yield does not stop the others", "[conformance]") {
    constexpr int count = 200;
    std::atomic<int> ended{0};
    auto other = [&]() -> weft::task<> {
        for (int i = 0; i < 5; ++i) {
            co_await weft::yield();
            co_await weft::sleep_for(100us);
        }
        ++ended;
    };
    bool all = false, again = false;
    auto main = [&]() -> weft::task<> {
        // In the queue, in runnext, and with timers in the heap of the worker that is kept.
        std::vector<weft::join_handle<void>> others;
        for (int i = 0; i < count; ++i) others.push_back(weft::co_spawn(other()));
        all = spin_until([&] { return ended == count; });
        co_await weft::checkpoint();
        for (int i = 0; i < count; ++i) others.push_back(weft::co_spawn(other()));
        co_await weft::sleep_for(200us);  // Some of their timers are here now.
        again = spin_until([&] { return ended == 2 * count; });
        for (auto& each : others) co_await std::move(each);
    };
    weft::run(main(), {.processors = 2, .log = [](std::string_view) {}});
    CHECK(all);
    CHECK(again);
}

namespace {

/// Computes from one look of the watchdog to the next, so that no two of them see the same run.
void compute_until_a_look() {
    const weft::detail::watchdog& dog = this_core().dog;
    const std::uint64_t before = dog.looks();
    spin_until([&] { return dog.looks() > before; });
}

/// Never waits, so its worker always has something in its ring.
weft::task<> work_in_steps(const bool& done, int& steps) {
    while (!done) {
        compute_until_a_look();
        ++steps;
        co_await weft::yield();
    }
}

}  // namespace

TEST_CASE("S34 a worker whose tasks work and yield takes what waits for one that is kept",
          "[conformance]") {
    constexpr int count = 50;
    // A step takes a millisecond of the slice, however long the machine makes it.
    held_slice_clock clock;
    int steps = 0;
    auto main = [&]() -> weft::task<> {
        std::atomic<bool> started{false}, done{false};
        std::atomic<int> ended{0};
        auto other = [](std::atomic<int>& counted) -> weft::task<> {
            ++counted;
            co_return;
        };
        auto neighbour = weft::co_spawn([&]() -> weft::task<> {
            started = true;
            for (; !done; ++steps) {
                clock.advance(1ms);
                compute_until_a_look();
                co_await weft::yield();
            }
        });
        spin_until([&] { return started.load(); });  // It is on the other worker.
        for (int i = 0; i < count; ++i) weft::co_spawn(other, std::ref(ended)).detach();
        spin_until([&] { return ended == count; });
        done = true;
        co_await std::move(neighbour);
    };
    weft::run(main(), {.processors = 2, .compensate = false, .log = [](std::string_view) {}});
    // One of them in each 61st tick would take more than 3,000.
    CHECK(steps < 600);
}

namespace {

/// On the only worker, beside two tasks that compute from one look to the next: how many steps of
/// theirs pass at most until what `wait` begins has happened. In eight phases of the worker's
/// turns.
template <class Wait>
int longest_wait_in_steps(Wait wait) {
    int longest = 0;
    auto main = [&]() -> weft::task<> {
        bool done = false;
        int steps = 0;
        auto first = weft::co_spawn(work_in_steps, std::ref(done), std::ref(steps));
        auto second = weft::co_spawn(work_in_steps, std::ref(done), std::ref(steps));
        for (int phase = 0; phase < 8; ++phase) {
            for (int i = 0; i < phase; ++i) co_await weft::yield();
            longest = std::max(longest, co_await wait(steps));
        }
        done = true;
        co_await std::move(first);
        co_await std::move(second);
    };
    weft::run(main(), {.processors = 1, .compensate = false, .log = [](std::string_view) {}});
    return longest;
}

}  // namespace

TEST_CASE("S40 due timers are seen beside tasks that work and yield", "[conformance]") {
    // Due within the first step; the second look that sees it asks the worker.
    CHECK(longest_wait_in_steps([](const int& steps) -> weft::task<int> {
              const int before = steps;
              co_await weft::sleep_for(10us);
              co_return steps - before;
          }) <= 4);
}

TEST_CASE("S40 readable sockets are seen beside tasks that work and yield", "[conformance]") {
    CHECK(longest_wait_in_steps([](const int& steps) -> weft::task<int> {
              std::array<int, 2> ends{};
              REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                                   ends.data()) == 0);
              auto stream = weft::net::tcp_stream::adopt(ends[0]);
              int written = 0;
              auto writer = weft::co_spawn(
                  [](int to, const int& now, int& at) -> weft::task<> {
                      // By then the kernel knows the poll.
                      const int before = now;
                      while (now < before + 16) co_await weft::yield();
                      at = now;
                      REQUIRE(::write(to, "x", 1) == 1);
                  },
                  ends[1], std::cref(steps), std::ref(written));
              std::array<std::byte, 1> one;
              co_await stream.read_some(one);
              const int waited = steps - written;
              co_await std::move(writer);
              ::close(ends[1]);
              co_await stream.close();
              co_return waited;
          }) <= 4);
}

namespace {

/// How many checkpoints of 2 ms a task passes on the only worker until a timer of 1 ms has fired.
int checkpoints_until_a_timer_fires() {
    int checkpoints = 0;
    auto main = [&]() -> weft::task<> {
        bool fired = false;
        auto sleeper = weft::co_spawn(
            [](bool& woke) -> weft::task<> {
                co_await weft::sleep_for(1ms);
                woke = true;
            },
            std::ref(fired));
        co_await weft::yield();  // It sleeps.
        while (!fired) {
            compute_for(2ms);
            ++checkpoints;
            co_await weft::checkpoint();
        }
        co_await std::move(sleeper);
    };
    weft::run(main(), {.processors = 1, .compensate = false, .log = [](std::string_view) {}});
    return checkpoints;
}

}  // namespace

TEST_CASE("S40 a long task with checkpoints lets in due timers", "[conformance]") {
    int fewest = 1000;
    for (int attempt = 0; attempt < 5 && fewest >= 60; ++attempt) {
        fewest = std::min(fewest, checkpoints_until_a_timer_fires());
    }
    // Without being asked it would pass 128 of them.
    CHECK(fewest < 60);
}
