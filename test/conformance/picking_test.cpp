// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scheduler.hpp"
#include "support/signal_cell.hpp"

#include "lib/sched/victim_order.hpp"

#include <weft/weft.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

// Picking the next task: S22 to S30 of the scheduler's checklist.

using namespace std::chrono_literals;
using weft::test::signal_cell;
using weft::test::spin_until;
using weft::test::this_core;
using weft::test::this_worker;

namespace {

/// Spawns from a thread that is no worker: into the global queue, in order.
template <class MakeTask>
void spawn_outside(weft::detail::runtime_core& core, std::size_t count, MakeTask make) {
    std::thread outside([&] {
        for (std::size_t i = 0; i < count; ++i) {
            weft::detail::task_control* control = weft::detail::prepare_spawn(
                {.runtime = &core, .name = {}, .stop_token = {}, .where = {}});
            weft::detail::launch(*control, make(i).release_frame());
            weft::detail::abandon(control);
        }
    });
    outside.join();
}

weft::task<> hog(std::atomic<bool>& started, std::atomic<bool>& until) {
    started = true;
    spin_until([&] { return until.load(); });
    co_return;
}

weft::task<> set(std::atomic<bool>& flag) {
    flag = true;
    co_return;
}

/// What ran, in order, from several threads.
class run_log {
public:
    void add(int number) {
        const std::lock_guard held(mutex_);
        numbers_.push_back(number);
    }
    std::size_t size() const {
        const std::lock_guard held(mutex_);
        return numbers_.size();
    }
    std::vector<int> numbers() const {
        const std::lock_guard held(mutex_);
        return numbers_;
    }

private:
    mutable std::mutex mutex_;
    std::vector<int> numbers_;
};

weft::task<> note(run_log& log, int number) {
    log.add(number);
    co_return;
}

}  // namespace

TEST_CASE("S22 a worker schedules, runs and schedules again", "[conformance]") {
    weft::runtime runtime({.processors = 1, .compensate = false});
    std::set<std::thread::id> threads;
    auto look = [](std::set<std::thread::id>& ran_on) -> weft::task<> {
        ran_on.insert(std::this_thread::get_id());
        co_await weft::yield();
        ran_on.insert(std::this_thread::get_id());
    };
    for (int i = 0; i < 1000; ++i) runtime.co_spawn(look, std::ref(threads)).get();
    CHECK(threads.size() == 1);
    CHECK(runtime.statistics().processors[0].tasks_run == 2000);
}

TEST_CASE("S23 runnext comes first, then the ring, the global queue, and theft last",
          "[conformance]") {
    const weft::test::held_slice_clock still;
    auto main = []() -> weft::task<std::vector<int>> {
        run_log log;
        spawn_outside(this_core(), 1, [&](std::size_t) { return note(log, 4); });
        weft::co_spawn(note, std::ref(log), 2).detach();
        weft::co_spawn(note, std::ref(log), 3).detach();
        weft::co_spawn(note, std::ref(log), 1).detach();
        co_await weft::sleep_for(1ms);
        co_return log.numbers();
    };
    CHECK(weft::run(main(), {.processors = 1, .compensate = false}) ==
          std::vector<int>{1, 2, 3, 4});

    // The other worker finds work in the global queue and in this one's ring.
    auto second = []() -> weft::task<std::vector<int>> {
        run_log log;
        std::atomic<bool> started{false}, release{false};
        auto other = weft::co_spawn(hog, std::ref(started), std::ref(release));
        spin_until([&] { return started.load(); });
        for (int i = 1; i <= 4; ++i) weft::co_spawn(note, std::ref(log), i).detach();
        spawn_outside(this_core(), 1, [&](std::size_t) { return note(log, 5); });
        release = true;
        spin_until([&] { return log.size() >= 4; });
        co_await std::move(other);
        // They use the log until they have ended.
        while (weft::this_runtime::statistics().tasks_alive() > 1) {
            co_await weft::sleep_for(50us);
        }
        co_return log.numbers();
    };
    const auto ran = weft::run(second(), {.processors = 2, .compensate = false});
    REQUIRE(ran.size() >= 4);
    CHECK(ran[0] == 5);
}

TEST_CASE("S24 a task in the global queue waits at most 61 ticks", "[conformance]") {
    auto main = []() -> weft::task<std::size_t> {
        std::size_t longest = 0;
        for (int phase = 0; phase < 61; ++phase) {
            for (int i = 0; i < phase; ++i) co_await weft::yield();
            std::atomic<bool> ran{false};
            spawn_outside(this_core(), 1, [&](std::size_t) { return set(ran); });
            std::size_t ticks = 0;  // This task is always ready, so the ring is never empty.
            while (!ran && ticks < 1000) {
                co_await weft::yield();
                ++ticks;
            }
            longest = std::max(longest, ticks);
        }
        co_return longest;
    };
    const std::size_t longest = weft::run(main(), {.processors = 1, .compensate = false});
    CHECK(longest <= 61);
    CHECK(longest >= 60);
}

