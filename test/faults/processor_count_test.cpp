// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/network.hpp"
#include "support/scheduler.hpp"
#include "support/skip.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <liburing.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string>
#include <system_error>
#include <vector>

// What goes wrong while the number of processors changes: nothing is changed then, nothing is left
// behind, and the error says what to do.

using namespace std::chrono_literals;
using weft::detail::kernel_system_calls;
using weft::detail::system_calls;
using weft::test::spin_until;

namespace {

// Which call fails next, and with which errno; after how many of its kind that succeed.
std::atomic<bool> setup_fails, enable_fails, eventfd_fails;
std::atomic<int> calls_before;

bool fails_now(const std::atomic<bool>& which) {
    if (!which || calls_before.fetch_sub(1) > 0) return false;
    errno = ENOMEM;
    return true;
}

system_calls failing_calls() {
    system_calls table = kernel_system_calls();
    table.io_uring_setup = [](unsigned entries, io_uring_params* parameters) {
        return fails_now(setup_fails) ? -1
                                      : kernel_system_calls().io_uring_setup(entries, parameters);
    };
    table.io_uring_register = [](int fd, unsigned operation, void* argument, unsigned count) {
        if (operation == IORING_REGISTER_ENABLE_RINGS && fails_now(enable_fails)) return -1;
        return kernel_system_calls().io_uring_register(fd, operation, argument, count);
    };
    table.eventfd = [](unsigned initial, int flags) {
        return fails_now(eventfd_fails) ? -1 : kernel_system_calls().eventfd(initial, flags);
    };
    return table;
}

/// What the attempt to get more processors says.
std::string refusal(weft::runtime& runtime, unsigned count) {
    try {
        runtime.set_processors(count);
    } catch (const std::system_error& error) { return error.what(); }
    return {};
}

std::size_t running(const weft::runtime_statistics& statistics) {
    std::size_t count = 0;
    for (const auto& each : statistics.processors) {
        count += each.state == weft::processor_state::running ? 1U : 0U;
    }
    return count;
}

weft::task<int> echo_once() {
    auto pair = co_await weft::test::connected_pair();
    co_await pair.client.write_all(std::array{std::byte{1}, std::byte{2}});
    std::array<std::byte, 8> buffer;
    co_await weft::sleep_for(1ms);
    co_return static_cast<int>(co_await pair.server.read_some(buffer));
}

}  // namespace

TEST_CASE("a ring that cannot be made for one more worker changes nothing", "[faults][netpoll]") {
    if (!weft::test::io_uring_starts()) {
        WEFT_SKIP("io_uring cannot start here");
    }
    const weft::test::replaced_calls replaced(failing_calls());
    const weft::test::forced_backend forced("io_uring");
    weft::runtime runtime({.processors = 2});
    const std::size_t descriptors = weft::test::descriptor_count();
    const std::size_t threads = weft::test::thread_count();
    struct failure {
        std::atomic<bool>& call;
        const char* step;
    };
    const failure failures[] = {{setup_fails, "io_uring_setup"},
                                {enable_fails, "enabling the ring"},
                                {eventfd_fails, "making an eventfd"}};
    for (const failure& each : failures) {
        for (const int successes : {0, 1, 2}) {
            INFO(each.step << " fails after " << successes);
            calls_before = successes;
            each.call = true;
            const std::string said = refusal(runtime, 5);
            each.call = false;
            INFO(said);
            CHECK(said.find(each.step) != std::string::npos);
            CHECK(said.find("ulimit") != std::string::npos);
            CHECK(said.find("fewer processors") != std::string::npos);
            const auto statistics = runtime.statistics();
            CHECK(statistics.processors.size() == 2);
            CHECK(running(statistics) == 2);
            CHECK(weft::test::descriptor_count() == descriptors);
            CHECK(weft::test::thread_count() == threads);
            CHECK(runtime.co_spawn(echo_once()).get() == 2);
        }
    }
    // And then it works.
    CHECK(refusal(runtime, 5).empty());
    CHECK(runtime.statistics().processors.size() == 5);
    CHECK(runtime.co_spawn(echo_once()).get() == 2);
}

TEST_CASE("a thread that cannot be started for one more worker changes nothing", "[faults]") {
    for (const char* backend : weft::test::backends()) {
        const auto result = weft::test::run_in_child([backend] {
            const weft::test::forced_backend forced(backend);
            weft::runtime runtime({.processors = 2, .blocking_threads = 1});
            // As root by becoming a user that has no processes; else no thread at all.
            const bool root = ::geteuid() == 0;
            const rlimit limit{root ? rlim_t{5} : rlim_t{1}, root ? rlim_t{5} : rlim_t{1}};
            weft::test::child_check(::setrlimit(RLIMIT_NPROC, &limit) == 0, "the limit");
            if (root) weft::test::become_another_user();
            const std::size_t descriptors = weft::test::descriptor_count();
            const std::size_t threads = weft::test::thread_count();
            for (int i = 0; i < 10; ++i) {
                const std::string said = refusal(runtime, 30);
                weft::test::child_check(said.find("ulimit -u") != std::string::npos, "no advice");
                weft::test::child_check(runtime.statistics().processors.size() == 2, "changed");
                weft::test::child_check(weft::test::descriptor_count() == descriptors,
                                        "descriptors leak");
                weft::test::child_check(weft::test::thread_count() == threads, "threads leak");
                weft::test::child_check(runtime.co_spawn(echo_once()).get() == 2, "no echo");
            }
            // Fewer are always to be had, and the same number again.
            runtime.set_processors(1);
            runtime.set_processors(2);
            weft::test::child_check(runtime.co_spawn(echo_once()).get() == 2, "no echo");
        });
        INFO(backend << ": " << result.describe());
        CHECK(result.signal == 0);
        CHECK(result.status == 0);
    }
}

