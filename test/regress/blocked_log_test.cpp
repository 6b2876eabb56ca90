// SPDX-License-Identifier: MIT
#include "support/call_gate.hpp"
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/kept_log.hpp"
#include "support/scheduler.hpp"
#include "support/skip.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

// A log that does not return kept the watchdog, or a worker that fired the timer of its report. Now
// a thread of its own waits for it, and nobody else.

using namespace std::chrono_literals;
using weft::test::call_gate;
using weft::test::kept_log;
using weft::test::spin_until;
using weft::test::thread_time;
using weft::test::until;

namespace {

/// Keeps whoever logs a line with this part, until the gate opens.
std::function<void(std::string_view)> blocked_by(call_gate& gate, std::string_view part,
                                                 kept_log& kept) {
    return [&gate, part, keep = kept.sink()](std::string_view line) {
        keep(line);
        if (line.find(part) != line.npos) gate.pass();
    };
}

weft::task<> set(std::atomic<bool>& flag) {
    flag = true;
    co_return;
}

std::string hangs() {
    return "a log that blocks keeps the runtime";
}

/// How many lines the log was told to have missed.
std::uint64_t left_out(kept_log& log) {
    std::uint64_t count = 0;
    for (const std::string& each : log.lines()) {
        if (each.find("lines were left out here") == each.npos) continue;
        count += std::stoull(each.substr(std::string_view("weft: ").size()));
    }
    return count;
}

}  // namespace

TEST_CASE("a log that blocks does not keep the watchdog", "[regress]") {
    call_gate log_blocks;
    kept_log log;
    bool reported = false, helped = false;
    std::uint64_t before = 0, after = 0;
    auto main = [&]() -> weft::task<> {
        // Nothing waits, so nobody runs in the place of this worker before it has been reported.
        reported = spin_until([&] { return log_blocks.inside() == 1; });
        before = weft::this_runtime::statistics().compensations;
        std::atomic<bool> ran{false};
        auto other = weft::co_spawn(set, std::ref(ran));
        helped = spin_until([&] { return ran.load(); });
        // It is counted when it has been started, and may have run the task by then.
        spin_until([&] {
            after = weft::this_runtime::statistics().compensations;
            return after >= 1;
        });
        co_await std::move(other);
        log_blocks.open();
    };
    weft::test::watchdog watchdog(60s, hangs);
    weft::run(main(), {.processors = 1,
                       .hog_report = 20ms,
                       .log = blocked_by(log_blocks, "lets nobody in", log)});
    CHECK(reported);
    CHECK(before == 0);
    CHECK(helped);
    CHECK(after >= 1);
}

// The report is that of a timer, and others of its batch were waited for by whoever ends a
// deadline.
TEST_CASE("a log that blocks does not keep the worker that fires the timer of a report",
          "[regress]") {
    call_gate log_blocks;
    call_gate calls;
    kept_log log;
    int rounds = 0;
    const auto pass = [&calls]() -> weft::task<> {
        co_await weft::blocking([&calls] { calls.pass(); });
    };
    auto main = [&]() -> weft::task<> {
        auto running = weft::co_spawn(pass);
        auto waiting = weft::co_spawn(pass);
        co_await until([&] { return log_blocks.inside() == 1; });
        for (; rounds < 20; ++rounds) {
            const auto late =
                co_await weft::as_result(weft::with_timeout(1ms, weft::sleep_for(1h)));
            if (late || late.error() != std::errc::timed_out) break;
        }
        log_blocks.open();
        calls.open();
        co_await std::move(running);
        co_await std::move(waiting);
    };
    weft::test::watchdog watchdog(60s, hangs);
    weft::run(main(), {.processors = 1,
                       .compensate = false,
                       .blocking_threads = 1,
                       .log = blocked_by(log_blocks, "given to blocking() wait", log)});
    CHECK(rounds == 20);
    CHECK(log.count("given to blocking() wait") == 1);
}

