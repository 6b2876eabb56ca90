// SPDX-License-Identifier: MIT
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_RUNNER
#endif
#include "support/skip.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

// The entry point of every Catch2 test program, and the listener that makes its result countable
// in the way that docs/testing.md describes:
//   - the last line of the standard output is "N passed, N failed", and ", N skipped" if any was;
//   - where WEFT_TEST_RECORD names a file, one line is added to it as each case begins and ends,
//     so that a crash, a hang or a sanitizer's exit can be blamed on the case that was running;
//   - the exit status is 0 only if a case ran and none failed.

namespace {

#if WEFT_TEST_CATCH_MAJOR >= 3
using listener_base = Catch::EventListenerBase;
#else
using listener_base = Catch::TestEventListenerBase;
#endif

struct run_totals {
    bool started = false;
    unsigned long passed = 0;
    unsigned long failed = 0;
    unsigned long skipped = 0;
};

run_totals totals;

class result_listener : public listener_base {
public:
    using listener_base::listener_base;

    void testRunStarting(const Catch::TestRunInfo&) override { totals.started = true; }

    void testCaseStarting(const Catch::TestCaseInfo& test_case) override {
        record("begin", test_case.name);
    }

    void testCaseEnded(const Catch::TestCaseStats& stats) override {
        const auto& cases = stats.totals.testCases;
        const char* outcome = "passed";
        if (cases.failed != 0) {
            outcome = "failed";
            ++totals.failed;
        } else if (std::exchange(weft::test::skipped_case, false)) {
            outcome = "skipped";
            ++totals.skipped;
        } else {
            ++totals.passed;
        }
        record(outcome, stats.testInfo);
    }

private:
    static void record(const char* what, const Catch::TestCaseInfo* test_case) {
        record(what, test_case->name);
    }
    static void record(const char* what, const Catch::TestCaseInfo& test_case) {
        record(what, test_case.name);
    }

    // Opens the file for each line: the line then survives whatever happens to the process, and a
    // case that closes descriptors it does not own cannot take the record away.
    static void record(const char* what, const std::string& name) {
        const char* path = std::getenv("WEFT_TEST_RECORD");
        if (path == nullptr) return;
        if (std::FILE* file = std::fopen(path, "a")) {
            std::fprintf(file, "%s %s\n", what, name.c_str());
            std::fclose(file);
        }
    }
};

CATCH_REGISTER_LISTENER(result_listener)

}  // namespace

int main(int argc, char** argv) {
    // Whatever hangs says why. A test that means it removes the variable.
    ::setenv("WEFT_DEADLOCK", "throw", 0);
    const int status = Catch::Session().run(argc, argv);
    if (!totals.started) return status;
    std::fflush(stdout);
    std::printf("%lu passed, %lu failed", totals.passed, totals.failed);
    if (totals.skipped != 0) std::printf(", %lu skipped", totals.skipped);
    std::printf("\n");
    if (totals.failed != 0) return 1;
    return totals.passed + totals.skipped == 0 ? 2 : 0;
}
