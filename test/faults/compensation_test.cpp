// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/network.hpp"
#include "support/scheduler.hpp"
#include "support/skip.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

// A worker is kept, and none can be made that would run in its place: that is said once, tried
// again now and then, and changes nothing else.

using namespace std::chrono_literals;
using weft::detail::kernel_system_calls;
using weft::test::spin_until;

namespace {

std::atomic<bool> setup_fails;

// A call that lasts until this runtime has ended, for all that its workers know.
std::atomic<weft::detail::runtime_core*> ending{nullptr};
std::atomic<bool> setup_lasts;

// Setups that are refused for want of memory: how many, and whether two of them were in one look.
std::atomic<int> refused;
std::atomic<bool> refused_twice;
std::atomic<std::uint64_t> look_of_refusal;
std::atomic<const weft::detail::runtime_core*> short_of_memory{nullptr};

weft::task<> set(std::atomic<bool>& flag) {
    flag = true;
    co_return;
}

}  // namespace

TEST_CASE("a worker in the place of another that cannot be made is tried again", "[faults]") {
    if (!weft::test::io_uring_starts()) {
        WEFT_SKIP("io_uring cannot start here");
    }
    weft::detail::system_calls table = kernel_system_calls();
    table.io_uring_setup = [](unsigned entries, io_uring_params* parameters) {
        if (!setup_fails) return kernel_system_calls().io_uring_setup(entries, parameters);
        errno = EMFILE;
        return -1;
    };
    const weft::test::replaced_calls replaced(table);
    const weft::test::forced_backend forced("io_uring");
    std::mutex mutex;
    std::vector<std::string> reports;
    const auto log = [&](std::string_view line) {
        if (line.find("none can run in its place") == line.npos) return;
        const std::lock_guard held(mutex);
        reports.emplace_back(line);
    };
    const auto count = [&] {
        const std::lock_guard held(mutex);
        return reports.size();
    };
    bool reported = false, waited = false, helped = false;
    std::uint64_t compensations = 0;
    auto main = [&]() -> weft::task<> {
        setup_fails = true;
        std::atomic<bool> ran{false};
        auto other = weft::co_spawn(set, std::ref(ran));
        reported = spin_until([&] { return count() != 0; });
        waited = !ran;
        setup_fails = false;
        helped = spin_until([&] { return ran.load(); });
        co_await std::move(other);
        compensations = weft::this_runtime::statistics().compensations;
    };
    weft::run(main(), {.processors = 1, .log = log});
    CHECK(reported);
    CHECK(waited);
    CHECK(helped);
    CHECK(compensations == 1);
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].find("io_uring_setup") != std::string::npos);
}

TEST_CASE("a runtime ends while a worker is made that would run in the place of another",
          "[faults]") {
    if (!weft::test::io_uring_starts()) {
        WEFT_SKIP("io_uring cannot start here");
    }
    weft::detail::system_calls table = kernel_system_calls();
    table.io_uring_setup = [](unsigned entries, io_uring_params* parameters) {
        if (const auto* core = ending.load()) {
            setup_lasts = true;
            spin_until([&] { return core->phase() >= weft::detail::runtime_phase::stopping; });
        }
        return kernel_system_calls().io_uring_setup(entries, parameters);
    };
    const weft::test::replaced_calls replaced(table);
    const weft::test::forced_backend forced("io_uring");
    const weft::test::watchdog dog(90s, [] { return std::string("the end"); });
    std::atomic<int> reports{0};
    const auto log = [&](std::string_view line) {
        if (line.find("what is ready waits") != line.npos) ++reports;
    };
    bool began = false;
    setup_lasts = false;
    auto main = [&]() -> weft::task<> {
        ending = &weft::test::this_core();
        std::atomic<bool> ran{false};
        auto other = weft::co_spawn(set, std::ref(ran));
        began = spin_until([&] { return setup_lasts.load(); });
        co_await std::move(other);
    };
    weft::run(main(), {.processors = 1, .log = log});
    ending = nullptr;
    CHECK(began);
    CHECK(reports == 0);
}