TEST_CASE("S25 an empty ring takes a share of the global queue", "[conformance]") {
    const weft::test::held_slice_clock still;  // The watchdog takes nothing away.
    struct seen {
        std::size_t global = 0, ring = 0;
    };
    auto look = [](seen& first, std::atomic<std::size_t>& ran) -> weft::task<> {
        // Counted when it is done with `first`.
        if (ran == 0) first = {this_core().global.size(), this_worker().p.queue.ring_size()};
        ++ran;
        co_return;
    };
    auto main = [](auto make_look, std::size_t count) -> weft::task<seen> {
        seen first;
        std::atomic<std::size_t> ran{0};
        std::atomic<bool> started{false}, release{false};
        weft::join_handle<void> other;
        if (weft::this_runtime::processors() == 2) {
            other = weft::co_spawn(hog, std::ref(started), std::ref(release));
            spin_until([&] { return started.load(); });
        }
        spawn_outside(this_core(), count, [&](std::size_t) { return make_look(first, ran); });
        while (ran == 0) co_await weft::sleep_for(1us);
        release = true;
        while (ran != count) co_await weft::sleep_for(100us);
        if (other) co_await std::move(other);
        co_return first;
    };
    // min(300 / 1 + 1, 128): the first one runs at once.
    const seen alone = weft::run(main(look, 300), {.processors = 1, .compensate = false});
    CHECK(alone.global == 300 - 128);
    CHECK(alone.ring == 127);
    // min(10 / 2 + 1, 128), while the other processor is busy.
    const seen share = weft::run(main(look, 10), {.processors = 2, .compensate = false});
    CHECK(share.global == 4);
    CHECK(share.ring == 5);
}

TEST_CASE("S26 idle processors look at nothing until they are woken", "[conformance]") {
    weft::runtime runtime({.processors = 2, .compensate = false});
    weft::detail::runtime_core* core = nullptr;
    auto get_core = [](weft::detail::runtime_core** to) -> weft::task<> {
        *to = &this_core();
        co_return;
    };
    runtime.co_spawn(get_core, &core).get();
    REQUIRE(spin_until([&] { return core->idle.parked_hint() == 2; }));
    const auto parks = [&] {
        const auto statistics = runtime.statistics();
        return statistics.processors[0].parks + statistics.processors[1].parks;
    };
    // That nothing happens can only be seen over a time. The second worker may have been about to
    // sleep when it was counted as parked: hence a second look, and a third where that took long.
    bool quiet = false;
    for (int look = 0; look < 3 && !quiet; ++look) {
        const auto before = parks();
        std::this_thread::sleep_for(200ms);
        quiet = parks() == before;
    }
    CHECK(quiet);
    std::atomic<bool> ran{false};
    runtime.co_spawn(set(ran)).detach();
    CHECK(spin_until([&] { return ran.load(); }));
}

TEST_CASE("S27 a thief takes half of the ring, rounded up, and runs the last of it at once",
          "[conformance]") {
    const weft::test::held_slice_clock still;  // The watchdog takes nothing away.
    struct seen {
        int stolen_first = 0;
        std::size_t thief_ring = 0, victim_ring = 0;
        bool next_stayed = false;
    };
    auto stolen = [](run_log& log, int number, seen& result, std::atomic<bool>& inspected,
                     std::uint32_t victim) -> weft::task<> {
        if (this_worker().index() != victim && log.size() == 0) {
            result.stolen_first = number;
            result.thief_ring = this_worker().p.queue.ring_size();
            log.add(number);
            spin_until([&] { return inspected.load(); });
        } else {
            log.add(number);
        }
        co_return;
    };
    auto main = [](auto make, int count) -> weft::task<seen> {
        seen result;
        run_log log;
        std::atomic<bool> started{false}, release{false}, inspected{false};
        auto other = weft::co_spawn(hog, std::ref(started), std::ref(release));
        spin_until([&] { return started.load(); });
        const std::uint32_t here = this_worker().index();
        // The last one stays in runnext; `count` lie in the ring.
        std::vector<weft::join_handle<void>> handles;
        for (int i = 1; i <= count + 1; ++i) {
            handles.push_back(weft::co_spawn(make, std::ref(log), i, std::ref(result),
                                             std::ref(inspected), here));
        }
        release = true;
        spin_until([&] { return log.size() != 0; });
        result.victim_ring = this_worker().p.queue.ring_size();
        result.next_stayed = this_worker().p.queue.peek_next() != nullptr;
        inspected = true;
        for (auto& each : handles) co_await std::move(each);
        co_await std::move(other);
        co_return result;
    };
    for (const int count : {1, 2, 3, 10, 101, 256}) {
        const seen result = weft::run(main(stolen, count), {.processors = 2, .compensate = false});
        const int half = count - count / 2;
        CHECK(result.stolen_first == half);
        CHECK(result.thief_ring == static_cast<std::size_t>(half - 1));
        CHECK(result.victim_ring == static_cast<std::size_t>(count - half));
        CHECK(result.next_stayed);
    }
}

