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

// Storms at a shared mutex: many tasks read and write, try to, hold it over suspensions, and are
// stopped at any point. A writer is alone, and each wait ends.

using namespace std::chrono_literals;
using weft::test::hurried;

namespace {

struct account {
    weft::shared_mutex m;
    std::uint64_t guarded = 0;  // Written by writers only.
    std::atomic<std::uint64_t> reads{0}, writes{0}, missed{0}, wrong{0};
    std::atomic<int> readers{0};
    std::atomic<bool> writing{false};
};

/// A section of a writer.
struct write_section {
    explicit write_section(account& in) : all(in) {
        if (all.writing.exchange(true) || all.readers != 0) ++all.wrong;
        ++all.guarded;
        ++all.writes;
    }
    ~write_section() { all.writing = false; }
    write_section(const write_section&) = delete;
    write_section& operator=(const write_section&) = delete;
    account& all;
};

/// One of a reader, who sees the same all the time.
struct read_section {
    explicit read_section(account& in) : all(in), seen(in.guarded) {
        ++all.readers;
        if (all.writing) ++all.wrong;
        ++all.reads;
    }
    ~read_section() {
        if (all.writing || all.guarded != seen) ++all.wrong;
        --all.readers;
    }
    read_section(const read_section&) = delete;
    read_section& operator=(const read_section&) = delete;
    account& all;
    const std::uint64_t seen;
};

/// One section, or none.
template <class Section, class Guard, class Lock>
weft::task<> take_turn(account& all, std::minstd_rand& random, Lock lock) {
    const auto choice = random() % 8;
    Guard held;
    if (choice == 0) {
        held = Guard(all.m, std::try_to_lock);
    } else {
        auto locked =
            choice <= 2 ? co_await hurried(lock(), random) : co_await weft::as_result(lock());
        if (locked) {
            held = *std::move(locked);
        } else if (locked.error() != std::errc::operation_canceled &&
                   (choice > 2 || locked.error() != std::errc::timed_out)) {
            ++all.wrong;
        }
    }
    if (!held) {
        ++all.missed;
        co_return;
    }
    const Section here(all);
    if (choice == 3) co_await weft::yield();
}

weft::task<> take_turns(account& all, std::size_t count, unsigned seed) {
    using exclusive = weft::unique_lock<weft::shared_mutex>;
    using shared = weft::shared_lock<weft::shared_mutex>;
    std::minstd_rand random(seed);
    for (std::size_t i = 0; i < count; ++i) {
        if (random() % 4 == 0) {
            co_await take_turn<write_section, exclusive>(all, random,
                                                         [&] { return all.m.scoped_lock(); });
        } else {
            co_await take_turn<read_section, shared>(all, random,
                                                     [&] { return all.m.scoped_lock_shared(); });
        }
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
            const std::uint64_t until = all.reads + random() % each;
            while (all.reads < until && !tasks.back().done()) co_await weft::yield();
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
            return std::to_string(all.reads) + " reads, " + std::to_string(all.writes) +
                   " writes\n" + weft::test::describe(runtime.statistics());
        });
        runtime.co_spawn(storm_task, std::ref(all), count, stops, seed, std::ref(dog)).get();
    }
    CHECK(all.wrong == 0);
    CHECK(all.guarded == all.writes);
    CHECK(all.readers == 0);
    if (!stops) CHECK(all.reads + all.writes + all.missed >= count);
    CHECK(all.m.try_lock());
    all.m.unlock();
}

}  // namespace

TEST_CASE("stress: a writer of a shared mutex is alone and nobody is forgotten, 2 processors",
          "[stress]") {
    for (const bool stops : {false, true}) storm(2, stops);
}

TEST_CASE("stress: a writer of a shared mutex is alone and nobody is forgotten, 8 processors",
          "[stress]") {
    for (const bool stops : {false, true}) storm(8, stops);
}
