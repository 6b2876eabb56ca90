// SPDX-License-Identifier: MIT

// The main function of a model: its scenarios, one after the other, and their table.

#include "engine.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace weft::model {
namespace {

struct arguments {
    const char* only = nullptr;
    std::uint64_t seed = 1;
    std::uint64_t random = UINT64_MAX;
    const char* replay_seed = nullptr;
    const char* replay_tape = nullptr;
    bool stop = false;
};

bool parse(int argc, char** argv, arguments& parsed) {
    for (int i = 1; i < argc; i += 2) {
        const std::string name = argv[i];
        if (i + 1 == argc) return false;
        char* value = argv[i + 1];
        if (name == "--only") {
            parsed.only = value;
        } else if (name == "--seed") {
            parsed.seed = std::strtoull(value, nullptr, 10);
        } else if (name == "--random") {
            parsed.random = std::strtoull(value, nullptr, 10);
        } else if (name == "--replay-seed") {
            parsed.replay_seed = value;
        } else if (name == "--replay-tape") {
            parsed.replay_tape = value;
        } else if (name == "--stop-at-violation") {
            parsed.stop = std::string(value) == "yes";
        } else {
            return false;
        }
    }
    return (parsed.replay_seed == nullptr && parsed.replay_tape == nullptr) ||
           parsed.only != nullptr;
}

// One execution again, with its trace. True when it ends without a violation.
bool replay(const scenario& one, const arguments& given) {
    engine& machine = the_engine();
    search& decisions = machine.decisions;
    decisions.options = one.options;
    decisions.random = given.replay_seed != nullptr;
    if (decisions.random) {
        decisions.seed = std::strtoull(given.replay_seed, nullptr, 10);
    } else if (!decisions.read_tape(given.replay_tape)) {
        return false;
    }
    machine.events.enabled = true;
    const bool clean = machine.run(one.body) != execution_outcome::violated;
    machine.events.enabled = false;
    machine.events.print(machine.locations);
    std::printf("%s%s\n", clean ? "no violation" : "violation: ", machine.violation.c_str());
    return clean;
}

explore_result run_random(const scenario& one, const char* subject, const arguments& given) {
    const std::uint64_t count = given.random == UINT64_MAX ? one.random_executions : given.random;
    explore_options options = one.options;
    options.spurious_failures = std::max(options.spurious_failures, 1u);
    const explore_result some = explore_random(one.body, count, given.seed, options);
    if (some.violated) {
        std::printf("%s: %s: FAILED, violation after %" PRIu64 " random executions\n", subject,
                    one.name, some.executions);
    }
    return some;
}

// 0, 1 after a violation, 2 where the search was not finished.
int run_one(const scenario& one, const char* subject, const arguments& given) {
    const auto start = std::chrono::steady_clock::now();
    const explore_result all = explore(one.body, one.options);
    if (all.violated) {
        std::printf("%s: %s: FAILED, violation after %" PRIu64 " executions\n", subject, one.name,
                    all.executions);
        return 1;
    }
    const explore_result some = run_random(one, subject, given);
    if (some.violated) return 1;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    std::string bounds = std::to_string(one.options.preemptions) + " preemptions";
    if (one.options.stale_reads < 1000) {
        bounds += ", " + std::to_string(one.options.stale_reads) + " stale reads";
    }
    std::string cut;
    if (one.options.reduce) cut = " and " + std::to_string(all.cut_short) + " cut short";
    std::printf("%s: %s: %s, %" PRIu64 " executions%s at %s (%s), %" PRIu64
                " random (seed %" PRIu64 "), %" PRIu64 " steps, %.2f s\n",
                subject, one.name, all.exhausted ? "ok" : "FAILED", all.executions, cut.c_str(),
                bounds.c_str(), all.exhausted ? "exhaustive" : "not finished", some.executions,
                given.seed, all.steps + some.steps, elapsed.count());
    return all.exhausted ? 0 : 2;
}

// A protocol that follows a null pointer has failed like any other, only without a trace.
void report_crash(int) {
    constexpr char text[] = "violation: crash\n";
    static_cast<void>(!::write(STDOUT_FILENO, text, sizeof(text) - 1));
    ::_exit(1);
}

void catch_crashes() {
    static std::byte stack[64 * 1024];
    stack_t alternate{};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof(stack);
    ::sigaltstack(&alternate, nullptr);
    struct sigaction action {};
    action.sa_handler = report_crash;
    action.sa_flags = SA_ONSTACK;
    for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::sigaction(number, &action, nullptr);
}

}  // namespace

int run_scenarios(int argc, char** argv, const char* subject, const scenario* scenarios,
                  std::size_t count) {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    catch_crashes();
    arguments given;
    if (!parse(argc, argv, given)) {
        std::fprintf(stderr,
                     "usage: %s [--only NAME [--replay-seed N | --replay-tape TAPE]] [--seed N] "
                     "[--random N] [--stop-at-violation yes]\n",
                     argv[0]);
        return 2;
    }
    // Random executions find most faults sooner than a search in order.
    for (std::size_t i = 0; given.stop && i < count; ++i) {
        if (run_random(scenarios[i], subject, given).violated) return 1;
    }
    int worst = 0;
    unsigned passed = 0, failed = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const scenario& one = scenarios[i];
        if (given.only != nullptr && std::string(given.only) != one.name) continue;
        if (given.replay_seed != nullptr || given.replay_tape != nullptr) {
            return replay(one, given) ? 0 : 1;
        }
        const int outcome = run_one(one, subject, given);
        ++(outcome == 0 ? passed : failed);
        if (outcome != 0 && worst != 1) worst = outcome;
        if (outcome == 1 && given.stop) break;
    }
    std::printf("%u passed, %u failed\n", passed, failed);
    return passed + failed == 0 ? 2 : worst;
}

}  // namespace weft::model
