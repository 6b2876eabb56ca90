// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/nothing.hpp"

#include <weft/weft.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

// A fork without exec: the child has none of the workers. Each use of the runtime there ends with a
// message instead of a hang, and the parent goes on. What becomes of descriptors is in
// test/regress/fork_descriptor_test.cpp.

using namespace std::chrono_literals;

namespace {

/// In a process of its own: forks, lets the grandchild do what `use` does, and says how it ended.
/// Ends by abort if the grandchild did, after the grandchild's message.
void fork_and_use(const std::function<void()>& use) {
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
        ::alarm(30);  // A hang ends by SIGALRM.
        use();
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(grandchild, &status, 0);
    weft::test::child_check(!WIFEXITED(status), "the use in the child had no consequence");
    weft::test::child_check(WTERMSIG(status) == SIGABRT, "the child did not abort");
}

const char* const message = "the process was forked";

void check(const weft::test::child_result& result) {
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
    CHECK(result.errors.find(message) != std::string::npos);
}

}  // namespace

TEST_CASE("fault 22: a task that forks goes on in the parent and ends in the child", "[faults]") {
    const std::function<weft::task<>()> uses[] = {
        []() -> weft::task<> { co_await weft::yield(); },
        []() -> weft::task<> { co_await weft::sleep_for(1ms); },
        []() -> weft::task<> { co_await weft::co_spawn([]() -> weft::task<> { co_return; }); },
        []() -> weft::task<> { co_return; },
        []() -> weft::task<> {
            for (;;) co_await weft::checkpoint();
        },
    };
    for (const auto& use : uses) {
        check(weft::test::run_in_child([&use] {
            auto main = [&]() -> weft::task<> {
                const pid_t grandchild = ::fork();
                if (grandchild == 0) {
                    ::alarm(30);
                    co_await use();
                    co_return;
                }
                int status = 0;
                ::waitpid(grandchild, &status, 0);
                weft::test::child_check(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
                                        "the child did not abort");
                // The parent is as it was.
                co_await weft::sleep_for(1ms);
                co_await weft::co_spawn([]() -> weft::task<> { co_await weft::yield(); });
            };
            weft::run(main(), {.processors = 2});
        }));
    }
}

TEST_CASE("fault 22: a thread outside that forks cannot use the runtime in the child", "[faults]") {
    using runtime_use = std::function<void(weft::runtime&, weft::join_handle<void>&)>;
    const runtime_use uses[] = {
        [](weft::runtime& runtime, auto&) { runtime.co_spawn(weft::test::nothing()).detach(); },
        [](weft::runtime& runtime, auto&) { runtime.shutdown(); },
        [](weft::runtime&, auto& handle) { handle.get(); },
        [](weft::runtime&, auto& handle) { handle.request_stop(); },
    };
    for (const auto& use : uses) {
        check(weft::test::run_in_child([&] {
            weft::runtime runtime({.processors = 2});
            auto sleeper = runtime.co_spawn([]() -> weft::task<> { co_await weft::sleep_for(1h); });
            fork_and_use([&] { use(runtime, sleeper); });
            runtime.co_spawn(weft::test::nothing()).get();
            sleeper.request_stop();
            sleeper.detach();
        }));
    }
}

TEST_CASE("fault 22: a child that calls exec is not disturbed", "[faults]") {
    const auto result = weft::test::run_in_child([] {
        auto main = []() -> weft::task<> {
            for (int i = 0; i < 20; ++i) {
                const pid_t grandchild = ::fork();
                if (grandchild == 0) {
                    ::execl("/bin/true", "true", nullptr);
                    ::_exit(1);
                }
                int status = 0;
                ::waitpid(grandchild, &status, 0);
                weft::test::child_check(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                                        "true did not run");
                co_await weft::sleep_for(100us);
            }
        };
        weft::run(main(), {.processors = 4});
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

TEST_CASE("fault 22: a child may make a runtime of its own", "[faults]") {
    const auto result = weft::test::run_in_child([] {
        weft::runtime runtime({.processors = 2});
        const pid_t grandchild = ::fork();
        if (grandchild == 0) {
            ::alarm(30);
            auto main = []() -> weft::task<int> {
                co_await weft::sleep_for(1ms);
                co_return 7;
            };
            ::_exit(weft::run(main(), {.processors = 2}));
        }
        int status = 0;
        ::waitpid(grandchild, &status, 0);
        weft::test::child_check(WIFEXITED(status) && WEXITSTATUS(status) == 7,
                                "the child's own runtime did not work");
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}
