// SPDX-License-Identifier: MIT
#include <weft/runtime_options.hpp>

#include "lib/base/affinity.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"
#include "support/scheduler.hpp"
#include "support/skip.hpp"

#include <weft/blocking.hpp>
#include <weft/runtime.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/yield.hpp>

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

using weft::detail::affinity_mask;
using weft::test::environment_variable;

namespace {

/// The cores that the calling thread may run on.
std::vector<int> own_cores() {
    cpu_set_t mask;
    std::vector<int> cores;
    if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return cores;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
        if (CPU_ISSET(core, &mask)) cores.push_back(core);
    }
    return cores;
}

struct seen_cores {
    std::vector<std::vector<int>> workers;
    std::vector<int> blocking_thread;
};

/// The cores of every worker, and of a thread of the blocking pool.
weft::task<seen_cores> look() {
    struct shared {
        explicit shared(unsigned count) : cores(count) {}
        std::vector<std::vector<int>> cores;
        std::atomic<unsigned> looked{0};
    };
    const unsigned count = weft::this_runtime::processors();
    shared state(count);
    // Nobody goes on before each worker has one of them.
    auto body = [](shared& in) -> weft::task<> {
        in.cores[weft::test::this_worker().index()] = own_cores();
        ++in.looked;
        weft::test::spin_until([&] { return in.looked == in.cores.size(); });
        co_return;
    };
    std::vector<weft::join_handle<void>> handles;
    for (unsigned i = 0; i < count; ++i) {
        handles.push_back(weft::co_spawn(body, std::ref(state)));
    }
    for (auto& each : handles) co_await std::move(each);
    seen_cores result;
    result.workers = state.cores;
    result.blocking_thread = co_await weft::blocking(own_cores);
    co_return result;
}

void check_pinned(const seen_cores& found, const std::vector<int>& all) {
    for (std::size_t i = 0; i < found.workers.size(); ++i) {
        INFO("worker " << i);
        CHECK(found.workers[i] == std::vector<int>{all[i % all.size()]});
    }
    CHECK(found.blocking_thread == all);
}

}  // namespace

TEST_CASE("pin: worker i keeps to core i of the affinity mask", "[runtime_options]") {
    const environment_variable none("WEFT_PIN", nullptr);
    const environment_variable count("WEFT_MAXPROCS", nullptr);
    const std::vector<int> all = own_cores();
    REQUIRE_FALSE(all.empty());
    check_pinned(weft::run(look(), {.processors = 3, .pin = true}), all);
    // The caller, which was worker 0, has its mask back.
    CHECK(own_cores() == all);
    for (const auto& each : weft::run(look(), {.processors = 2}).workers) CHECK(each == all);
}

TEST_CASE("pin: in a runtime object, and within a smaller mask", "[runtime_options]") {
    const environment_variable none("WEFT_PIN", nullptr);
    const environment_variable count("WEFT_MAXPROCS", nullptr);
    const std::vector<int> all = own_cores();
    {
        weft::runtime runtime({.processors = 2, .pin = true});
        check_pinned(runtime.co_spawn(look()).get(), all);
    }
    CHECK(own_cores() == all);
    const affinity_mask before = affinity_mask::of_this_thread();
    REQUIRE(before.only(before.count() - 1).apply());
    const seen_cores found = weft::run(look(), {.processors = 2, .pin = true});
    before.apply();
    check_pinned(found, {all.back()});
}

TEST_CASE("pin: WEFT_PIN comes before the option", "[runtime_options]") {
    const environment_variable count("WEFT_MAXPROCS", nullptr);
    const std::vector<int> all = own_cores();
    {
        const environment_variable on("WEFT_PIN", "1");
        check_pinned(weft::run(look(), {.processors = 2}), all);
    }
    const environment_variable off("WEFT_PIN", "0");
    for (const auto& each : weft::run(look(), {.processors = 2, .pin = true}).workers) {
        CHECK(each == all);
    }
}

TEST_CASE("pin: a worker in the place of a blocked one may use its core, until it is wanted",
          "[runtime_options]") {
    const std::vector<int> all = own_cores();
    if (all.size() < 2) WEFT_SKIP("there is one core");
    const environment_variable none("WEFT_PIN", nullptr);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    std::atomic<bool> blocked{false}, over{false};
    // Of worker 2, which is made for it.
    std::vector<int> helping, wanted;
    std::atomic<bool> helped{false}, promoted{false}, pinned{false};
    auto call = [&]() -> weft::task<> {
        blocked = true;  // Whichever worker that is.
        char byte = 0;
        while (::read(ends[0], &byte, 1) != 1) {}  // The watchdog's signal may interrupt it.
        co_return;
    };
    auto look_at_helper = [&]() -> weft::task<> {
        bool for_good = false;  // Already before the last await.
        for (; !over; co_await weft::yield()) {
            const bool before = std::exchange(for_good, promoted);
            if (weft::test::this_worker().index() != 2) continue;
            if (!for_good && !helped.exchange(true)) helping = own_cores();
            if (before && !pinned.exchange(true)) wanted = own_cores();
        }
    };
    auto main = [&]() -> weft::task<> {
        auto blocks = weft::co_spawn(call);
        std::vector<weft::join_handle<void>> others;
        for (int i = 0; i < 4; ++i) others.push_back(weft::co_spawn(look_at_helper));
        const weft::test::patience wait;
        // Asleep, since it would be all that the worker that is looked at has to do.
        while (!helped && !wait.over()) co_await weft::sleep_for(std::chrono::milliseconds(1));
        weft::this_runtime::set_processors(3);
        // What runs there meanwhile goes on until its next await; then it keeps to its core.
        promoted = true;
        while (!pinned && !wait.over()) co_await weft::sleep_for(std::chrono::milliseconds(1));
        const bool written = ::write(ends[1], "", 1) == 1;
        over = true;
        co_await std::move(blocks);
        for (auto& each : others) co_await std::move(each);
        CHECK(written);
    };
    weft::run(main(), {.processors = 2, .pin = true, .log = [](std::string_view) {}});
    ::close(ends[0]);
    ::close(ends[1]);
    CHECK(blocked);
    CHECK(helping == all);
    CHECK(wanted == std::vector<int>{all[2 % all.size()]});
}
