// SPDX-License-Identifier: MIT
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

namespace {

constexpr unsigned parties = 6;

struct account {
    std::atomic<std::uint64_t> passed{0}, late{0}, stopped{0}, wrong{0};
    std::atomic<std::uint64_t> phases{0};

    std::uint64_t ended() const { return passed + late + stopped; }
};

struct count_phase {
    account* all;
    void operator()() const noexcept { ++all->phases; }
};
using meeting = weft::barrier<count_phase>;

weft::task<weft::result<void>> arrive(meeting& at) {
    co_return co_await weft::as_result(at.arrive_and_wait());
}

/// Arrives once, in one of several ways. True: it has passed.
weft::task<bool> arrive_somehow(meeting& at, account& all, std::minstd_rand& random) {
    weft::result<void> passed;
    switch (random() % 4) {
    case 0: {
        passed = co_await weft::as_result(
            weft::with_timeout(std::chrono::nanoseconds(random() % 8'000), at.arrive_and_wait()));
        break;
    }
    case 1: {
        auto inner = weft::co_spawn(arrive, std::ref(at));
        for (unsigned yields = random() % 4; yields != 0; --yields) co_await weft::yield();
        inner.request_stop();
        auto ended = co_await weft::as_result(std::move(inner));
        passed = ended ? *ended : weft::result<void>(tl::unexpect, ended.error());
        break;
    }
    default: {
        passed = co_await weft::as_result(at.arrive_and_wait());
        break;
    }
    }
    if (passed) {
        ++all.passed;
        co_return true;
    }
    if (passed.error() == std::errc::timed_out) {
        ++all.late;
    } else if (passed.error() == std::errc::operation_canceled) {
        ++all.stopped;
    } else {
        ++all.wrong;
    }
    co_return false;
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

void storm(unsigned processors) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    const std::size_t total = weft::test::scaled_count(100'000, 1'000'000);
    const std::uint64_t fewest = total / parties;
    weft::runtime runtime({.processors = processors});
    weft::test::watchdog dog(60s, [&] { return weft::test::describe(runtime.statistics()); });
    account all;
    meeting at(parties, count_phase{&all});
    std::vector<weft::join_handle<void>> tasks;
    for (unsigned who = 0; who < parties; ++who) {
        tasks.push_back(runtime.co_spawn(take_part, std::ref(at), std::ref(all), fewest + 50 * who,
                                         seed + who, std::ref(dog)));
    }
    for (auto& each : tasks) each.get();
    CHECK(all.wrong == 0);
    // The last one to drop out ends a phase as well.
    CHECK(all.phases == fewest + 50 * (parties - 1) + 1);
    CHECK(all.passed == parties * fewest + 50 * parties * (parties - 1) / 2);
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