TEST_CASE("a worker in the place of another for which there is no memory is tried at later looks",
          "[faults]") {
    if (!weft::test::io_uring_starts()) {
        WEFT_SKIP("io_uring cannot start here");
    }
    weft::detail::system_calls table = kernel_system_calls();
    table.io_uring_setup = [](unsigned entries, io_uring_params* parameters) {
        const auto* core = short_of_memory.load();
        if (core == nullptr) return kernel_system_calls().io_uring_setup(entries, parameters);
        const std::uint64_t look = core->dog.looks();
        if (refused != 0 && look == look_of_refusal) refused_twice = true;
        look_of_refusal = look;
        ++refused;
        errno = ENOMEM;
        return -1;
    };
    const weft::test::replaced_calls replaced(table);
    const weft::test::forced_backend forced("io_uring");
    std::atomic<int> reports{0};
    const auto log = [&](std::string_view line) {
        if (line.find("none can run in its place") != line.npos) ++reports;
    };
    refused = 0;
    refused_twice = false;
    int before_report = 0;
    bool waited = false, helped = false;
    auto main = [&]() -> weft::task<> {
        short_of_memory = &weft::test::this_core();
        std::atomic<bool> ran{false};
        auto other = weft::co_spawn(set, std::ref(ran));
        spin_until([&] { return reports != 0; });
        before_report = refused;
        waited = !ran;
        short_of_memory = nullptr;
        helped = spin_until([&] { return ran.load(); });
        co_await std::move(other);
    };
    weft::run(main(), {.processors = 1, .log = log});
    CHECK(waited);
    CHECK(before_report >= 10);
    CHECK_FALSE(refused_twice);
    CHECK(helped);
    CHECK(reports == 1);
}

TEST_CASE("the watchdog goes on while a task changes the number of processors", "[faults]") {
    if (!weft::test::io_uring_starts()) {
        WEFT_SKIP("io_uring cannot start here");
    }
    static std::atomic<bool> held;
    weft::detail::system_calls table = kernel_system_calls();
    table.io_uring_setup = [](unsigned entries, io_uring_params* parameters) {
        if (held) {
            setup_lasts = true;
            spin_until([] { return !held.load(); });
        }
        return kernel_system_calls().io_uring_setup(entries, parameters);
    };
    const weft::test::replaced_calls replaced(table);
    const weft::test::forced_backend forced("io_uring");
    setup_lasts = false;
    held = false;
    bool changing = false, goes_on = false;
    std::size_t running = 0;
    auto change = []() -> weft::task<> {
        held = true;
        weft::this_runtime::set_processors(3);
        co_return;
    };
    auto main = [&]() -> weft::task<> {
        auto& dog = weft::test::this_core().dog;
        auto other = weft::co_spawn(change);
        // It runs in the place of this one, which then comes back while the other is not done.
        changing = spin_until([&] { return setup_lasts.load(); });
        const std::uint64_t looks = dog.looks();
        const weft::test::patience wait;
        while (dog.looks() < looks + 5 && !wait.over()) co_await weft::yield();
        goes_on = dog.looks() >= looks + 5;
        held = false;
        co_await std::move(other);
        const weft::test::patience wait_for_end;
        do {
            co_await weft::sleep_for(1ms);
            running = 0;
            for (const auto& each : weft::this_runtime::statistics().processors) {
                running += each.state == weft::processor_state::running ? 1U : 0U;
            }
        } while (running != 3 && !wait_for_end.over());
    };
    weft::run(main(), {.processors = 1});
    CHECK(changing);
    CHECK(goes_on);
    CHECK(running == 3);
}

// Whoever has given its processor up serves nobody: as where it has never been, what waits for the
// one that runs stays where it is, and keeps its order.
TEST_CASE("a worker beside which all others have given their processors up keeps what waits for it",
          "[faults]") {
    bool retired = false;
    std::size_t left = 0;
    auto main = [&]() -> weft::task<> {
        weft::this_runtime::set_processors(2);
        weft::this_runtime::set_processors(1);
        while (weft::this_runtime::statistics().processors[1].state !=
               weft::processor_state::retired) {
            co_await weft::sleep_for(1ms);
        }
        retired = true;
        std::vector<weft::join_handle<void>> waiting;
        for (int i = 0; i < 3; ++i) waiting.push_back(weft::co_spawn([]() -> weft::task<> {
            co_return;
        }));
        auto& self = weft::test::this_worker();
        const std::uint64_t before = self.p.overruns.read();
        spin_until([&] { return self.p.overruns.read() != before; });
        // A few more looks, at each of which it would be relieved.
        auto& dog = weft::test::this_core().dog;
        const std::uint64_t looks = dog.looks();
        spin_until([&] { return dog.looks() >= looks + 5; });
        left = self.p.queue.size();
        for (auto& each : waiting) co_await std::move(each);
    };
    weft::run(main(), {.processors = 1, .compensate = false});
    CHECK(retired);
    CHECK(left == 3);
}
