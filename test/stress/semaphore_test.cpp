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

// Storms at semaphores and auto reset events: many want permits, and are stopped or late at any
// point. There must never be more permits in use than there are, none may be missing in the end,
// and nobody may be left waiting.

using namespace std::chrono_literals;
using weft::test::hurried;
using weft::test::side_by_side;
using weft::test::wait_account;
using weft::test::with_random_stop;

namespace {

constexpr unsigned parties = 8;
constexpr std::size_t all_permits = 5;

struct account : wait_account {
    std::atomic<std::size_t> in_use{0};
};

/// Gives its permits back also where the task is stopped while it uses them.
class use {
public:
    use(weft::semaphore& of, account& all, std::size_t count) : of_(of), all_(all), count_(count) {
        if ((all.in_use += count) > all_permits) ++all.wrong;
    }
    ~use() {
        all_.in_use -= count_;
        of_.release(count_);
    }
    use(const use&) = delete;
    use& operator=(const use&) = delete;

private:
    weft::semaphore& of_;
    account& all_;
    const std::size_t count_;
};

weft::task<> use_often(weft::semaphore& permits, account& all, unsigned seed) {
    std::minstd_rand random(seed);
    for (std::size_t left = 1 + random() % 50; left != 0; --left) {
        const std::size_t wanted = random() % 4 == 0 ? 1 + random() % all_permits : 1;
        bool has = false;
        if (random() % 8 == 0) {
            has = permits.try_acquire(wanted);
        } else if (random() % 2 == 0) {
            has = all.note(co_await hurried(permits.acquire(wanted), random));
        } else {
            has = all.note(co_await weft::as_result(permits.acquire(wanted)));
            if (!has) break;
        }
        if (!has) continue;
        const use used(permits, all, wanted);
        for (unsigned yields = random() % 3; yields != 0; --yields) co_await weft::yield();
    }
}

weft::task<> use_until_enough(weft::semaphore& permits, account& all, std::size_t count,
                              unsigned seed, weft::test::watchdog& dog) {
    std::minstd_rand random(seed);
    while (all.ended() < count) {
        co_await with_random_stop(use_often(permits, all, static_cast<unsigned>(random())), random);
        dog.progress();
    }
}

weft::task<> storm_task(weft::semaphore& permits, std::size_t count, unsigned seed, account& all,
                        weft::test::watchdog& dog) {
    std::vector<weft::task<>> tasks;
    for (unsigned who = 0; who < parties; ++who) {
        tasks.push_back(use_until_enough(permits, all, count, seed + who, dog));
    }
    co_await side_by_side(std::move(tasks));
}

void storm(unsigned processors) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    const std::size_t total = weft::test::scaled_count(100'000, 1'000'000);
    weft::semaphore permits(all_permits, all_permits);
    weft::runtime runtime({.processors = processors});
    weft::test::watchdog dog(60s, [&] { return weft::test::describe(runtime.statistics()); });
    account all;
    runtime
        .co_spawn(storm_task, std::ref(permits), std::size_t(total), seed, std::ref(all),
                  std::ref(dog))
        .get();
    CHECK(all.wrong == 0);
    CHECK(all.in_use == 0);
    CHECK(permits.available() == all_permits);
    CHECK(all.done != 0);
    CHECK(all.late != 0);
    CHECK(all.stopped != 0);
    CHECK(all.ended() >= total);
}

// -------------------------------------------------------------------------------------------------
// Auto reset events.

struct turns {
    std::atomic<std::uint64_t> given{0};
    std::atomic<unsigned> waiting{parties};
};

weft::task<> take_often(weft::auto_reset_event& awaited, wait_account& all, turns& count,
                        unsigned seed) {
    std::minstd_rand random(seed);
    for (std::size_t left = 1 + random() % 50; left != 0; --left) {
        bool has = false;
        if (random() % 2 == 0) {
            has = all.note(co_await hurried(awaited.wait(), random));
        } else {
            has = all.note(co_await weft::as_result(awaited.wait()));
            if (!has) break;
        }
        if (has && all.done > count.given) ++all.wrong;
    }
}

weft::task<> take_until_enough(weft::auto_reset_event& awaited, wait_account& all, turns& count,
                               std::size_t enough, unsigned seed) {
    std::minstd_rand random(seed);
    while (all.ended() < enough) {
        co_await with_random_stop(take_often(awaited, all, count, static_cast<unsigned>(random())),
                                  random);
    }
    --count.waiting;
}

/// Sets the event whenever the set() before has let somebody through. One that is lost, or lets
/// nobody through beside a task that waits, keeps this waiting for ever.
weft::task<> give_turns(weft::auto_reset_event& to_set, wait_account& all, turns& count,
                        weft::test::watchdog& dog) {
    while (count.waiting != 0) {
        if (all.done == count.given) {
            ++count.given;
            to_set.set();
            dog.progress();
        }
        co_await weft::yield();
    }
}

weft::task<> turns_task(weft::auto_reset_event& happened, std::size_t enough, unsigned seed,
                        wait_account& all, turns& count, weft::test::watchdog& dog) {
    std::vector<weft::task<>> tasks;
    for (unsigned who = 0; who < parties; ++who) {
        tasks.push_back(take_until_enough(happened, all, count, enough, seed + who));
    }
    tasks.push_back(give_turns(happened, all, count, dog));
    co_await side_by_side(std::move(tasks));
}

void take_turns(unsigned processors) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    const std::size_t total = weft::test::scaled_count(100'000, 1'000'000);
    weft::auto_reset_event happened;
    weft::runtime runtime({.processors = processors});
    weft::test::watchdog dog(60s, [&] { return weft::test::describe(runtime.statistics()); });
    wait_account all;
    turns count;
    runtime
        .co_spawn(turns_task, std::ref(happened), std::size_t(total), seed, std::ref(all),
                  std::ref(count), std::ref(dog))
        .get();
    CHECK(all.wrong == 0);
    CHECK(all.done + (happened.is_set() ? 1 : 0) == count.given);
    CHECK(all.done != 0);
    CHECK(all.late != 0);
    CHECK(all.stopped != 0);
    CHECK(all.ended() >= total);
}

}  // namespace

TEST_CASE("stress: a semaphore loses and doubles no permit, 2 processors", "[stress]") {
    storm(2);
}

TEST_CASE("stress: a semaphore loses and doubles no permit, 8 processors", "[stress]") {
    storm(8);
}

TEST_CASE("stress: an auto reset event lets one through for each set(), 2 processors", "[stress]") {
    take_turns(2);
}

TEST_CASE("stress: an auto reset event lets one through for each set(), 8 processors", "[stress]") {
    take_turns(8);
}
