// SPDX-License-Identifier: MIT
#include "lib/base/affinity.hpp"
#include "lib/base/processor_count.hpp"
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/cpu_quota.hpp"
#include "support/environment.hpp"
#include "support/quota_files.hpp"
#include "support/scheduler.hpp"
#include "support/skip.hpp"

#include <weft/weft.hpp>

#include <sched.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

// S2 while tasks run: unless the number of processors was chosen by hand, it follows affinity and
// quota.

using namespace std::chrono_literals;
using weft::detail::affinity_mask;
using weft::detail::processor_count_watch;
using weft::test::environment_variable;
using weft::test::quota_files;
using weft::test::this_core;

namespace {

constexpr auto period = processor_count_watch::period;

/// False: the time is over.
weft::task<bool> until_processors(unsigned wanted) {
    const auto end = std::chrono::steady_clock::now() + weft::test::watchdog_limit;
    while (weft::this_runtime::processors() != wanted) {
        if (std::chrono::steady_clock::now() > end) co_return false;
        co_await weft::sleep_for(1ms);
    }
    co_return true;
}

/// The thread of this process that has this name; 0: none has.
pid_t thread_named(const std::string& name) {
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream file(each.path() / "comm");
        std::string found;
        if (std::getline(file, found) && found == name) {
            return static_cast<pid_t>(std::stol(each.path().filename().string()));
        }
    }
    return 0;
}

/// Lets the watchdog run on so many of the cores of this thread.
bool limit_watchdog_to(std::uint32_t cores) {
    pid_t watchdog = 0;
    // It names itself when it begins.
    if (!weft::test::spin_until([&] { return (watchdog = thread_named("weft-watchdog")) != 0; })) {
        return false;
    }
    cpu_set_t all, some;
    CPU_ZERO(&all);
    CPU_ZERO(&some);
    if (::sched_getaffinity(0, sizeof all, &all) != 0) return false;
    for (int cpu = 0; cpu < CPU_SETSIZE && cores != 0; ++cpu) {
        if (!CPU_ISSET(cpu, &all)) continue;
        CPU_SET(cpu, &some);
        --cores;
    }
    return ::sched_setaffinity(watchdog, sizeof some, &some) == 0;
}

}  // namespace

TEST_CASE("S2: the number of processors follows the machine until it is chosen by hand",
          "[conformance]") {
    struct seen {
        unsigned before = 0, early = 0, fewer = 0, more = 0, by_hand = 0, after = 0;
        std::size_t workers = 0;
    };
    const environment_variable none("WEFT_MAXPROCS", nullptr);
    const std::uint32_t cores = affinity_mask::of_this_thread().count();
    if (cores < 2) WEFT_SKIP("there is one core only");
    const quota_files machine;
    auto main = [](const quota_files& files, std::uint32_t all) -> weft::task<seen> {
        seen result;
        processor_count_watch watch(true, all, 0, files.roots());
        const auto at = [&](std::int64_t now) {
            this_core().follow_machine(watch, now);
            return weft::this_runtime::processors();
        };
        result.before = at(period);
        files.quota("100000 100000\n");
        result.early = at(2 * period - 1);
        result.fewer = at(2 * period);
        files.quota("max 100000\n");
        result.more = at(3 * period);
        weft::this_runtime::set_processors(all + 1);
        result.by_hand = weft::this_runtime::processors();
        files.quota("100000 100000\n");
        result.after = at(4 * period);
        result.workers = weft::this_runtime::statistics().processors.size();
        co_return result;
    };
    const seen found = weft::run(main(machine, cores), {.processors = 0});
    CHECK(found.early == found.before);
    CHECK(found.fewer == 1);
    CHECK(found.more == cores);
    CHECK(found.by_hand == cores + 1);
    CHECK(found.after == cores + 1);
    CHECK(found.workers == cores + 1);
}

TEST_CASE("S2: a number of processors that was chosen at the start does not follow the machine",
          "[conformance]") {
    const environment_variable none("WEFT_MAXPROCS", nullptr);
    const quota_files machine;
    machine.quota("100000 100000\n");
    auto main = [](const quota_files& files) -> weft::task<unsigned> {
        processor_count_watch watch(true, 3, 0, files.roots());
        this_core().follow_machine(watch, period);
        co_return weft::this_runtime::processors();
    };
    CHECK(weft::run(main(machine), {.processors = 3}) == 3);
}

TEST_CASE("S2, fault 48: the watchdog notices that the affinity changes", "[conformance]") {
    struct seen {
        bool limited = false, fewer = false, freed = false, more = false;
    };
    const environment_variable none("WEFT_MAXPROCS", nullptr);
    const std::uint32_t cores = weft::detail::processors_of_machine();
    if (cores < 2) WEFT_SKIP("there is one core only");
    auto main = [](std::uint32_t all) -> weft::task<seen> {
        seen result;
        result.limited = limit_watchdog_to(1);
        result.fewer = co_await until_processors(1);
        result.freed = limit_watchdog_to(CPU_SETSIZE);
        result.more = co_await until_processors(all);
        co_return result;
    };
    const seen found = weft::run(main(cores), {.processors = 0});
    CHECK(found.limited);
    CHECK(found.fewer);
    CHECK(found.freed);
    CHECK(found.more);
}

TEST_CASE("S2 with quota, fault 48: the watchdog notices that the quota changes", "[conformance]") {
    const environment_variable none("WEFT_MAXPROCS", nullptr);
    const std::uint32_t cores = affinity_mask::of_this_thread().count();
    if (cores < 2) WEFT_SKIP("there is one core only");
    weft::test::cpu_quota own("weft-test-" + std::to_string(::getpid()));
    if (!own.works()) WEFT_SKIP("not root, or no cpu controller of version 1");
    const auto result = weft::test::run_in_child([&] {
        weft::test::child_check(own.enter(), "the group cannot be entered");
        auto main = [](const weft::test::cpu_quota& group) -> weft::task<> {
            const unsigned all = weft::this_runtime::processors();
            weft::test::child_check(group.set(100'000, 100'000), "the quota cannot be set");
            const bool fewer = co_await until_processors(1);
            weft::test::child_check(fewer, "the smaller quota was not noticed");
            weft::test::child_check(group.set(-1, 100'000), "the quota cannot be lifted");
            const bool more = co_await until_processors(all);
            weft::test::child_check(more, "the greater quota was not noticed");
        };
        weft::run(main(own), {.processors = 0});
        ::_exit(0);
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
    CHECK_FALSE(result.hung);
}
