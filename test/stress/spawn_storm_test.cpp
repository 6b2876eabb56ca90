// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <thread>
#include <vector>

// Storms of spawning: what was spawned has ended, once.

using namespace std::chrono_literals;

namespace {

weft::task<> grow(std::atomic<std::uint64_t>& ran, int depth, unsigned seed) {
    std::minstd_rand random(seed);
    ++ran;
    for (int i = 0; depth != 0 && i < 4; ++i) {
        auto child =
            weft::co_spawn(grow, std::ref(ran), depth - 1, static_cast<unsigned>(random()));
        switch (random() % 3) {
        case 0: co_await child; break;
        case 1: co_await weft::yield(); [[fallthrough]];
        default: child.detach();
        }
    }
}

void storm(unsigned processors) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    // Trees of 1 + 4 + ... + 4^6 = 5461 tasks.
    const std::size_t trees = weft::test::scaled_count(40, 2000);
    std::atomic<std::uint64_t> ran{0};
    weft::runtime runtime({.processors = processors});
    weft::test::watchdog dog(20s, [&] { return weft::test::describe(runtime.statistics()); });
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 2; ++t) {
        threads.emplace_back([&, t] {
            for (std::size_t i = t; i < trees; i += 2) {
                auto root =
                    runtime.co_spawn(grow, std::ref(ran), 6, seed + static_cast<unsigned>(i));
                if (i % 4 < 2)
                    root.get();
                else
                    root.detach();
                dog.progress();
            }
        });
    }
    for (auto& each : threads) each.join();
    while (runtime.statistics().tasks_alive() != 0) std::this_thread::sleep_for(1ms);
    const auto statistics = runtime.statistics();
    std::uint64_t ended = 0;
    for (const auto& each : statistics.processors) ended += each.ended;
    CHECK(ran == trees * 5461);
    CHECK(statistics.tasks_spawned() == trees * 5461);
    CHECK(ended == trees * 5461);
    CHECK(statistics.spawned_outside == trees);
}

}  // namespace

TEST_CASE("stress: every task of a spawn storm runs and ends once, 2 processors", "[stress]") {
    storm(2);
}

TEST_CASE("stress: every task of a spawn storm runs and ends once, 8 processors", "[stress]") {
    storm(8);
}

TEST_CASE("stress: runtimes that end in the middle of a storm destroy what is left", "[stress]") {
    const std::size_t rounds = weft::test::scaled_count(200, 10'000);
    weft::test::watchdog dog(20s, [] { return std::string(); });
    for (std::size_t i = 0; i < rounds; ++i) {
        std::atomic<std::uint64_t> ran{0};
        auto main = [&]() -> weft::task<> {
            weft::co_spawn(grow, std::ref(ran), 6, static_cast<unsigned>(i)).detach();
            for (std::size_t yields = 0; yields < i % 50; ++yields) co_await weft::yield();
        };
        weft::run(main(), {.processors = 1 + static_cast<unsigned>(i % 4), .shutdown_grace = 0s});
        dog.progress();
    }
    CHECK(rounds != 0);
}
