// SPDX-License-Identifier: MIT

// explore() and explore_random(): executions, one after the other, until all were seen.

#include "engine.hpp"

#include <cinttypes>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace weft::model {
namespace {

// Runs the failed execution once more with the trace, and prints it.
void report(engine& machine, body_function body) {
    const std::string first = machine.violation;
    machine.events.enabled = true;
    machine.run(body);
    machine.events.enabled = false;
    std::printf("violation: %s\n", first.c_str());
    machine.events.print(machine.locations);
    if (machine.violation != first) {
        std::printf("  (the replay ended differently: \"%s\")\n", machine.violation.c_str());
    }
    if (machine.decisions.random) {
        std::printf("  replay with --replay-seed %" PRIu64 "\n", machine.decisions.seed);
    } else {
        std::printf("  replay with --replay-tape %s\n", machine.decisions.tape_text().c_str());
    }
    std::fflush(stdout);
}

// Texts of violations live as long as the program.
const char* keep(const std::string& text) {
    static std::vector<std::unique_ptr<std::string>> kept;
    kept.push_back(std::make_unique<std::string>(text));
    return kept.back()->c_str();
}

void finish(engine& machine, explore_result& result, body_function body,
            const explore_options& options) {
    result.violated = true;
    result.violation = keep(machine.violation);
    if (options.verbose) report(machine, body);
}

}  // namespace

explore_result explore(body_function body, const explore_options& options) {
    engine& machine = the_engine();
    machine.decisions.options = options;
    machine.decisions.random = false;
    machine.decisions.forget_tape();
    machine.total_steps = 0;
    explore_result result;
    for (;;) {
        const execution_outcome outcome = machine.run(body);
        ++(outcome == execution_outcome::cut_short ? result.cut_short : result.executions);
        if (outcome == execution_outcome::violated) {
            finish(machine, result, body, options);
            break;
        }
        if (!machine.decisions.advance()) {
            result.exhausted = true;
            break;
        }
        if (result.executions + result.cut_short >= options.execution_limit) break;
    }
    result.steps = machine.total_steps;
    return result;
}

explore_result explore_random(body_function body, std::uint64_t executions, std::uint64_t seed,
                              const explore_options& options) {
    engine& machine = the_engine();
    machine.decisions.options = options;
    machine.decisions.random = true;
    machine.total_steps = 0;
    explore_result result;
    while (result.executions < executions) {
        machine.decisions.seed = mix(seed + result.executions);
        ++result.executions;
        if (machine.run(body) == execution_outcome::violated) {
            finish(machine, result, body, options);
            break;
        }
    }
    result.steps = machine.total_steps;
    return result;
}

}  // namespace weft::model