// What comes later comes after the note.
TEST_CASE("lines that find no room while the log blocks are left out and counted", "[regress]") {
    call_gate first_blocks, next_blocks;
    kept_log log;
    bool blocked = false, again = false, later = false;
    int kept = 0;
    auto sink = [&, keep = log.sink()](std::string_view line) {
        keep(line);
        if (line == "the first line") first_blocks.pass();
        if (line == "another line") next_blocks.pass();
    };
    auto main = [&]() -> weft::task<> {
        auto& reports = weft::test::this_core().reports;
        reports.say("the first line");
        blocked = spin_until([&] { return first_blocks.inside() == 1; });
        for (int i = 0; i < 40; ++i) kept += reports.say_in_short("another line") ? 1 : 0;
        first_blocks.open();
        again = spin_until([&] { return next_blocks.inside() == 1; });
        later = reports.say("a later line");
        next_blocks.open();
        co_return;
    };
    weft::test::watchdog watchdog(60s, hangs);
    weft::run(main(), {.processors = 1, .log = sink});
    CHECK(blocked);
    CHECK(again);
    CHECK(kept == 32);
    CHECK(later);
    CHECK(log.count("another line") == 32);
    const auto lines = log.lines();
    REQUIRE(lines.size() > 2);
    CHECK(lines[lines.size() - 2].find("8 lines were left out") != std::string::npos);
    CHECK(lines.back() == "a later line");
}

// It was counted as said although nobody had room for it.
TEST_CASE("what is reported once is reported when there is room again", "[regress]") {
    call_gate log_blocks;
    kept_log log;
    std::atomic<bool> begun{false}, kept{false}, over{false};
    bool blocked = false, looked = false, reported = false;
    std::uint64_t looks = 0;
    const char* const line = "as many besides that ran in their place";
    // The watchdog holds against a task what it has used, which on a busy machine takes long.
    const auto has_used = [](std::chrono::nanoseconds from) {
        return thread_time() - from >= 100ms;
    };
    auto keep = [&]() -> weft::task<> {
        const auto began = thread_time();
        begun = true;
        spin_until([&] {
            if (has_used(began)) kept = true;
            return over.load();
        });
        co_return;
    };
    auto main = [&]() -> weft::task<> {
        auto& core = weft::test::this_core();
        core.reports.say("the first line");
        blocked = spin_until([&] { return log_blocks.inside() == 1; });
        while (core.reports.say_in_short("another line")) {}
        auto keeper = weft::co_spawn(keep);
        const bool all_kept = spin_until([&] { return begun.load(); });
        std::atomic<bool> ran{false};
        auto waits = weft::co_spawn(set, std::ref(ran));
        // It is reported after some 10 ms of both tasks.
        const auto began = thread_time();
        const std::uint64_t before = core.dog.looks();
        looked = all_kept && spin_until([&] {
            looks = core.dog.looks() - before;
            return kept && has_used(began) && looks >= 100;
        });
        log_blocks.open();
        reported = spin_until([&] { return log.count(line) == 1; });
        over = true;
        co_await std::move(keeper);
        co_await std::move(waits);
    };
    weft::test::watchdog watchdog(100s, hangs);
    weft::run(main(), {.processors = 1,
                       .hog_report = 10ms,
                       .log = blocked_by(log_blocks, "the first line", log)});
    CHECK(blocked);
    CHECK(looked);
    CHECK(reported);
    CHECK(log.count(line) == 1);
    // The watchdog has looked a hundred times and more meanwhile. That was no line each time.
    CHECK(left_out(log) > 0);
    CHECK(left_out(log) < looks / 4);
}

TEST_CASE("a log that does not return at the end is told to on_hang", "[regress]") {
    call_gate log_blocks;
    kept_log log;
    std::string told;
    auto main = [&]() -> weft::task<> {
        weft::test::this_core().reports.say("the first line");
        co_return;
    };
    weft::test::watchdog watchdog(60s, hangs);
    weft::run(main(), {.processors = 1,
                       .shutdown_timeout = 100ms,
                       .on_hang =
                           [&](std::string_view report) {
                               told = report;
                               log_blocks.open();
                           },
                       .log = blocked_by(log_blocks, "the first line", log)});
    CHECK(told.find("for 100 ms the end of the runtime waits for the log") != told.npos);
    CHECK(log.count("the first line") == 1);
}

TEST_CASE("a log that does not return at the end terminates the process", "[regress]") {
    const auto result = weft::test::run_in_child([] {
        call_gate log_blocks;
        kept_log log;
        auto main = []() -> weft::task<> {
            weft::test::this_core().reports.say("the first line");
            co_return;
        };
        weft::run(main(), {.processors = 1,
                           .shutdown_timeout = 100ms,
                           .log = blocked_by(log_blocks, "the first line", log)});
    });
    INFO(result.describe());
    CHECK(result.aborted_with("the end of the runtime waits for the log"));
}

