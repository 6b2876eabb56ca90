// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/scheduler.hpp"

#include <weft/weft.hpp>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

// Signals while everything waits.

using namespace std::chrono_literals;

namespace {

volatile std::sig_atomic_t handled = 0;

void handle(int) {
    handled = handled + 1;
}

void install(int number) {
    struct sigaction action{};
    action.sa_handler = handle;  // Without SA_RESTART: every wait is interrupted.
    ::sigaction(number, &action, nullptr);
}

/// The mask of blocked signals of a thread, as the kernel tells it.
std::uint64_t blocked_signals(const std::filesystem::path& task) {
    std::ifstream file(task / "status");
    for (std::string line; std::getline(file, line);) {
        if (line.rfind("SigBlk:", 0) == 0) return std::stoull(line.substr(7), nullptr, 16);
    }
    return 0;
}

bool is_blocked(std::uint64_t mask, int number) {
    return (mask >> (number - 1)) % 2 == 1;
}

}  // namespace

TEST_CASE("fault 20: signals during waits (EINTR) end no wait early", "[faults]") {
    const auto result = weft::test::run_in_child([] {
        install(SIGUSR1);
        const pthread_t caller = ::pthread_self();
        std::atomic<bool> ended{false};
        std::thread storm([&] {
            while (!ended) {
                ::pthread_kill(caller, SIGUSR1);
                std::this_thread::sleep_for(50us);
            }
        });
        auto main = []() -> weft::task<int> {
            int early = 0;
            for (int i = 0; i < 100; ++i) {
                const auto began = std::chrono::steady_clock::now();
                co_await weft::sleep_for(2ms);
                if (std::chrono::steady_clock::now() - began < 2ms) ++early;
                co_await weft::co_spawn([]() -> weft::task<> { co_await weft::sleep_for(50us); });
            }
            co_return early;
        };
        for (const unsigned processors : {1U, 3U}) {
            weft::test::child_check(weft::run(main(), {.processors = processors}) == 0,
                                    "a sleep ended early");
        }
        // A thread that waits for a task is interrupted as well.
        weft::runtime runtime({.processors = 1});
        weft::test::child_check(runtime.co_spawn(main()).get() == 0, "a sleep ended early");
        ended = true;
        storm.join();
        weft::test::child_check(handled > 100, "hardly any signal came");
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

TEST_CASE("fault 20: a storm of SIGCHLD does no harm", "[faults]") {
    const auto result = weft::test::run_in_child([] {
        install(SIGCHLD);
        auto main = []() -> weft::task<int> {
            int ended = 0;
            for (int i = 0; i < 50; ++i) {
                const pid_t child = ::fork();
                if (child == 0) ::_exit(0);
                co_await weft::sleep_for(100us);
                int status = 0;
                while (::waitpid(child, &status, WNOHANG) == 0) co_await weft::sleep_for(100us);
                ended += WIFEXITED(status) ? 1 : 0;
            }
            co_return ended;
        };
        weft::test::child_check(weft::run(main(), {.processors = 2}) == 50, "children are missing");
        weft::test::child_check(handled > 0, "no signal came");
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

TEST_CASE("fault 20: worker threads block what is not theirs, the caller's mask stays",
          "[faults]") {
    const auto result = weft::test::run_in_child([] {
        sigset_t before;
        ::sigemptyset(&before);
        ::sigaddset(&before, SIGUSR2);
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        auto main = []() -> weft::task<int> {
            co_await weft::yield();
            // By then it has its name.
            weft::test::spin_until([] { return weft::test::this_core().dog.looks() != 0; });
            int right = 0;
            for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) {
                const std::uint64_t mask = blocked_signals(each.path());
                if (each.path().filename() == std::to_string(::getpid())) {
                    // The caller: as it was, but for the signal of the rescue.
                    right += is_blocked(mask, SIGUSR2) && !is_blocked(mask, SIGINT) &&
                             !is_blocked(mask, SIGTERM) && !is_blocked(mask, SIGCHLD);
                    continue;
                }
                std::ifstream name(each.path() / "comm");
                std::string text;
                std::getline(name, text);
                if (text.rfind("weft-", 0) != 0) continue;
                bool all = true;
                for (const int number : {SIGINT, SIGTERM, SIGCHLD, SIGALRM, SIGUSR1, SIGHUP}) {
                    all = all && is_blocked(mask, number);
                }
                for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGURG}) {
                    all = all && !is_blocked(mask, number);
                }
                right += all;
            }
            co_return right;
        };
        weft::test::child_check(weft::run(main(), {.processors = 4}) == 5, "a mask is wrong");
        sigset_t after;
        ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
        for (int number = 1; number < 32; ++number) {
            weft::test::child_check(::sigismember(&after, number) == ::sigismember(&before, number),
                                    "the caller's mask has changed");
        }
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}
