// SPDX-License-Identifier: MIT
#include <weft/runtime_options.hpp>

#include "lib/base/affinity.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"
#include "support/scheduler.hpp"

#include <weft/blocking.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>

#include <sched.h>

#include <atomic>
#include <cstdint>
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