TEST_CASE("S27 the order of victims is random, and visits each processor once", "[conformance]") {
    weft::detail::random_source random(27);
    for (std::uint32_t count = 1; count <= 12; ++count) {
        std::uint32_t widths = 0;
        for (std::uint32_t step = 1; step <= count; ++step) widths += std::gcd(step, count) == 1;
        const std::uint32_t orders = count * widths;
        constexpr std::uint32_t draws_of_each = 200;
        std::map<std::vector<std::uint32_t>, std::uint32_t> seen;
        bool repeats = false;
        for (std::uint32_t i = 0; i < orders * draws_of_each; ++i) {
            std::vector<std::uint32_t> order;
            weft::detail::victim_order victims(random, count);
            while (!victims.over()) order.push_back(victims.next());
            const std::set<std::uint32_t> different(order.begin(), order.end());
            repeats |= order.size() != count || different.size() != count ||
                       *different.rbegin() != count - 1;
            ++seen[order];
        }
        INFO(count << " processors");
        CHECK_FALSE(repeats);
        CHECK(seen.size() == orders);
        // Equally often: six standard deviations of the number of draws.
        for (const auto& [order, times] : seen) {
            CHECK(times > draws_of_each - 85);
            CHECK(times < draws_of_each + 85);
        }
    }
}

TEST_CASE("S27 a thief does not always begin with the same victim", "[conformance]") {
    const weft::test::held_slice_clock still;  // The watchdog takes nothing away.
    // Three workers are held by tasks with a child in the ring of each; the fourth one steals.
    constexpr unsigned processors = 4;
    struct round {
        std::atomic<unsigned> keepers{0}, prepared{0};
        std::atomic<int> thief{-1}, victim{-1};
    };
    auto child = [](round& of, int from) -> weft::task<> {
        int none = -1;
        if (of.victim.compare_exchange_strong(none, from)) {
            of.thief = static_cast<int>(this_worker().index());
        }
        co_return;
    };
    auto keeper = [](round& of, auto make_child) -> weft::task<> {
        ++of.keepers;
        spin_until([&] { return of.keepers == processors - 1; });
        const int here = static_cast<int>(this_worker().index());
        auto in_ring = weft::co_spawn(make_child, std::ref(of), here);
        auto in_next = weft::co_spawn(make_child, std::ref(of), here);
        ++of.prepared;
        spin_until([&] { return of.thief != -1; });
        co_await std::move(in_ring);
        co_await std::move(in_next);
    };
    auto main = [](auto make_keeper, auto make_child) -> weft::task<bool> {
        std::map<int, std::set<int>> first_victims;
        for (int i = 0; i < 400; ++i) {
            round of;
            std::vector<weft::join_handle<void>> keepers;
            for (unsigned k = 1; k < processors; ++k) {
                keepers.push_back(weft::co_spawn(make_keeper, std::ref(of), make_child));
            }
            spin_until([&] { return of.prepared == processors - 1; });
            for (auto& each : keepers) co_await std::move(each);
            auto& victims = first_victims[of.thief];
            victims.insert(of.victim);
            if (victims.size() == processors - 1) co_return true;
        }
        co_return false;
    };
    CHECK(weft::run(main(keeper, child), {.processors = processors, .compensate = false}));
}

