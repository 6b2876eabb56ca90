// SPDX-License-Identifier: MIT
#include <weft/deadlock.hpp>

#include "support/backends.hpp"
#include "support/call_gate.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"
#include "support/kept_log.hpp"
#include "support/nothing.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <benchmarks/sched/baton.hpp>
#include <weft/auto_reset_event.hpp>
#include <weft/barrier.hpp>
#include <weft/blocking.hpp>
#include <weft/channel.hpp>
#include <weft/detail/task/awaiter.hpp>
#include <weft/event.hpp>
#include <weft/latch.hpp>
#include <weft/mutex.hpp>
#include <weft/net/tcp.hpp>
#include <weft/once.hpp>
#include <weft/runtime.hpp>
#include <weft/semaphore.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/task_group.hpp>
#include <weft/timeout.hpp>
#include <weft/wait_group.hpp>
#include <weft/when_all.hpp>
#include <weft/yield.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using benchmark::baton;
using weft::test::environment_variable;
using weft::test::kept_log;
using weft::test::until;

namespace {

constexpr unsigned processor_counts[] = {1, 2, 8};

weft::task<> wait_for(baton& awaited) {
    co_await awaited.wait();
}

/// Runs a task that is to end in a deadlock; what the exception says.
std::string deadlock_of(weft::task<> main, unsigned processors, std::size_t* lines = nullptr) {
    kept_log log;
    try {
        weft::run(std::move(main), {.processors = processors,
                                    .deadlock = weft::deadlock_action::throw_exception,
                                    .log = log.sink()});
    } catch (const weft::deadlock_error& error) {
        if (lines != nullptr) *lines = log.count("weft:");
        return log.count("all tasks are asleep") == 1 ? error.what() : "not reported once";
    }
    return "no deadlock";
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// Waits until it is stopped, and counts how often it is asked who may wake it.
class asked_operation : public weft::detail::operation {
public:
    asked_operation(bool by_tasks, std::atomic<std::uint64_t>& asked) noexcept
        : operation(false, weft::detail::wait_reason::event), by_tasks_(by_tasks), asked_(&asked) {}

    bool start(weft::detail::branch& waiter) noexcept final {
        return !prepare_park(waiter, *this) || park(waiter, *this);
    }
    bool unlink() noexcept final { return true; }
    bool completed_by_tasks() const noexcept final {
        ++*asked_;
        return by_tasks_;
    }

protected:
    ~asked_operation() = default;

private:
    bool by_tasks_;
    std::atomic<std::uint64_t>* asked_;
};

class [[nodiscard]] asked_awaiter final : public weft::detail::awaiter<asked_operation> {
public:
    using awaiter<asked_operation>::awaiter;
    void await_resume() const { throw_unless_completed(); }
};

}  // namespace

TEST_CASE("fault 35: all tasks asleep: a baton that nobody posts, on every netpoller",
          "[deadlock]") {
    for (const char* backend : weft::test::backends()) {
        const weft::test::forced_backend forced(backend);
        for (const unsigned processors : processor_counts) {
            INFO(backend << ", " << processors << " processors");
            baton never;
            std::size_t lines = 0;
            const std::string report = deadlock_of(wait_for(never), processors, &lines);
            INFO(report);
            CHECK(contains(report, "all tasks are asleep"));
            CHECK(contains(report, "one of 1;"));
            CHECK(contains(report, "(main), spawned at "));
            CHECK(contains(report, "deadlock_test.cpp"));
            CHECK(lines == 2);
        }
    }
}

TEST_CASE("fault 35: all tasks asleep: two tasks that join each other", "[deadlock]") {
    struct pair {
        std::optional<weft::join_handle<void>> first, second;
        std::atomic<bool> made{false};
    };
    auto join = [](std::atomic<bool>& made,
                   std::optional<weft::join_handle<void>>& other) -> weft::task<> {
        while (!made) co_await weft::yield();
        co_await std::move(*other);
    };
    auto main = [](auto body, pair& both) -> weft::task<> {
        both.first = weft::co_spawn({.name = "one", .stop_token = {}}, body, std::ref(both.made),
                                    std::ref(both.second));
        both.second = weft::co_spawn({.name = "two", .stop_token = {}}, body, std::ref(both.made),
                                     std::ref(both.first));
        both.made = true;
        baton never;
        co_await never.wait();
    };
    for (const char* backend : weft::test::backends()) {
        const weft::test::forced_backend forced(backend);
        for (const unsigned processors : processor_counts) {
            INFO(backend << ", " << processors << " processors");
            pair both;
            const std::string report = deadlock_of(main(join, both), processors);
            INFO(report);
            CHECK(contains(report, "one of 3;"));
            CHECK(contains(report, "(one), spawned at "));
            CHECK(contains(report, "(two), spawned at "));
            CHECK(contains(report, "waits for a task at "));
        }
    }
}

TEST_CASE("the report shows the chain of awaits, and at most a thousand tasks", "[deadlock]") {
    auto many = [](std::vector<baton>& never) -> weft::task<> {
        for (std::size_t i = 1; i < never.size(); ++i) weft::co_spawn(wait_for(never[i])).detach();
        co_await wait_for(never[0]);
    };
    std::vector<baton> never(1500);
    std::size_t lines = 0;
    const std::string report = deadlock_of(many(never), 2, &lines);
    CHECK(contains(report, "one of 1500;"));
    CHECK(contains(report, ", awaited at "));
    CHECK(contains(report, "and 500 more"));
    CHECK(lines == 1002);
}

TEST_CASE("a deadlock is reported once, and the program goes on if somebody helps", "[deadlock]") {
    const environment_variable none("WEFT_DEADLOCK", nullptr);
    kept_log log;
    baton first, second;
    std::thread helper([&] {
        while (log.count("all tasks are asleep") == 0) std::this_thread::sleep_for(1ms);
        first.post();
        std::this_thread::sleep_for(50ms);
        second.post();
    });
    auto main = [](baton& a, baton& b) -> weft::task<int> {
        co_await a.wait();
        co_await b.wait();
        co_return 5;
    };
    weft::test::watchdog watchdog(60s, [&] { return "the log: " + log.text(); });
    CHECK(weft::run(main(first, second), {.processors = 2, .log = log.sink()}) == 5);
    helper.join();
    CHECK(log.count("all tasks are asleep") == 1);
}

TEST_CASE("the exception beats what the stop made of the main task", "[deadlock]") {
    auto own_error = [](baton& never) -> weft::task<int> {
        try {
            co_await never.wait();
        } catch (const std::system_error&) { throw std::runtime_error("after the stop"); }
        co_return 1;
    };
    auto value = [](baton& never) -> weft::task<int> {
        try {
            co_await never.wait();
        } catch (const std::system_error&) { co_return 2; }
        co_return 1;
    };
    const weft::runtime_options options{.processors = 2,
                                        .deadlock = weft::deadlock_action::throw_exception,
                                        .log = [](std::string_view) {}};
    baton never;
    CHECK_THROWS_AS(weft::run(own_error(never), options), weft::deadlock_error);
    CHECK_THROWS_AS(weft::run(value(never), options), weft::deadlock_error);
}

TEST_CASE("a guard keeps it quiet until it is gone", "[deadlock]") {
    for (const unsigned processors : processor_counts) {
        INFO(processors << " processors");
        baton awaited;
        auto posted = [](baton& by) -> weft::task<> {
            std::thread helper([&by, guard = weft::runtime::guard()] {
                std::this_thread::sleep_for(20ms);
                by.post();
            });
            co_await by.wait();
            helper.join();
        };
        CHECK(deadlock_of(posted(awaited), processors) == "no deadlock");
        auto forgotten = [](baton& by, std::thread& helper) -> weft::task<> {
            auto guard = weft::runtime::guard();
            helper = std::thread([second = guard] { std::this_thread::sleep_for(20ms); });
            guard = weft::runtime::guard();
            { const auto dropped = std::move(guard); }
            co_await by.wait();
        };
        std::thread helper;
        baton never;
        CHECK(contains(deadlock_of(forgotten(never, helper), processors), "all tasks are asleep"));
        helper.join();
    }
    CHECK_THROWS_AS(weft::runtime::guard(), std::logic_error);
}

TEST_CASE("a guard may outlive its runtime", "[deadlock]") {
    std::optional<weft::runtime::guard> kept;
    auto main = [](std::optional<weft::runtime::guard>& guard) -> weft::task<> {
        guard.emplace();
        co_return;
    };
    weft::run(main(kept), {.processors = 2});
    const auto copy = kept;
    kept.reset();
    {
        weft::runtime runtime({.processors = 1});
        kept.emplace(runtime);
    }
    kept.reset();
}

TEST_CASE("what the kernel, a timer or a thread of weft may wake is no deadlock", "[deadlock]") {
    // In each case one task waits for a baton that another posts, which is woken from outside.
    auto post_after = [](weft::task<> first, baton& then) -> weft::task<> {
        co_await std::move(first);
        then.post();
    };
    auto timer = []() -> weft::task<> { co_await weft::sleep_for(20ms); };
    auto call = []() -> weft::task<> {
        co_await weft::blocking([] { std::this_thread::sleep_for(20ms); });
    };
    auto deadline = []() -> weft::task<> {
        baton never;
        try {
            co_await weft::with_timeout(20ms, never.wait());
        } catch (const std::system_error&) {}
    };
    auto detached = []() -> weft::task<> {
        baton called;
        weft::blocking_detached([&called] {
            std::this_thread::sleep_for(20ms);
            called.post();
        });
        co_await called.wait();
    };
    auto socket = []() -> weft::task<> {
        auto listener =
            weft::net::tcp_listener::bind(weft::net::endpoint::parse("127.0.0.1:0"));
        const auto where = listener.local_endpoint();
        std::thread client([&where] {
            std::this_thread::sleep_for(20ms);
            auto connect = [](weft::net::endpoint to) -> weft::task<> {
                auto stream = co_await weft::net::tcp_stream::connect(to);
            };
            weft::run(connect(where), {.processors = 1});
        });
        auto stream = co_await listener.accept();
        client.join();
    };
    auto main = [](auto wrap, weft::task<> first) -> weft::task<> {
        baton posted;
        auto helper = weft::co_spawn(wrap(std::move(first), posted));
        co_await posted.wait();
        co_await std::move(helper);
    };
    for (const char* backend : weft::test::backends()) {
        const weft::test::forced_backend forced(backend);
        for (const unsigned processors : processor_counts) {
            INFO(backend << ", " << processors << " processors");
            CHECK(deadlock_of(main(post_after, timer()), processors) == "no deadlock");
            CHECK(deadlock_of(main(post_after, call()), processors) == "no deadlock");
            CHECK(deadlock_of(main(post_after, deadline()), processors) == "no deadlock");
            CHECK(deadlock_of(main(post_after, detached()), processors) == "no deadlock");
            CHECK(deadlock_of(main(post_after, socket()), processors) == "no deadlock");
        }
    }
}

TEST_CASE("a detached call that returns without a word leaves a deadlock", "[deadlock]") {
    auto main = [](baton& never) -> weft::task<> {
        weft::blocking_detached([] { std::this_thread::sleep_for(20ms); });
        co_await never.wait();
    };
    for (const unsigned processors : processor_counts) {
        baton never;
        CHECK(contains(deadlock_of(main(never), processors), "one of 1;"));
    }
}

TEST_CASE("a task with a stop token is asleep only when its token has no source any more",
          "[deadlock]") {
    auto wait_until_stopped = [](baton& never) -> weft::task<> {
        try {
            co_await never.wait();
        } catch (const std::system_error&) {}
    };
    auto main = [](auto body, baton& never, std::thread& helper) -> weft::task<> {
        std::stop_source source;
        auto child = weft::co_spawn({.stop_token = source.get_token()}, body, std::ref(never));
        helper = std::thread([held = std::move(source)]() mutable {
            std::this_thread::sleep_for(20ms);
            held.request_stop();
        });
        co_await std::move(child);
    };
    for (const unsigned processors : processor_counts) {
        baton never;
        std::thread helper;
        CHECK(deadlock_of(main(wait_until_stopped, never, helper), processors) == "no deadlock");
        helper.join();
    }
    auto without_source = [](auto body, baton& never) -> weft::task<> {
        std::optional<std::stop_source> source(std::in_place);
        auto child = weft::co_spawn({.stop_token = source->get_token()}, body, std::ref(never));
        source.reset();
        co_await std::move(child);
    };
    baton never;
    CHECK(contains(deadlock_of(without_source(wait_until_stopped, never), 2), "one of 2;"));
}

TEST_CASE("a task of another runtime may wake one", "[deadlock]") {
    for (const unsigned processors : processor_counts) {
        weft::runtime other({.processors = 1});
        auto slow = []() -> weft::task<int> {
            co_await weft::sleep_for(20ms);
            co_return 3;
        };
        auto main = [](weft::join_handle<int> joined) -> weft::task<> {
            co_await std::move(joined);
        };
        CHECK(deadlock_of(main(other.co_spawn(slow())), processors) == "no deadlock");
    }
}

TEST_CASE("a task of another runtime may wake one through what they share", "[deadlock]") {
    for (const unsigned processors : processor_counts) {
        INFO(processors << " processors");
        weft::channel<int> shared(0);
        weft::runtime other({.processors = 1});
        // Late enough for the others to be asleep in most runs; in the rest nothing is shown.
        const auto send_late = [](weft::channel<int>& to) -> weft::task<> {
            co_await weft::sleep_for(20ms);
            co_await to.send(1);
        };
        const auto main = [](weft::channel<int>& from) -> weft::task<> { co_await from.recv(); };
        other.co_spawn(send_late, std::ref(shared)).detach();
        CHECK(deadlock_of(main(shared), processors) == "no deadlock");
    }
}

TEST_CASE("no deadlock is reported while two runtimes hand a value to and fro", "[deadlock]") {
    const weft::test::watchdog dog(60s, [] { return std::string(); });
    const auto rounds = static_cast<int>(weft::test::scaled_count(2'000, 100'000));
    const auto answer = [](weft::channel<int>& from, weft::channel<int>& to) -> weft::task<> {
        while (const auto value = co_await from.recv()) co_await to.send(*value + 1);
    };
    const auto ask = [](weft::channel<int>& to, weft::channel<int>& from,
                        int times) -> weft::task<> {
        int value = 0;
        for (int i = 0; i < times; ++i) {
            co_await to.send(int(value));
            value = *co_await from.recv();
        }
        to.close();
    };
    for (const unsigned processors : processor_counts) {
        weft::channel<int> there(0);
        weft::channel<int> back(0);
        weft::runtime other({.processors = 2});
        other.co_spawn(answer, std::ref(there), std::ref(back)).detach();
        CHECK(deadlock_of(ask(there, back, rounds), processors) == "no deadlock");
    }
}

TEST_CASE("a deadlock beside another runtime is reported when that has ended", "[deadlock]") {
    const weft::test::watchdog dog(60s, [] { return std::string(); });
    for (const unsigned processors : processor_counts) {
        INFO(processors << " processors");
        std::optional<weft::runtime> other(std::in_place, weft::runtime_options{.processors = 1});
        // It keeps what is left of the runtime beyond the end of that.
        const auto kept = other->co_spawn([]() -> weft::task<> { co_return; });
        std::atomic<bool> ending{false};
        baton never;
        std::thread helper([&] {
            std::this_thread::sleep_for(20ms);
            ending = true;
            other.reset();
        });
        const std::string report = deadlock_of(wait_for(never), processors);
        CHECK(contains(report, "one of 1;"));
        CHECK(ending);
        helper.join();
    }
}

TEST_CASE("one child that is awake keeps the look at its many siblings short", "[deadlock]") {
    constexpr int siblings = 1'000;
    constexpr int rounds = 100;
    struct shared {
        std::atomic<std::uint64_t> asked{0};
        std::atomic<int> turns{0};
        baton next;
    };
    const auto wait = [](bool by_tasks, shared& all) -> weft::task<> {
        co_await asked_awaiter(by_tasks, all.asked);
    };
    // Without a timer, which would decide at once.
    const auto in_scope = [](auto body, bool by_tasks, shared& all) -> weft::task<> {
        co_await weft::with_task_group([&](weft::task_group& inner) -> weft::task<> {
            inner.spawn(body, by_tasks, std::ref(all));
            co_return;
        });
    };
    const auto main = [](auto plain, auto nested, bool nests, shared& all) -> weft::task<> {
        co_await weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
            // The one that is awake comes last, where nobody changes the order.
            for (int i = 0; i <= siblings; ++i) {
                if (nests) {
                    group.spawn(nested, plain, i != 0, std::ref(all));
                } else {
                    group.spawn(plain, i != 0, std::ref(all));
                }
            }
            for (int i = 0; i < rounds; ++i) {
                ++all.turns;
                co_await all.next.wait();
            }
            group.request_stop();
        });
    };
    for (const bool nests : {false, true}) {
        shared all;
        std::thread helper([&all] {
            for (int i = 1; i <= rounds; ++i) {
                while (all.turns < i) std::this_thread::sleep_for(1ms);
                std::this_thread::sleep_for(1ms);  // Asleep again, in most rounds.
                all.next.post();
            }
        });
        CHECK(deadlock_of(main(wait, in_scope, nests, all), 1) == "no deadlock");
        helper.join();
        INFO("asked " << all.asked << " times");
        CHECK(all.asked < 10 * siblings);
    }
}

