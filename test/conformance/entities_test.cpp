// SPDX-License-Identifier: MIT
#include "lib/base/affinity.hpp"
#include "lib/base/cgroup_quota.hpp"
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/cpu_quota.hpp"
#include "support/environment.hpp"
#include "support/scheduler.hpp"
#include "support/signal_cell.hpp"
#include "support/skip.hpp"

#include <weft/weft.hpp>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// Entities and their counts: S1, S2, S9 and S13 of the scheduler's checklist.

using weft::test::environment_variable;
using weft::test::signal_cell;
using weft::test::spin_until;
using weft::test::this_core;
using weft::test::this_worker;

namespace {

/// How many processors the first task finds.
unsigned processors_found(unsigned option) {
    auto main = []() -> weft::task<unsigned> {
        const auto there = weft::this_runtime::statistics().processors.size();
        co_return there == weft::this_runtime::processors() ? static_cast<unsigned>(there) : 0;
    };
    return weft::run(main(), {.processors = option});
}

/// From now on this thread may read the clock, write and exit; anything else ends the process. The
/// clock is answered without the kernel where the kernel offers that, which is not weft's matter.
void forbid_system_calls() {
    constexpr auto load = static_cast<unsigned short>(BPF_LD | BPF_W | BPF_ABS);
    constexpr auto equal = static_cast<unsigned short>(BPF_JMP | BPF_JEQ | BPF_K);
    constexpr auto give = static_cast<unsigned short>(BPF_RET | BPF_K);
    sock_filter program[] = {
        {load, 0, 0, 0},  // The number of the call is the first word.
        {equal, 3, 0, SYS_clock_gettime},
        {equal, 2, 0, SYS_write},
        {equal, 1, 0, SYS_exit_group},
        {give, 0, 0, SECCOMP_RET_KILL_PROCESS},
        {give, 0, 0, SECCOMP_RET_ALLOW},
    };
    const sock_fprog filter{.len = std::size(program), .filter = program};
    weft::test::child_check(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    weft::test::child_check(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0, "seccomp");
}

weft::task<> answer(signal_cell& question, signal_cell& reply) {
    for (;;) {
        co_await question.wait();
        reply.signal();
    }
}

}  // namespace

TEST_CASE("S1 as many tasks run at once as there are processors, each on a thread of its own",
          "[conformance]") {
    constexpr int processors = 4;
    struct shared {
        std::atomic<int> running{0}, most{0};
        std::mutex mutex;
        std::set<std::thread::id> threads;
    };
    auto body = [](shared& state) -> weft::task<> {
        for (int i = 0; i < 20; ++i) {
            const int now = ++state.running;
            int most = state.most;
            while (now > most && !state.most.compare_exchange_weak(most, now)) {}
            {
                const std::lock_guard held(state.mutex);
                state.threads.insert(std::this_thread::get_id());
            }
            // Nobody ends its first turn before all processors have one.
            spin_until([&] { return state.most >= processors; });
            --state.running;
            co_await weft::yield();
        }
    };
    auto main = [](auto make, shared& state) -> weft::task<> {
        std::vector<weft::join_handle<void>> handles;
        for (int i = 0; i < 4 * processors; ++i) {
            handles.push_back(weft::co_spawn(make, std::ref(state)));
        }
        for (auto& each : handles) co_await std::move(each);
    };
    shared state;
    weft::run(main(body, state), {.processors = processors, .compensate = false});
    CHECK(state.most == processors);
    CHECK(state.threads.size() == processors);
}

TEST_CASE("S2 the environment, the option and the affinity decide, and all exist from the start",
          "[conformance]") {
    {
        const environment_variable three("WEFT_MAXPROCS", "3");
        CHECK(processors_found(0) == 3);
        CHECK(processors_found(2) == 3);
    }
    const environment_variable none("WEFT_MAXPROCS", nullptr);
    CHECK(processors_found(5) == 5);
    cpu_set_t allowed;
    REQUIRE(::sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    const auto count = static_cast<unsigned>(CPU_COUNT(&allowed));
    // The quota of a container that the tests run in counts as well (below).
    CHECK(processors_found(0) ==
          std::min(count, weft::detail::cgroup_processors({}).value_or(count)));
    cpu_set_t one;
    CPU_ZERO(&one);
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &allowed)) {
            CPU_SET(cpu, &one);
            break;
        }
    }
    REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(processors_found(0) == 1);
    ::sched_setaffinity(0, sizeof allowed, &allowed);
    CHECK_THROWS_AS(processors_found(1025), std::invalid_argument);
    const environment_variable nonsense("WEFT_MAXPROCS", "two");
    CHECK_THROWS_AS(processors_found(0), std::invalid_argument);
}