TEST_CASE("S28 runnext is stolen in the last pass, and not before 3 us have passed",
          "[conformance]") {
    const weft::test::held_slice_clock still;  // The watchdog takes nothing away.
    // From the moment in which the thief becomes idle.
    auto busy = [](std::atomic<bool>& started, std::atomic<bool>& until,
                   std::int64_t& ended_at) -> weft::task<> {
        started = true;
        spin_until([&] { return until.load(); });
        ended_at = weft::detail::monotonic_now();
        co_return;
    };
    auto child = [](std::atomic<std::int64_t>& at) -> weft::task<> {
        at = weft::detail::monotonic_now();
        co_return;
    };
    auto main = [](auto make_busy, auto make) -> weft::task<std::int64_t> {
        std::int64_t shortest = INT64_MAX;
        for (int i = 0; i < 200; ++i) {
            std::atomic<bool> started{false}, release{false};
            std::int64_t ended_at = 0;
            auto other = weft::co_spawn({}, make_busy, std::ref(started), std::ref(release),
                                        std::ref(ended_at));
            if (!spin_until([&] { return started.load(); })) co_return 0;
            std::atomic<std::int64_t> at{0};
            auto stolen = weft::co_spawn(make, std::ref(at));
            release = true;
            // This worker never comes back to it.
            if (!spin_until([&] { return at != 0; })) co_return 0;
            co_await std::move(stolen);
            co_await std::move(other);
            shortest = std::min(shortest, at - ended_at);
        }
        co_return shortest;
    };
    CHECK(weft::run(main(busy, child), {.processors = 2, .compensate = false}) >= 3'000);
}

TEST_CASE("S29 a worker that parks looks once more at what was published", "[conformance]") {
    const weft::test::held_slice_clock still;  // The watchdog takes nothing away.
    // The main task stands in for a searcher, so that its spawns wake nobody and the other worker
    // may not search: it goes from its task straight to sleep.
    auto main = []() -> weft::task<bool> {
        auto& idle = this_core().idle;
        std::atomic<bool> started{false}, release{false}, ran{false};
        auto other = weft::co_spawn(hog, std::ref(started), std::ref(release));
        bool good = spin_until([&] { return started.load(); });
        good &= idle.begin_search();
        auto in_ring = weft::co_spawn(set(ran));
        auto in_next = weft::co_spawn([]() -> weft::task<> { co_return; });
        release = true;
        good &= spin_until([&] { return ran.load(); });
        if (idle.end_search()) this_core().wake_if_needed();
        co_await std::move(in_ring);
        co_await std::move(in_next);
        co_await std::move(other);
        co_return good;
    };
    CHECK(weft::run(main(), {.processors = 2, .compensate = false}));
}

TEST_CASE("S29 no ready task waits while a processor is idle", "[conformance]") {
    // One task makes children ready in one of several ways and hogs its worker until all of them
    // have started; they hog theirs as well. With a wake-up lost, one never starts.
    for (const unsigned processors : {2U, 8U}) {
        auto main = [](unsigned seed) -> weft::task<bool> {
            std::mt19937 random(seed);
            const unsigned most = weft::this_runtime::processors() - 1;
            auto child = [](std::atomic<unsigned>& started, unsigned all) -> weft::task<> {
                ++started;
                spin_until([&] { return started >= all; });
                co_return;
            };
            auto sleeper = [](std::atomic<unsigned>& started, unsigned all,
                              std::chrono::steady_clock::time_point until) -> weft::task<> {
                co_await weft::sleep_until(until);
                ++started;
                spin_until([&] { return started >= all; });
            };
            for (int round = 0; round < 40; ++round) {
                const unsigned all = 1 + random() % most;
                const unsigned way = random() % 4;
                std::atomic<unsigned> started{0};
                std::vector<weft::join_handle<void>> handles;
                if (way == 0) {
                    for (unsigned i = 0; i < all; ++i) {
                        handles.push_back(weft::co_spawn(child, std::ref(started), all));
                    }
                } else if (way == 1) {
                    spawn_outside(this_core(), all,
                                  [&](std::size_t) { return child(started, all); });
                } else if (way == 2) {
                    const auto until = std::chrono::steady_clock::now() + 300us;
                    for (unsigned i = 0; i < all; ++i) {
                        handles.push_back(weft::co_spawn(sleeper, std::ref(started), all, until));
                    }
                    co_await weft::sleep_until(until);
                } else {
                    for (unsigned i = 0; i < all; ++i) {
                        handles.push_back(weft::co_spawn(child, std::ref(started), all));
                        if (random() % 2 == 0 && all == 1) co_await weft::yield();
                    }
                }
                if (!spin_until([&] { return started >= all; })) co_return false;
                for (auto& each : handles) co_await std::move(each);
                // Until those from outside have let go of `started`.
                while (way == 1 && this_core().statistics().tasks_alive() > 1) {
                    co_await weft::sleep_for(50us);
                }
            }
            co_return true;
        };
        const std::size_t seeds = weft::test::scaled_count(10, 1000);
        for (unsigned seed = 0; seed < seeds; ++seed) {
            REQUIRE(weft::run(main(seed), {.processors = processors, .compensate = false}));
        }
    }
}

TEST_CASE("S30 workers with nothing to run park", "[conformance]") {
    weft::runtime runtime({.processors = 4, .compensate = false});
    signal_cell cell;
    std::atomic<weft::detail::runtime_core*> core{nullptr};
    auto waiter = [](signal_cell& waits_for,
                     std::atomic<weft::detail::runtime_core*>& to) -> weft::task<> {
        to = &this_core();
        co_await waits_for.wait();
    };
    auto handle = runtime.co_spawn(waiter, std::ref(cell), std::ref(core));
    REQUIRE(spin_until([&] { return core.load() != nullptr; }));
    auto& idle = core.load()->idle;
    CHECK(spin_until([&] { return idle.parked_hint() == 4 && idle.searching_hint() == 0; }));
    cell.signal();
    handle.get();
}
