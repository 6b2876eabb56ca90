// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/child_process.hpp"

#include <weft/weft.hpp>

#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

// A program that a task started by fork and exec had all signals blocked, as the worker has, and so
// could not be ended by SIGTERM.

using weft::test::child_check;

TEST_CASE("a program that is executed by a forked worker has the signal mask of the start",
          "[regress][fork]") {
    const auto result = weft::test::run_in_child([] {
        // One signal is blocked by the program itself, and stays so.
        sigset_t mask;
        ::sigemptyset(&mask);
        ::sigaddset(&mask, SIGUSR1);
        ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
        weft::runtime runtime({.processors = 1});
        auto status = runtime.co_spawn([]() -> weft::task<int> {
            const pid_t child = ::fork();
            if (child == 0) {
                // SIGUSR1 is signal 10: bit 9.
                ::execl("/bin/grep", "grep", "-q", "^SigBlk:.0000000000000200$",
                        "/proc/self/status", nullptr);
                ::_exit(99);
            }
            int ended = 0;
            ::waitpid(child, &ended, 0);
            sigset_t own;
            ::pthread_sigmask(SIG_SETMASK, nullptr, &own);
            child_check(::sigismember(&own, SIGTERM) == 1, "the worker's own mask has changed");
            co_return ended;
        });
        child_check(status.get() == 0, "the program has another mask");
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}