TEST_CASE("S2 with quota: the smallest quota of all groups above decides where it is the smaller",
          "[conformance]") {
    const environment_variable none("WEFT_MAXPROCS", nullptr);
    const auto cores = std::min(3U, weft::detail::affinity_mask::of_this_thread().count());
    const std::string group = "weft-test-" + std::to_string(::getpid());
    weft::test::cpu_quota parent(group);
    if (!parent.works()) WEFT_SKIP("not root, or no cpu controller of version 1");
    weft::test::cpu_quota own(group + "/own");
    const auto found_in_group = [&](unsigned option = 0) {
        const auto result = weft::test::run_in_child([&] {
            weft::test::child_check(own.enter(), "the group cannot be entered");
            ::_exit(100 + static_cast<int>(processors_found(option)));  // A failure gives 1.
        });
        return static_cast<unsigned>(result.status - 100);
    };
    REQUIRE(own.set(250'000, 100'000));
    CHECK(found_in_group() == cores);
    REQUIRE(own.set(50'000, 100'000));
    CHECK(found_in_group() == 1);
    CHECK(found_in_group(2) == 2);
    // Rounded up: at least two where more than one is allowed.
    REQUIRE(own.set(100'001, 100'000));
    CHECK(found_in_group() == std::min(2U, cores));
    // The group itself has no limit, but the one above it.
    REQUIRE(own.set(-1, 100'000));
    REQUIRE(parent.set(100'000, 100'000));
    CHECK(found_in_group() == 1);
    const environment_variable chosen("WEFT_MAXPROCS", "3");
    CHECK(found_in_group() == 3);
}

TEST_CASE("S9 the main task is queued on the first processor and taken from there",
          "[conformance]") {
    struct seen {
        bool first_processor = false, callers_thread = false;
        std::uint64_t spawned = 0, outside = 0, run = 0;
    };
    auto main = [](std::thread::id caller) -> weft::task<seen> {
        const auto statistics = weft::this_runtime::statistics();
        co_return seen{this_worker().index() == 0, std::this_thread::get_id() == caller,
                       statistics.processors[0].spawned, statistics.spawned_outside,
                       statistics.processors[0].tasks_run};
    };
    const seen result =
        weft::run(main(std::this_thread::get_id()), {.processors = 1, .compensate = false});
    CHECK(result.first_processor);
    CHECK(result.callers_thread);
    CHECK(result.spawned == 1);
    CHECK(result.outside == 0);
    CHECK(result.run == 1);
}

TEST_CASE("S13 a switch makes no system call", "[conformance]") {
    if (weft::test::sanitized) WEFT_SKIP("the sanitizers make calls of their own");
    const auto result = weft::test::run_in_child([] {
        auto main = []() -> weft::task<> {
            signal_cell question, reply;
            auto other = weft::co_spawn(answer, std::ref(question), std::ref(reply));
            co_await weft::yield();
            forbid_system_calls();
            for (int i = 0; i < 100'000; ++i) {
                co_await weft::yield();
                question.signal();
                co_await reply.wait();
            }
            ::_exit(0);
        };
        weft::run(main(), {.processors = 1, .compensate = false});
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
    // The filter does what it is here for.
    const auto caught = weft::test::run_in_child([] {
        forbid_system_calls();
        ::syscall(SYS_getppid);
        ::_exit(0);
    });
    CHECK(caught.signal == SIGSYS);
}
