// SPDX-License-Identifier: MIT
#pragma once

// The reduction: executions that differ in the order of steps which have nothing to do with each
// other are equivalent, and one of them is enough.
//
// An execution is a sequence of *runs*: what one thread does from the moment it gets the processor
// until another gets it. A run consists of *steps*, from one scheduling point to the next. Two
// steps of different threads are *independent* if neither writes a location that the other one
// reads or writes; then they can change places and nothing is different afterwards. So an execution
// is cut short where a smaller equivalent one is explored as well:
//
//     late run     The run that has just ended, of thread j, is independent of each run back to and
//                  including one of a thread i > j. It could have gone before that one.
//     late step    The first step of a run of thread i is independent of everything since the last
//                  run of i. It could have been the last step of that run.
//
// Smaller means: the sequence of the runs comes first in the order of words, where a lower thread
// comes before a higher one, and of two runs of one thread the longer one before the shorter. Both
// changes make an execution smaller, and there are finitely many equivalent ones, so each has an
// equivalent that is not cut short.
//
// Why it respects the bound on preemptions, which the usual sleep sets do not. Whether the end of a
// run is a preemption depends on whether its thread could go on there, and that is not changed by
// moving independent steps. Moving a whole run moves its end with it; where two runs of one thread
// meet, the end of the first is gone. Moving the first step of a run to the end of the run before
// leaves a preemption there, or a block instead of it. So the smaller execution has no more
// preemptions than the larger one, and the search within the bound meets it. The same holds for the
// budgets of stale reads and spurious failures, which count what the steps do.
//
// Threads that are alike (explore_options::alike) give a third change: where the higher one of two
// starts before the lower one, exchange their numbers. That makes an execution smaller as well, so
// the three go together. fibers.cpp sees to it when it picks who goes next.
//
// What counts as an access. Operations on atomics, by location; while stale reads are explored, a
// seq_cst load counts as a write, since it bounds what other seq_cst loads of that word return.
// Predicates of block_until() read what they look at, on entry and when the thread goes on; so does
// pause(). A futex is written by who sleeps on it and by who wakes. Where threads that spin are let
// go although nobody has written anything, the run that follows depends on everything. Variables
// of `model_layer::var` need not be seen: their accesses are ordered by atomics, or the execution
// is a violation before it is cut short.
//
// What the model has to do for it: whatever else its threads share, also bookkeeping and what
// predicates and checks look at, has to be atomic (peek() is seen) or `model::shared`. That is why
// it is asked for, scenario by scenario (explore_options::reduce).
//
// The test of the explorer compares all outcomes of random programs with and without it.
//
// Rejected: sleep sets and persistent sets (unsound under a bound on preemptions, or weak where
// they are made sound); comparing states (see search.hpp).

#include "explorer.hpp"

#include <array>
#include <bitset>
#include <cstdint>
#include <vector>

namespace weft::model {

class reduction {
public:
    /// `seq_cst_reads_write`: stale reads are explored.
    void begin_execution(bool enabled, bool seq_cst_reads_write);
    bool enabled() const { return enabled_; }
    unsigned create_shared();

    // What the running thread does.

    void start_run(unsigned thread);
    void read(unsigned location, bool seq_cst = false) {
        if (!enabled_) return;
        (seq_cst && seq_cst_reads_write_ ? step_.writes : step_.reads).set(location);
    }
    void write(unsigned location) {
        if (enabled_) step_.writes.set(location);
    }
    void read_shared(unsigned id) { read(max_locations + id); }
    void write_shared(unsigned id) { write(max_locations + id); }
    void depend_on_everything() {
        if (enabled_) step_.writes.set();
    }

    /// At a scheduling point. True: cut the execution short.
    bool end_step();
    /// Where a run ends, after end_step(). True: cut the execution short.
    bool end_run();

private:
    static constexpr unsigned max_shared = 32;
    using set = std::bitset<max_locations + max_shared>;

    struct accesses {
        set reads, writes;
        bool conflicts_with(const accesses& other) const {
            return (writes & (other.reads | other.writes)).any() || (reads & other.writes).any();
        }
    };
    struct run {
        unsigned thread = 0;
        bool has_steps = false;
        accesses all;
    };

    bool step_is_late() const;

    bool enabled_ = false;
    bool seq_cst_reads_write_ = false;
    unsigned shared_count_ = 0;
    accesses step_;
    std::vector<run> runs_;
    std::size_t run_count_ = 0;
};

}  // namespace weft::model