namespace {

/// In a child: nobody reads what it writes to the standard error stream, and no more fits in. Not
/// before the runtime has started, which may have to say something.
void fill_standard_error() {
    int ends[2];
    weft::test::child_check(::pipe(ends) == 0, "no pipe");
    weft::test::child_check(::fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0, "no flag");
    const std::array<char, 4096> page{};
    while (::write(ends[1], page.data(), page.size()) > 0) {}
    weft::test::child_check(::fcntl(ends[1], F_SETFL, 0) == 0, "the flag stays");
    ::dup2(ends[1], STDERR_FILENO);
}

}  // namespace

// std::terminate writes there as well, by default, and waited for it.
TEST_CASE("a standard error stream that nobody reads does not keep the process that has hung",
          "[regress]") {
    SECTION("the stream itself keeps the end") {
        const auto result = weft::test::run_in_child([] {
            auto main = []() -> weft::task<> {
                fill_standard_error();
                weft::test::this_core().reports.say("the first line");
                co_return;
            };
            weft::run(main(), {.processors = 1, .shutdown_timeout = 100ms});
        }, 20s);
        INFO(result.describe());
        CHECK_FALSE(result.hung);
        CHECK(result.signal == SIGABRT);
    }
    SECTION("a task keeps the end") {
        const auto result = weft::test::run_in_child([] {
            std::atomic<bool> kept{false};
            auto keep = [&]() -> weft::task<> {
                fill_standard_error();
                kept = true;
                for (;;) std::this_thread::yield();
                co_return;
            };
            auto main = [&]() -> weft::task<> {
                weft::co_spawn(keep).detach();
                while (!kept) co_await weft::yield();
            };
            weft::run(main(), {.processors = 2, .shutdown_grace = 1ms, .shutdown_timeout = 100ms});
        }, 20s);
        INFO(result.describe());
        CHECK_FALSE(result.hung);
        CHECK(result.signal == SIGABRT);
    }
}

namespace {

/// In a child of a user of its own, who may have so many threads and processes.
void limit_threads(rlim_t count) {
    const rlimit limit{count, 1000};
    weft::test::child_check(::setrlimit(RLIMIT_NPROC, &limit) == 0, "no limit");
    weft::test::become_another_user();
}

}  // namespace

// The system refuses the thread that would write it, and the watchdog rests.
TEST_CASE("fault 6: thread creation fails: calls that wait are reported meanwhile", "[regress]") {
    if (::geteuid() != 0) WEFT_SKIP("other processes of this user would count");
    const auto result = weft::test::run_in_child([] {
        // The caller, the watchdog, and one for calls; ThreadSanitizer has one of its own.
        limit_threads(weft::test::thread_sanitizer ? 4 : 3);
        call_gate hold;
        std::atomic<bool> told{false};
        auto log = [&](std::string_view line) {
            if (line.find("given to blocking() wait") != line.npos) told = true;
        };
        auto pass = [&]() -> weft::task<> { co_await weft::blocking([&] { hold.pass(); }); };
        unsigned threads = 0;
        bool meanwhile = false;
        auto main = [&]() -> weft::task<> {
            std::vector<weft::join_handle<void>> running;
            for (int i = 0; i < 5; ++i) running.push_back(weft::co_spawn(pass()));
            co_await weft::sleep_for(5s);
            threads = static_cast<unsigned>(weft::this_runtime::statistics().blocking_threads);
            meanwhile = told;
            hold.open();
            for (auto& each : running) co_await std::move(each);
        };
        weft::run(main(), {.processors = 1, .log = log});
        weft::test::child_check(threads == 1, "the number of threads");
        weft::test::child_check(told, "never told");
        weft::test::child_check(meanwhile, "told when it was over");
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

TEST_CASE("fault 6: thread creation fails: without a watchdog lines are written at once",
          "[regress]") {
    if (::geteuid() != 0) WEFT_SKIP("other processes of this user would count");
    const auto result = weft::test::run_in_child([] {
        limit_threads(1);
        kept_log log;
        bool at_once = false;
        auto main = [&]() -> weft::task<> {
            auto& core = weft::test::this_core();
            weft::test::child_check(!core.dog.watches(), "there is a watchdog");
            core.reports.say("a line");
            at_once = log.count("a line") == 1;
            co_return;
        };
        weft::run(main(), {.processors = 1, .log = log.sink()});
        weft::test::child_check(at_once, "not written");
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}
