// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/child_process.hpp"

#include <weft/weft.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <system_error>
#include <vector>

// The system refuses threads.

using namespace std::chrono_literals;

namespace {

/// In a child process: from now on this many threads can be started, the calling one included. As
/// root by becoming a user that has no processes, otherwise (where others of the same user count)
/// only none at all can be arranged.
bool limit_threads(rlim_t count) {
    const bool root = ::geteuid() == 0;
    const rlimit limit{root ? count : 1, root ? count : 1};
    if (::setrlimit(RLIMIT_NPROC, &limit) != 0) return false;
    if (root) weft::test::become_another_user();
    return true;
}

weft::task<int> work() {
    std::vector<weft::join_handle<int>> handles;
    for (int i = 0; i < 100; ++i) {
        handles.push_back(weft::co_spawn(
            [](int value) -> weft::task<int> {
                co_await weft::sleep_for(10us);
                co_return value;
            },
            i));
    }
    int sum = 0;
    for (auto& each : handles) sum += co_await each;
    co_return sum;
}

}  // namespace

TEST_CASE("fault 6: thread creation fails: run works with the threads that there are", "[faults]") {
    const auto result = weft::test::run_in_child([] {
        weft::test::child_check(limit_threads(4), "the limit could not be set");
        std::string lines;
        unsigned processors = 0;
        auto main = [&]() -> weft::task<int> {
            processors = weft::this_runtime::processors();
            co_return co_await work();
        };
        const int sum = weft::run(main(), {.processors = 16, .log = [&](std::string_view line) {
                                               lines += std::string(line) + "\n";
                                           }});
        std::fprintf(stderr, "%s", lines.c_str());
        weft::test::child_check(sum == 4950, "the work was not done");
        weft::test::child_check(processors >= 1 && processors < 16, "the number of processors");
        weft::test::child_check(lines.find("instead of 16") != std::string::npos, "no log line");
        weft::test::child_check(lines.find("ulimit -u") != std::string::npos, "no advice");
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

TEST_CASE("fault 6: thread creation fails: a runtime without a single thread is an error",
          "[faults]") {
    const auto result = weft::test::run_in_child([] {
        weft::test::child_check(limit_threads(1), "the limit could not be set");
        const std::size_t descriptors = weft::test::descriptor_count();
        bool thrown = false;
        for (int i = 0; i < 10; ++i) {
            try {
                weft::runtime runtime({.processors = 4});
            } catch (const std::system_error& error) {
                thrown = error.code() == std::errc::resource_unavailable_try_again &&
                         std::string(error.what()).find("ulimit -u") != std::string::npos;
            }
        }
        weft::test::child_check(thrown, "no error");
        weft::test::child_check(weft::test::descriptor_count() == descriptors, "descriptors leak");
        // The calling thread is enough for run().
        const int sum = weft::run(work(), {.processors = 4, .log = [](std::string_view) {}});
        weft::test::child_check(sum == 4950, "the work was not done");
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}
