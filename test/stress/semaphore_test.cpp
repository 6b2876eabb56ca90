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

// Storms at semaphores and auto reset events: many want permits, and are stopped or late at any
// point. There must never be more permits in use than there are, none may be missing in the end,
// and nobody may be left waiting.

using namespace std::chrono_literals;

namespace {

constexpr unsigned parties = 8;
constexpr std::size_t all_permits = 5;

struct account {
    std::atomic<std::uint64_t> acquired{0}, late{0}, stopped{0}, wrong{0};
    std::atomic<std::size_t> in_use{0};

    std::uint64_t ended() const { return acquired + late + stopped; }
};

/// Counts how a wait has ended. True: it has got what it waited for.
bool note(account& all, const weft::result<void>& waited) {
    if (waited) {
        ++all.acquired;
        return true;
    }
    if (waited.error() == std::errc::timed_out) {
        ++all.late;
    } else if (waited.error() == std::errc::operation_canceled) {
        ++all.stopped;
    } else {
        ++all.wrong;
    }
    return false;
}

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
            const auto acquired = co_await weft::as_result(weft::with_timeout(
                std::chrono::nanoseconds(random() % 4'000), permits.acquire(wanted)));
            has = note(all, acquired);
        } else {
            const auto acquired = co_await weft::as_result(permits.acquire(wanted));
            has = note(all, acquired);
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
        auto inner = weft::co_spawn(use_often, std::ref(permits), std::ref(all),
                                    static_cast<unsigned>(random()));
        for (unsigned yields = random() % 32; yields != 0; --yields) co_await weft::yield();
        if (random() % 2 == 0) inner.request_stop();
        // One that was stopped before it started is destroyed, and throws.
        static_cast<void>(co_await weft::as_result(std::move(inner)));
        dog.progress();
    }
}

weft::task<> storm_task(weft::semaphore& permits, std::size_t count, unsigned seed, account& all,
                        weft::test::watchdog& dog) {
    std::vector<weft::join_handle<void>> tasks;
    for (unsigned who = 0; who < parties; ++who) {
        tasks.push_back(weft::co_spawn(use_until_enough, std::ref(permits), std::ref(all),
                                       std::size_t(count), seed + who, std::ref(dog)));
    }
    for (auto& each : tasks) co_await std::move(each);
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
    CHECK(all.acquired != 0);
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

weft::task<> take_often(weft::auto_reset_event& awaited, account& all, turns& count,
                        unsigned seed) {
    std::minstd_rand random(seed);
    for (std::size_t left = 1 + random() % 50; left != 0; --left) {
        bool has = false;
        if (random() % 2 == 0) {
            const auto waited = co_await weft::as_result(
                weft::with_timeout(std::chrono::nanoseconds(random() % 4'000), awaited.wait()));
            has = note(all, waited);
        } else {
            const auto waited = co_await weft::as_result(awaited.wait());
            has = note(all, waited);
            if (!has) break;
        }
        if (has && all.acquired > count.given) ++all.wrong;
    }
}

weft::task<> take_until_enough(weft::auto_reset_event& awaited, account& all, turns& count,
                               std::size_t enough, unsigned seed) {
    std::minstd_rand random(seed);
    while (all.ended() < enough) {
        auto inner = weft::co_spawn(take_often, std::ref(awaited), std::ref(all), std::ref(count),
                                    static_cast<unsigned>(random()));
        for (unsigned yields = random() % 32; yields != 0; --yields) co_await weft::yield();
        if (random() % 2 == 0) inner.request_stop();
        static_cast<void>(co_await weft::as_result(std::move(inner)));
    }
    --count.waiting;
}

/// Sets the event whenever the set() before has let somebody through. One that is lost, or lets
/// nobody through beside a task that waits, keeps this waiting for ever.
weft::task<> give_turns(weft::auto_reset_event& to_set, account& all, turns& count,
                        weft::test::watchdog& dog) {
    while (count.waiting != 0) {
        if (all.acquired == count.given) {
            ++count.given;
            to_set.set();
            dog.progress();
        }
        co_await weft::yield();
    }
}

weft::task<> turns_task(weft::auto_reset_event& happened, std::size_t enough, unsigned seed,
                        account& all, turns& count, weft::test::watchdog& dog) {
    std::vector<weft::join_handle<void>> tasks;
    for (unsigned who = 0; who < parties; ++who) {
        tasks.push_back(weft::co_spawn(take_until_enough, std::ref(happened), std::ref(all),
                                       std::ref(count), std::size_t(enough), seed + who));
    }
    tasks.push_back(weft::co_spawn(give_turns, std::ref(happened), std::ref(all), std::ref(count),
                                   std::ref(dog)));
    for (auto& each : tasks) co_await std::move(each);
}

void take_turns(unsigned processors) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    const std::size_t total = weft::test::scaled_count(100'000, 1'000'000);
    weft::auto_reset_event happened;
    weft::runtime runtime({.processors = processors});
    weft::test::watchdog dog(60s, [&] { return weft::test::describe(runtime.statistics()); });
    account all;
    turns count;
    runtime
        .co_spawn(turns_task, std::ref(happened), std::size_t(total), seed, std::ref(all),
                  std::ref(count), std::ref(dog))
        .get();
    CHECK(all.wrong == 0);
    CHECK(all.acquired + (happened.is_set() ? 1 : 0) == count.given);
    CHECK(all.acquired != 0);
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
