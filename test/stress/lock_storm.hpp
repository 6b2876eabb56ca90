// SPDX-License-Identifier: MIT
#pragma once

#include "stress/random_stop.hpp"
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/runtime.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <random>
#include <utility>
#include <vector>

namespace weft::test {

/// Up to so many turns at a lock, for a while or until it is stopped.
template <class Account>
using turns_function = task<> (*)(Account& all, std::size_t count, unsigned seed);

/// Takes turns until all parties together have had enough of them, and is stopped again and again.
template <class Account>
task<> take_part(Account& all, turns_function<Account> take_turns, std::size_t enough,
                 unsigned seed, watchdog& dog) {
    std::minstd_rand random(seed);
    while (all.sections() < enough) {
        const std::size_t count = 1 + random() % 50;
        co_await with_random_stop(take_turns(all, count, static_cast<unsigned>(random())), random);
        dog.progress();
    }
}

template <class Account>
task<> lock_storm_task(Account& all, turns_function<Account> take_turns, std::size_t enough,
                       unsigned seed, watchdog& dog) {
    std::vector<task<>> parties;
    for (unsigned who = 0; who < 10; ++who) {
        parties.push_back(take_part(all, take_turns, enough, seed + who, dog));
    }
    co_await side_by_side(std::move(parties));
}

/// A storm at a lock. The account has `wrong`, sections(), describe(), and check_free(), which is
/// called when nobody is left.
template <class Account>
void lock_storm(unsigned processors, turns_function<Account> take_turns) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    const std::size_t enough = scaled_count(100'000, 1'000'000);
    runtime tasks({.processors = processors});
    Account all;
    {
        watchdog dog(std::chrono::seconds(20),
                     [&] { return all.describe() + "\n" + describe(tasks.statistics()); });
        tasks
            .co_spawn(lock_storm_task<Account>, std::ref(all), turns_function<Account>(take_turns),
                      std::size_t(enough), unsigned(seed), std::ref(dog))
            .get();
    }
    CHECK(all.wrong == 0);
    CHECK(all.sections() >= enough);
    CHECK(all.late != 0);
    CHECK(all.stopped != 0);
    all.check_free();
}

}  // namespace weft::test
