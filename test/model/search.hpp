// SPDX-License-Identifier: MIT
#pragma once

// The search: which decisions an execution takes, and which execution comes next.
//
// Everything in an execution that could go one way or another (who goes next, which value a load
// returns, whether a weak compare-and-swap fails, what a model chooses) asks decide(). The answers
// are written on a tape, and the same tape gives the same execution: the program under test depends
// on nothing else.
//
// The exhaustive search is a depth-first walk without any stored state: replay the tape with its
// last entry advanced, and drop entries that have no alternative left. It ends, since each
// execution is finite and three budgets bound it: preemptions, stale reads, spurious failures. A
// random search draws every answer from a seed instead, without budgets, and gives no guarantee; it
// reaches what lies beyond the budgets.
//
// Rejected: stored states (the stacks of the fibers are part of a state and cannot be compared); a
// budget of switches of any kind (a protocol that sleeps and wakes switches often, and those
// switches are not what makes a fault hard to meet).

#include "explorer.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace weft::model {

std::uint64_t mix(std::uint64_t x);

class search {
public:
    explore_options options;
    bool random = false;
    std::uint64_t seed = 0;

    /// A new search, or a new execution of one.
    void forget_tape() { tape_.clear(); }
    void begin_execution();
    /// Prepares the tape for the next execution of the exhaustive search; false when there is none.
    bool advance();

    /// One of `count` alternatives.
    unsigned decide(unsigned count);

    // The budgets. In a random search they are coins.

    /// May a thread be interrupted that could go on?
    bool preemption_allowed();
    void preempted() { ++preemptions_used_; }
    bool stale_read_allowed();
    void read_stale() { ++stale_used_; }
    /// Fails a weak compare-and-swap, or not.
    bool fails_spuriously();

    std::string tape_text() const;
    bool read_tape(const char* text);

private:
    struct decision {
        std::uint16_t chosen;
        std::uint16_t count;
    };

    std::uint64_t next_random();

    std::vector<decision> tape_;
    std::size_t position_ = 0;
    unsigned preemptions_used_ = 0;
    unsigned stale_used_ = 0;
    unsigned spurious_used_ = 0;
    std::uint64_t random_state_ = 0;
    unsigned switch_shift_ = 1;
    unsigned stale_shift_ = 1;
};

}  // namespace weft::model