TEST_CASE("a runtime object says nothing, nor does run when it is told to ignore", "[deadlock]") {
    kept_log log;
    {
        weft::runtime runtime({.processors = 2,
                               .deadlock = weft::deadlock_action::throw_exception,
                               .log = log.sink()});
        baton awaited;
        auto waiting = runtime.co_spawn(wait_for(awaited));
        std::this_thread::sleep_for(20ms);
        awaited.post();
        waiting.get();
    }
    const environment_variable ignored("WEFT_DEADLOCK", "ignore");
    baton awaited;
    std::thread helper([&] {
        std::this_thread::sleep_for(20ms);
        awaited.post();
    });
    weft::run(wait_for(awaited), {.processors = 2,
                                  .deadlock = weft::deadlock_action::throw_exception,
                                  .log = log.sink()});
    helper.join();
    CHECK(log.text() == "");
}

TEST_CASE("fault 47: config nonsense: WEFT_DEADLOCK", "[faults][deadlock]") {
    for (const char* text : {"1", "Throw", "abort", " report"}) {
        const environment_variable set("WEFT_DEADLOCK", text);
        CHECK_THROWS_WITH(weft::run(weft::test::nothing()),
                          "weft: WEFT_DEADLOCK is \"" + std::string(text) +
                              "\"; it must be report, throw or ignore");
    }
}

