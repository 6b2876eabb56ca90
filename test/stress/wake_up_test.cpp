// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/signal_cell.hpp"
#include "support/watchdog.hpp"

#include "stress/late_counter.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <thread>
#include <vector>

// Lost wake-ups. In each step one side does something that must wake the other, at a random moment
// of its way into sleep, and nothing else happens until the other side has reacted. A wake-up that
// is lost is therefore lost for ever, and the watchdog tells.

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

namespace {

/// Lets time pass without giving the processor (weft's) away; the CPU is given to other threads of
/// the system after a while, since there may be more workers than CPUs.
template <class Condition>
void spin_until(Condition&& condition) {
    for (unsigned spins = 0; !condition(); ++spins) {
        if (spins < 2000) {
            weft::detail::std_layer::pause();
        } else {
            std::this_thread::yield();
        }
    }
}

/// From nothing to 20 us, in one of 256 cases a millisecond of sleep, so that all workers park.
template <class Random>
void random_gap(Random& random) {
    const auto value = random();
    if (value % 256 == 0) {
        std::this_thread::sleep_for(1ms);
        return;
    }
    const auto until = steady::now() + std::chrono::nanoseconds((value >> 8) % 20'000);
    if ((value >> 4) % 4 != 0) {
        while (steady::now() < until) weft::detail::std_layer::pause();
    }
}

struct pair_state {
    weft::test::signal_cell there;
    weft::test::signal_cell back;
    std::atomic<std::uint64_t> answered{0};
    std::atomic<steady::rep> asked_at{0};
};

/// The answering side: parks until it is asked, for ever new.
weft::task<> answer(pair_state& state, std::uint64_t rounds, weft::test::late_counter& late) {
    for (std::uint64_t i = 1; i <= rounds; ++i) {
        co_await state.there.wait();
        late.observed(steady::time_point(steady::duration(state.asked_at.load())));
        // The asking side parks in every second round; otherwise it occupies its processor.
        if (i % 2 == 0) state.back.signal();
        state.answered.store(i);
    }
}

/// The asking side: in one round it keeps its processor, so that another worker has to be woken for
/// the answer; in the next one it parks as well.
weft::task<> ask(pair_state& state, std::uint64_t rounds, unsigned seed,
                 weft::test::watchdog& dog) {
    std::minstd_rand random(seed);
    for (std::uint64_t i = 1; i <= rounds; ++i) {
        random_gap(random);
        state.asked_at.store(steady::now().time_since_epoch().count());
        state.there.signal();
        if (i % 2 == 0) {
            co_await state.back.wait();
        } else {
            spin_until([&] { return state.answered.load() == i; });
        }
        if (i % 256 == 0) dog.progress();
    }
}

void park_and_ready(unsigned processors, unsigned pairs, std::size_t total) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    std::vector<pair_state> states(pairs);
    const std::uint64_t rounds = total / pairs;
    weft::test::late_counter late;
    {
        weft::runtime runtime({.processors = processors});
        weft::test::watchdog dog(20s, [&] { return weft::test::describe(runtime.statistics()); });
        std::vector<weft::join_handle<void>> handles;
        for (unsigned i = 0; i < pairs; ++i) {
            handles.push_back(
                runtime.co_spawn(answer, std::ref(states[i]), rounds, std::ref(late)));
            handles.push_back(
                runtime.co_spawn(ask, std::ref(states[i]), rounds, seed + i, std::ref(dog)));
        }
        for (auto& each : handles) each.get();
        CHECK(runtime.statistics().tasks_alive() == 0);
    }
    for (const pair_state& each : states) CHECK(each.answered == rounds);
    CHECK(late.late() == 0);
}

/// Posts of one foreign thread: new tasks, and signals to a task that is parked.
void post_from_outside(unsigned processors, std::size_t total) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    std::minstd_rand random(seed);
    weft::test::late_counter late;
    std::atomic<std::uint64_t> seen{0};
    weft::runtime runtime({.processors = processors});
    weft::test::watchdog dog(20s, [&] { return weft::test::describe(runtime.statistics()); });
    weft::test::signal_cell cell;
    auto listener = [&](std::size_t count) -> weft::task<> {
        for (std::size_t i = 0; i < count; ++i) {
            co_await cell.wait();
            ++seen;
        }
    };
    auto listening = runtime.co_spawn(listener, total / 2);
    auto posted = [&]() -> weft::task<> {
        ++seen;
        co_return;
    };
    for (std::size_t i = 0; i < total; ++i) {
        random_gap(random);
        const auto began = steady::now();
        if (i % 2 == 0) {
            runtime.co_spawn(posted).detach();
        } else {
            cell.signal();
        }
        spin_until([&] { return seen.load() == i + 1; });
        late.observed(began);
        if (i % 256 == 0) dog.progress();
    }
    listening.get();
    CHECK(seen == total / 2 * 2);
    CHECK(late.late() == 0);
}

std::size_t steps() {
    return weft::test::scaled_count(100'000, 10'000'000);
}

}  // namespace

TEST_CASE("stress: no wake-up is lost between workers, 2 processors", "[stress]") {
    park_and_ready(2, 1, steps());
}

TEST_CASE("stress: no wake-up is lost between workers, 8 processors", "[stress]") {
    park_and_ready(8, 2, steps());
}

TEST_CASE("stress: no post from outside is lost, 2 processors", "[stress]") {
    post_from_outside(2, steps());
}

TEST_CASE("stress: no post from outside is lost, 8 processors", "[stress]") {
    post_from_outside(8, steps());
}
