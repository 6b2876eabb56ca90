// SPDX-License-Identifier: MIT
#include "stress/hurried.hpp"
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <system_error>
#include <vector>

// Storms at a mutex: many tasks lock it, try to, hold it over suspensions, and are stopped at any
// point, by timeouts and by others (Tokio 2854, 3215). Sections never overlap, and each wait ends.

using namespace std::chrono_literals;
using weft::test::hurried;

namespace {

struct account {
    weft::mutex m;
    std::uint64_t guarded = 0;  // Written in sections only.
    std::atomic<std::uint64_t> sections{0}, missed{0}, wrong{0};
    std::atomic<bool> inside{false};

    /// A section, from construction to destruction.
    struct section {
        explicit section(account& in) : all(in) {
            if (all.inside.exchange(true)) ++all.wrong;
            ++all.guarded;
            ++all.sections;
        }
        ~section() { all.inside = false; }
        section(const section&) = delete;
        section& operator=(const section&) = delete;
        account& all;
    };
};

/// One section, or none. True: its scope was stopped.
weft::task<bool> take_turn(account& all, std::minstd_rand& random) {
    const auto choice = random() % 8;
    weft::unique_lock<weft::mutex> held;
    if (choice == 0) {
        held = weft::unique_lock<weft::mutex>(all.m, std::try_to_lock);
        if (!held) ++all.missed;
    } else {
        auto locked = choice <= 2 ? co_await hurried(all.m.scoped_lock(), random)
                                  : co_await weft::as_result(all.m.scoped_lock());
        if (locked) {
            held = *std::move(locked);
        } else {
            ++all.missed;
            if (locked.error() == std::errc::operation_canceled) co_return true;
            if (choice > 2 || locked.error() != std::errc::timed_out) ++all.wrong;
        }
    }
    if (!held) co_return false;
    const account::section here(all);
    // Some sections suspend, and some last for longer than who waits is patient.
    if (choice == 3) co_await weft::yield();
    if (random() % 2048 == 0) co_await weft::as_result(weft::sleep_for(2ms));
    co_return false;
}

weft::task<> take_turns(account& all, std::size_t count, unsigned seed) {
    std::minstd_rand random(seed);
    for (std::size_t i = 0; i < count; ++i) {
        if (co_await take_turn(all, random)) co_return;
    }
}

weft::task<> storm_task(account& all, std::size_t count, bool stops, unsigned seed,
                        weft::test::watchdog& dog) {
    constexpr unsigned parties = 10;
    std::minstd_rand random(seed);
    for (std::size_t turns = 0; turns < count;) {
        const std::size_t each = stops ? 50 : count / parties + 1;
        std::vector<weft::join_handle<void>> tasks;
        for (unsigned who = 0; who < parties; ++who) {
            tasks.push_back(weft::co_spawn(take_turns, std::ref(all), std::size_t(each),
                                           static_cast<unsigned>(random())));
        }
        for (unsigned i = 0; stops && i < parties / 2; ++i) {
            const std::uint64_t until = all.sections + random() % each;
            while (all.sections < until && !tasks.back().done()) co_await weft::yield();
            tasks[random() % parties].request_stop();
        }
        for (auto& task : tasks) {
            const auto ended = co_await weft::as_result(std::move(task));
            if (!ended && !(stops && ended.error() == std::errc::operation_canceled)) ++all.wrong;
        }
        turns += each * parties;
        dog.progress();
    }
}

void storm(unsigned processors, bool stops) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    const std::size_t count = weft::test::scaled_count(100'000, 1'000'000);
    weft::runtime runtime({.processors = processors});
    account all;
    {
        weft::test::watchdog dog(20s, [&] {
            return std::to_string(all.sections) + " sections, held by task " +
                   std::to_string(all.m.holder()) + "\n" +
                   weft::test::describe(runtime.statistics());
        });
        runtime.co_spawn(storm_task, std::ref(all), count, stops, seed, std::ref(dog)).get();
    }
    CHECK(all.wrong == 0);
    CHECK(all.guarded == all.sections);
    if (!stops) CHECK(all.sections + all.missed >= count);
    CHECK(all.m.try_lock());
    all.m.unlock();
}

}  // namespace

TEST_CASE("stress: sections of a mutex never overlap and nobody is forgotten, 2 processors",
          "[stress]") {
    for (const bool stops : {false, true}) storm(2, stops);
}

TEST_CASE("stress: sections of a mutex never overlap and nobody is forgotten, 8 processors",
          "[stress]") {
    for (const bool stops : {false, true}) storm(8, stops);
}
