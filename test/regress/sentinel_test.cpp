// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scheduler.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>

// Faults of the sentinel's role: a timer of a busy worker was served by nobody although another
// worker was parked.

using namespace std::chrono_literals;

namespace {

/// Hogs its worker until its deadline has passed. Another worker has to tell: this one never
/// looks at its timers meanwhile.
weft::task<bool> hog_until_stopped() {
    co_return weft::test::spin_until([] { return weft::this_task::stop_requested(); });
}

/// Or until it is too late for that: the system kept the worker that was to park from its core.
weft::task<> hog_until_somebody_parks(std::atomic<int>& busy, const std::atomic<int>& hogging) {
    ++busy;
    auto& idle = weft::test::this_core().idle;
    weft::test::spin_until([&] { return idle.parked_hint() != 0 || hogging != 0; });
    co_return;
}

weft::task<> sleep_then_hog(std::chrono::steady_clock::time_point until, std::atomic<int>& hogging,
                            std::atomic<bool>& done) {
    co_await weft::sleep_until(until);
    ++hogging;
    weft::test::spin_until([&] { return done.load(); });
}

}  // namespace

// The sentinel went to run the task whose timer was the last one, with the other worker parked and
// nothing to watch, so it woke nobody; the next timer then found nobody to be told of it.
TEST_CASE("regress: a timer set while nobody is the sentinel wakes a parked worker", "[regress]") {
    for (int round = 0; round < 10; ++round) {
        auto main = []() -> weft::task<bool> {
            std::atomic<int> busy{0};
            std::atomic<int> hogging{0};
            std::atomic<bool> done{false};
            auto first =
                weft::co_spawn(hog_until_somebody_parks, std::ref(busy), std::cref(hogging));
            auto second =
                weft::co_spawn(hog_until_somebody_parks, std::ref(busy), std::cref(hogging));
            weft::test::spin_until([&] { return busy == 2; });
            // The others are busy, so this worker parks first and becomes the sentinel. It fires
            // both timers, runs this task and wakes one worker, which runs the other one.
            const auto until = std::chrono::steady_clock::now() + 10ms;
            auto third = weft::co_spawn(sleep_then_hog, until, std::ref(hogging), std::ref(done));
            co_await weft::sleep_until(until);
            const bool stopped = co_await weft::with_timeout(10ms, hog_until_stopped());
            done = true;
            co_await std::move(first);
            co_await std::move(second);
            co_await std::move(third);
            co_return stopped;
        };
        REQUIRE(weft::run(main(), {.processors = 3, .compensate = false}));
    }
}

// The sentinel woke a successor, which found a branch to run on its way and took no role, while one
// more worker stayed parked.
TEST_CASE("regress: a successor of the sentinel that finds work hands the role on", "[regress]") {
    for (int round = 0; round < 10; ++round) {
        auto main = []() -> weft::task<bool> {
            std::atomic<int> hogging{0};
            std::atomic<bool> done{false};
            // Three workers get a task at one time, while this one hogs; the fifth has to watch.
            const auto until = std::chrono::steady_clock::now() + 10ms;
            std::vector<weft::join_handle<void>> hogs;
            for (int i = 0; i < 3; ++i) {
                hogs.push_back(
                    weft::co_spawn(sleep_then_hog, until, std::ref(hogging), std::ref(done)));
            }
            co_await weft::sleep_for(5ms);
            const bool stopped = co_await weft::with_timeout(30ms, hog_until_stopped());
            const bool all = hogging.load() == 3;
            done = true;
            for (auto& each : hogs) { co_await std::move(each); }
            co_return stopped&& all;
        };
        REQUIRE(weft::run(main(), {.processors = 5, .compensate = false}));
    }
}
