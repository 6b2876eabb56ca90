// SPDX-License-Identifier: MIT
#include "stress/hurried.hpp"
#include "stress/random_stop.hpp"
#include "stress/wait_account.hpp"
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

// A storm at a barrier: its tasks pass it phase by phase, are stopped and late on the way, arrive
// again then, and drop out one after the other.

using namespace std::chrono_literals;
using weft::test::hurried;
using weft::test::side_by_side;
using weft::test::with_random_stop;

namespace {

constexpr unsigned parties = 6;

struct account : weft::test::wait_account {
    std::atomic<std::uint64_t> phases{0};
};

struct count_phase {
    account* all;
    void operator()() const noexcept { ++all->phases; }
};
using meeting = weft::barrier<count_phase>;

weft::task<> arrive(meeting& at, weft::result<void>& passed) {
    passed = co_await weft::as_result(at.arrive_and_wait());
}

/// Arrives once, in one of several ways. True: it has passed.
weft::task<bool> arrive_somehow(meeting& at, account& all, std::minstd_rand& random) {
    weft::result<void> passed;
    switch (random() % 4) {
    case 0: {
        passed = co_await hurried(at.arrive_and_wait(), random);
        break;
    }
    case 1: {
        // What it is if that is stopped before it starts.
        passed = weft::failure(std::make_error_code(std::errc::operation_canceled));
        co_await with_random_stop(arrive(at, passed), random, {.longest = 4});
        break;
    }
    default: {
        passed = co_await weft::as_result(at.arrive_and_wait());
        break;
    }
    }
    co_return all.note(passed);
}

weft::task<> take_part(meeting& at, account& all, std::uint64_t phases, unsigned seed,
                       weft::test::watchdog& dog) {
    std::minstd_rand random(seed);
    for (std::uint64_t phase = 1; phase <= phases;) {
        const bool passed = co_await arrive_somehow(at, all, random);
        // Without this task no phase ends, so it cannot be another one yet.
        if (all.phases != (passed ? phase : phase - 1)) ++all.wrong;
        if (passed) ++phase;
        dog.progress();
    }
    at.arrive_and_drop();
}

weft::task<> storm_task(meeting& at, account& all, std::uint64_t fewest, unsigned seed,
                        weft::test::watchdog& dog) {
    std::vector<weft::task<>> tasks;
    for (unsigned who = 0; who < parties; ++who) {
        tasks.push_back(take_part(at, all, fewest + 50 * who, seed + who, dog));
    }
    co_await side_by_side(std::move(tasks));
}

void storm(unsigned processors) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    const std::size_t total = weft::test::scaled_count(100'000, 1'000'000);
    const std::uint64_t fewest = total / parties;
    weft::runtime runtime({.processors = processors});
    weft::test::watchdog dog(60s, [&] { return weft::test::describe(runtime.statistics()); });
    account all;
    meeting at(parties, count_phase{&all});
    runtime.co_spawn(storm_task, std::ref(at), std::ref(all), fewest, seed, std::ref(dog)).get();
    CHECK(all.wrong == 0);
    // The last one to drop out ends a phase as well.
    CHECK(all.phases == fewest + 50 * (parties - 1) + 1);
    CHECK(all.done == parties * fewest + 50 * parties * (parties - 1) / 2);
    CHECK(all.late != 0);
    CHECK(all.stopped != 0);
    CHECK(all.ended() >= total);
}

}  // namespace

TEST_CASE("stress: nobody passes a barrier before all have arrived, 2 processors", "[stress]") {
    storm(2);
}

TEST_CASE("stress: nobody passes a barrier before all have arrived, 8 processors", "[stress]") {
    storm(8);
}