namespace {

/// What wakes the next task of a chain, chosen by a seed.
class random_chain {
public:
    random_chain(unsigned seed, std::size_t links)
        : random_(seed), batons_(links), threads_(links) {}

    weft::task<> run() {
        std::vector<weft::join_handle<void>> handles;
        handles.reserve(batons_.size());
        for (std::size_t i = 0; i < batons_.size(); ++i) {
            const auto kind = static_cast<int>(random_() % 6);
            const auto pause = std::chrono::microseconds(random_() % 200);
            handles.push_back(weft::co_spawn(link(i, kind, pause)));
        }
        batons_[0].post();
        for (auto& each : handles) co_await std::move(each);
        for (auto& each : threads_) {
            if (each.joinable()) each.join();
        }
    }

private:
    weft::task<> link(std::size_t index, int kind, std::chrono::microseconds pause) {
        co_await batons_[index].wait();
        if (index + 1 == batons_.size()) co_return;
        baton& next = batons_[index + 1];
        auto wake = [&next, pause] {
            if (pause > 100us) std::this_thread::sleep_for(pause);
            next.post();
        };
        switch (kind) {
            case 0:
                co_await weft::sleep_for(pause);
                next.post();
                break;
            case 1:
                threads_[index] = std::thread([wake, guard = weft::runtime::guard()] { wake(); });
                break;
            case 2:
                co_await weft::blocking(wake);
                break;
            case 3:
                weft::blocking_detached(wake);
                break;
            case 4: {
                baton never;
                try {
                    co_await weft::with_timeout(pause, never.wait());
                } catch (const std::system_error&) {}
                next.post();
                break;
            }
            default:
                next.post();
                break;
        }
    }

