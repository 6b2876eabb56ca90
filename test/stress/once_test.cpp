// SPDX-License-Identifier: MIT
#include "stress/random_stop.hpp"
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

// A storm at what is done once, a new one for each round: many call, what they do fails often, and
// they are stopped and late on the way. Two must never do it at a time, and it must end well once.

using namespace std::chrono_literals;
using weft::test::side_by_side;
using weft::test::with_random_stop;

namespace {

constexpr unsigned parties = 6;

struct account {
    std::atomic<std::uint64_t> calls{0}, failed{0}, late{0}, stopped{0}, wrong{0};
};

struct round {
    weft::once initialised;
    std::atomic<int> under_way{0};
    std::atomic<int> succeeded{0};
    std::atomic<unsigned> told_done{0};
    int written = 0;
};

/// Counts itself as under way, however it is left.
class under_way {
public:
    under_way(round& of, account& all) : of_(of) {
        if (++of_.under_way != 1 || of_.succeeded != 0) ++all.wrong;
    }
    ~under_way() { --of_.under_way; }
    under_way(const under_way&) = delete;
    under_way& operator=(const under_way&) = delete;

private:
    round& of_;
};

weft::task<> work(round& of, account& all, unsigned random) {
    const under_way counted(of, all);
    for (unsigned yields = random / 4 % 4; yields != 0; --yields) co_await weft::yield();
    if (random % 4 != 0) throw std::runtime_error("it fails now and then");
    of.written = 1;
    ++of.succeeded;
}

/// Counts what has come out of a call. True: of one that was stopped.
bool note_failure(account& all, const std::runtime_error& thrown) {
    const auto* const system = dynamic_cast<const std::system_error*>(&thrown);
    if (system == nullptr) {
        ++all.failed;
    } else if (system->code() == std::errc::timed_out) {
        ++all.late;
    } else if (system->code() == std::errc::operation_canceled) {
        ++all.stopped;
        return true;
    } else {
        ++all.wrong;
    }
    return false;
}

/// Calls until it is done, or this is stopped.
weft::task<> call_often(round& of, account& all, bool& done, unsigned seed) {
    std::minstd_rand random(seed);
    while (!done) {
        ++all.calls;
        const bool hurried = random() % 4 == 0;
        const auto patience = std::chrono::nanoseconds(random() % 8'000);
        const auto choice = static_cast<unsigned>(random());
        try {
            auto call = of.initialised.call_once(work, std::ref(of), std::ref(all), choice);
            if (hurried) {
                co_await weft::with_timeout(patience, std::move(call));
            } else {
                co_await std::move(call);
            }
            done = true;
        } catch (const std::runtime_error& error) {
            // Also std::system_error, of a call that was late or stopped.
            if (note_failure(all, error)) co_return;
        }
    }
}

weft::task<> call_until_done(round& of, account& all, unsigned seed) {
    std::minstd_rand random(seed);
    bool done = false;
    while (!done) {
        co_await with_random_stop(call_often(of, all, done, static_cast<unsigned>(random())),
                                  random, {.longest = 8});
    }
    if (of.written != 1 || !of.initialised.is_done()) ++all.wrong;
    ++of.told_done;
}

weft::task<> rounds(std::size_t count, unsigned seed, account& all, weft::test::watchdog& dog) {
    std::minstd_rand random(seed);
    while (all.calls < count) {
        round one;
        std::vector<weft::task<>> tasks;
        for (unsigned who = 0; who < parties; ++who) {
            tasks.push_back(call_until_done(one, all, static_cast<unsigned>(random())));
        }
        co_await side_by_side(std::move(tasks));
        if (one.succeeded != 1 || one.told_done != parties) ++all.wrong;
        dog.progress();
    }
}

void storm(unsigned processors) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    const std::size_t total = weft::test::scaled_count(100'000, 1'000'000);
    weft::runtime runtime({.processors = processors});
    weft::test::watchdog dog(60s, [&] { return weft::test::describe(runtime.statistics()); });
    account all;
    std::vector<weft::join_handle<void>> tasks;
    for (unsigned i = 0; i < 3; ++i) {
        tasks.push_back(
            runtime.co_spawn(rounds, std::size_t(total), seed + i, std::ref(all), std::ref(dog)));
    }
    for (auto& each : tasks) each.get();
    CHECK(all.wrong == 0);
    CHECK(all.failed != 0);
    CHECK(all.late != 0);
    CHECK(all.stopped != 0);
    CHECK(all.calls >= total);
}

}  // namespace

TEST_CASE("stress: what is done once is done by one call at a time, 2 processors", "[stress]") {
    storm(2);
}

TEST_CASE("stress: what is done once is done by one call at a time, 8 processors", "[stress]") {
    storm(8);
}
