// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <vector>

// Sleeps and timeouts at random, with exact accounting: each ends once, in the way that its times
// allow, and never early.

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

namespace {

struct account {
    std::atomic<std::uint64_t> slept{0};
    std::atomic<std::uint64_t> in_time{0};
    std::atomic<std::uint64_t> late{0};
    std::atomic<std::uint64_t> wrong{0};

    void check(bool right) {
        if (!right) ++wrong;
    }
};

weft::task<> sleep_at_random(account& sums, unsigned seed, int rounds, weft::test::watchdog& dog) {
    std::minstd_rand random(seed);
    for (int i = 0; i < rounds; ++i) {
        const auto duration = std::chrono::microseconds(random() % 500);
        const auto limit = std::chrono::microseconds(random() % 500);
        const auto began = steady::now();
        if (random() % 2 == 0) {
            co_await weft::sleep_for(duration);
            sums.check(steady::now() - began >= duration);
            ++sums.slept;
        } else {
            auto sleeping = weft::with_timeout(limit, weft::sleep_for(duration));
            const auto result = co_await weft::as_result(std::move(sleeping));
            const auto took = steady::now() - began;
            if (result) {
                sums.check(took >= duration);
                ++sums.in_time;
            } else {
                sums.check(took >= limit && result.error() == std::errc::timed_out);
                ++sums.late;
            }
        }
        dog.progress();
    }
}

void account_for_timers(unsigned processors) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed << ", processors " << processors);
    constexpr int tasks = 500;
    const int rounds = static_cast<int>(weft::test::scaled_count(100'000, 10'000'000) / tasks);
    account sums;
    weft::runtime runtime({.processors = processors});
    weft::test::watchdog dog(20s, [&] { return weft::test::describe(runtime.statistics()); });
    std::vector<weft::join_handle<void>> handles;
    for (int i = 0; i < tasks; ++i) {
        handles.push_back(runtime.co_spawn(sleep_at_random, std::ref(sums),
                                           seed + static_cast<unsigned>(i), rounds, std::ref(dog)));
    }
    for (auto& each : handles) each.get();
    CHECK(sums.wrong == 0);
    CHECK(sums.slept + sums.in_time + sums.late == std::uint64_t{tasks} * rounds);
    CHECK(sums.slept != 0);
    CHECK(sums.in_time != 0);
    CHECK(sums.late != 0);
}

}  // namespace

TEST_CASE("stress: sleeps and timeouts at random are accounted for, 2 processors", "[stress]") {
    account_for_timers(2);
}

TEST_CASE("stress: sleeps and timeouts at random are accounted for, 8 processors", "[stress]") {
    account_for_timers(8);
}