TEST_CASE("a runtime ends while workers retire, are retired, or come back", "[faults]") {
    const auto before = weft::test::thread_count();
    for (const char* backend : weft::test::backends()) {
        const weft::test::forced_backend forced(backend);
        const weft::test::watchdog dog(60s, [backend] { return std::string(backend); });
        for (int i = 0; i < 60; ++i) {
            auto reader = [](weft::net::tcp_stream stream) -> weft::task<> {
                std::array<std::byte, 8> buffer;
                co_await stream.read_some(buffer);
            };
            auto sleeper = []() -> weft::task<> { co_await weft::sleep_for(1h); };
            auto main = [&](int round) -> weft::task<> {
                std::vector<weft::test::stream_pair> pairs;
                for (int n = 0; n < 4; ++n) {
                    pairs.push_back(co_await weft::test::connected_pair());
                    weft::co_spawn(reader, std::move(pairs.back().server)).detach();
                    weft::co_spawn(sleeper).detach();
                }
                for (int n = 0; n < round % 5; ++n) co_await weft::yield();
                weft::this_runtime::set_processors(1);
                for (int n = 0; n < round % 7; ++n) co_await weft::yield();
                if (round % 3 == 0) co_await weft::sleep_for(200us);
                if (round % 2 == 0) {
                    weft::this_runtime::set_processors(1 + static_cast<unsigned>(round) % 6);
                }
            };
            weft::run(main(i), {.processors = 4, .shutdown_grace = i % 4 == 0 ? 0s : 1s});
        }
    }
    CHECK(spin_until([&] { return weft::test::thread_count() <= before; }));
}

TEST_CASE("the grace period of a runtime ends while all its processors are held by tasks",
          "[faults]") {
    const auto result = weft::test::run_in_child([] {
        std::atomic<bool> holds{false}, ended{false};
        weft::runtime runtime({.processors = 3, .shutdown_grace = 50ms, .shutdown_timeout = 20s});
        // It ignores the stop, so only the workers without a processor have time to notice.
        auto hog = [&]() -> weft::task<> {
            auto& core = weft::test::this_core();
            holds = true;
            ended = spin_until(
                [&] { return core.phase() >= weft::detail::runtime_phase::stopping; });
            for (;;) co_await weft::yield();
        };
        runtime.set_processors(1);
        spin_until([&] { return running(runtime.statistics()) == 1; });
        runtime.co_spawn(hog).detach();
        spin_until([&] { return holds.load(); });
        runtime.shutdown();
        weft::test::child_check(ended, "the grace period did not end");
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

// Its timer is in the heap of the worker that is held, where a worker that leaves would put it too.
TEST_CASE("the grace period of a runtime ends while its only processor is held by a task",
          "[faults]") {
    const auto result = weft::test::run_in_child([] {
        std::atomic<bool> ended{false};
        auto hog = [&]() -> weft::task<> {
            auto& core = weft::test::this_core();
            const auto runs = [&] {
                return core.phase() == weft::detail::runtime_phase::running;
            };
            try {
                while (runs()) co_await weft::yield();
            } catch (const std::system_error&) {}  // It was asked to stop.
            ended = spin_until(
                [&] { return core.phase() >= weft::detail::runtime_phase::stopping; });
        };
        auto main = [&]() -> weft::task<> {
            weft::co_spawn(hog).detach();
            co_await weft::yield();
        };
        weft::run(main(),
                  {.processors = 1, .shutdown_grace = 50ms, .shutdown_timeout = 20s});
        weft::test::child_check(ended, "the grace period did not end");
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

TEST_CASE("set_processors in the child of a fork ends the child with a message", "[faults]") {
    const auto result = weft::test::run_in_child([] {
        weft::runtime runtime({.processors = 3});
        runtime.set_processors(1);
        const pid_t child = ::fork();
        if (child == 0) {
            runtime.set_processors(2);
            ::_exit(0);
        }
        int status = 0;
        weft::test::child_check(::waitpid(child, &status, 0) == child, "no child");
        weft::test::child_check(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "not ended");
        // The parent is not touched.
        runtime.set_processors(3);
        weft::test::child_check(runtime.co_spawn(echo_once()).get() == 2, "no echo");
    });
    INFO(result.describe());
    CHECK(result.errors.find("forked") != std::string::npos);
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}
