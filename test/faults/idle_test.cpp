// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/scale.hpp"
#include "support/skip.hpp"

#include "lib/netpoll/system_calls.hpp"

#include <weft/weft.hpp>

#include <liburing.h>
#include <malloc.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

// A runtime that does nothing costs nothing, and one that has ended leaves nothing behind.

using namespace std::chrono_literals;

namespace {

std::chrono::nanoseconds used_by_process() {
    timespec used{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

std::size_t allocated() {
    const auto info = ::mallinfo2();
    return info.uordblks + info.hblkhd;
}

void use_a_runtime(unsigned processors) {
    weft::runtime runtime({.processors = processors, .shutdown_grace = 0s});
    auto work = []() -> weft::task<> {
        co_await weft::sleep_for(10us);
        co_await weft::yield();
    };
    runtime.co_spawn(work()).get();
    runtime.co_spawn([]() -> weft::task<> { co_await weft::sleep_for(1h); }).detach();
}

std::atomic<bool> small_ring_made;

/// Where memory is short, as it is when rings leak, smaller rings are made, and nothing is said.
void watch_size_of_rings() {
    auto table = weft::detail::kernel_system_calls();
    table.io_uring_setup = [](unsigned entries, io_uring_params* parameters) {
        const int fd = weft::detail::kernel_system_calls().io_uring_setup(entries, parameters);
        if (fd >= 0 && entries != 256) small_ring_made = true;
        return fd;
    };
    weft::detail::replace_system_calls(table);
}

void make_and_destroy(int count) {
    // What is made once for the process is there after the first rounds.
    for (int i = 0; i < 20; ++i) use_a_runtime(1 + static_cast<unsigned>(i % 4));
    const std::size_t threads = weft::test::thread_count();
    const std::size_t descriptors = weft::test::descriptor_count();
    const std::size_t before = allocated();
    for (int i = 0; i < count; ++i) use_a_runtime(1 + static_cast<unsigned>(i % 4));
    weft::test::child_check(weft::test::thread_count() == threads, "threads leak");
    weft::test::child_check(weft::test::descriptor_count() == descriptors, "descriptors leak");
    const std::size_t after = allocated();
    std::fprintf(stderr, "allocated before %zu, after %zu\n", before, after);
    // Sanitizers do not fill in mallinfo2; their own leak check is exact.
    weft::test::child_check(after < before + 256 * 1024, "memory leaks");
}

}  // namespace

TEST_CASE("an idle runtime uses under 1 % of a CPU", "[idle]") {
    for (const unsigned processors : {1U, 2U, 8U}) {
        weft::runtime runtime({.processors = processors});
        runtime.co_spawn([]() -> weft::task<> { co_await weft::yield(); }).get();
        // A task that sleeps for long changes nothing.
        auto sleeper = runtime.co_spawn([]() -> weft::task<> { co_await weft::sleep_for(1h); });
        std::this_thread::sleep_for(50ms);
        const auto before = used_by_process();
        std::this_thread::sleep_for(1s);
        const auto used = used_by_process() - before;
        INFO("processors " << processors << ", used " << used.count() << " ns in a second");
        CHECK(used < 10ms);
        sleeper.request_stop();
        sleeper.detach();
    }
}

TEST_CASE("a runtime that is made and destroyed 1,000 times leaks nothing", "[idle]") {
    const int count = static_cast<int>(weft::test::scaled_count(1000, 10'000));
    const auto result =
        weft::test::run_in_child([=] { make_and_destroy(count); }, std::chrono::seconds(120));
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

TEST_CASE("the same for an unprivileged user, who stays on full rings", "[idle]") {
    if (::geteuid() != 0) WEFT_SKIP("the test above was made by an unprivileged user");
    const int count = static_cast<int>(weft::test::scaled_count(1000, 10'000));
    const auto result = weft::test::run_in_child(
        [=] {
            weft::test::become_another_user();
            watch_size_of_rings();
            std::string first;
            {
                weft::runtime runtime({.processors = 4});
                first = runtime.statistics().netpoller;
            }
            make_and_destroy(count);
            weft::runtime runtime({.processors = 4});
            weft::test::child_check(runtime.statistics().netpoller == first,
                                    "the netpoller has changed");
            weft::test::child_check(!small_ring_made, "a ring is smaller than it should be");
        },
        std::chrono::seconds(120));
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}