    std::mt19937 random_;
    std::vector<baton> batons_;
    std::vector<std::thread> threads_;  ///< One for each link, since two of them may overlap.
};

}  // namespace

TEST_CASE("fault 35: no deadlock is reported while something outside is on its way", "[deadlock]") {
    const auto seeds = static_cast<unsigned>(weft::test::scaled_count(30, 3'000));
    for (const char* backend : weft::test::backends()) {
        const weft::test::forced_backend forced(backend);
        for (const unsigned processors : processor_counts) {
            for (unsigned seed = 0; seed < seeds; ++seed) {
                random_chain chain(seed, 20);
                const std::string report = deadlock_of(chain.run(), processors);
                if (report == "no deadlock") continue;
                FAIL(backend << ", " << processors << " processors, seed " << seed << ": "
                             << report);
            }
        }
    }
}

TEST_CASE("fault 35: all tasks asleep: the report names what they wait for", "[deadlock]") {
    const auto check = [](weft::task<> main, const char* what) {
        const std::string report = deadlock_of(std::move(main), 1);
        INFO(report);
        CHECK(contains(report, what));
    };
    const auto wait = [](auto& awaited) -> weft::task<> { co_await awaited.wait(); };
    weft::mutex mutex;
    const auto lock_twice = [](weft::mutex& locked) -> weft::task<> {
        const auto held = co_await locked.scoped_lock();
        const auto again = co_await locked.scoped_lock();
    };
    check(lock_twice(mutex), "holds, which is the same one: this branch of it, or another one");
    // The same of a child that waits for what a sibling has locked.
    const auto keep_locked = [](weft::mutex& locked) -> weft::task<> {
        const auto held = co_await locked.scoped_lock();
        baton never;
        co_await never.wait();
    };
    const auto siblings = [](weft::mutex& locked, auto body) -> weft::task<> {
        co_await weft::when_all(body(locked), body(locked));
    };
    check(siblings(mutex, keep_locked), "waits for a lock that task ");
    check(siblings(mutex, keep_locked), "holds, which is the same one");
    const auto another = [](weft::mutex& locked, auto body) -> weft::task<> {
        weft::co_spawn(body, std::ref(locked)).detach();
        co_await body(locked);
    };
    check(another(mutex, keep_locked), " holds at ");
    weft::event event;
    check(wait(event), "waits for an event");
    weft::auto_reset_event auto_reset_event;
    check(wait(auto_reset_event), "waits for an event");
    weft::wait_group group(1);
    check(wait(group), "waits for a group");
    weft::latch latch(2);
    check(wait(latch), "waits at a latch");
    const auto arrive = [](auto& at) -> weft::task<> { co_await at.arrive_and_wait(); };
    check(arrive(latch), "waits at a latch");
    weft::barrier barrier(2);
    check(arrive(barrier), "waits at a barrier");
    weft::semaphore permits(1);
    const auto acquire = [](weft::semaphore& from) -> weft::task<> { co_await from.acquire(2); };
    check(acquire(permits), "waits for a semaphore");
    // A function that calls the same object waits for itself.
    weft::once once;
    const auto call_again = [](weft::once& on) -> weft::task<> {
        co_await on.call_once([]() -> weft::task<> { co_return; });
    };
    const auto call = [](weft::once& on, decltype(call_again) work) -> weft::task<> {
        co_await on.call_once(work, std::ref(on));
    };
    check(call(once, call_again), "waits for what is done once");
}
