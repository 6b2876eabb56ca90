// SPDX-License-Identifier: MIT

#include "reduction.hpp"

#include <cstdio>
#include <cstdlib>

namespace weft::model {

void reduction::begin_execution(bool enabled, bool seq_cst_reads_write) {
    enabled_ = enabled;
    seq_cst_reads_write_ = seq_cst_reads_write;
    shared_count_ = 0;
    run_count_ = 0;
    step_ = {};
}

unsigned reduction::create_shared() {
    if (shared_count_ == max_shared) {
        std::fprintf(stderr, "model: more than %u shared variables in one execution\n", max_shared);
        std::exit(2);
    }
    return shared_count_++;
}

void reduction::start_run(unsigned thread) {
    if (!enabled_) return;
    if (run_count_ == runs_.size()) runs_.emplace_back();
    runs_[run_count_++] = {.thread = thread, .has_steps = false, .all = {}};
    step_ = {};
}

// Could the first step of the last run have been the last step of its thread's run before?
bool reduction::step_is_late() const {
    const unsigned self = runs_[run_count_ - 1].thread;
    for (std::size_t i = run_count_ - 1; i-- > 0;) {
        if (runs_[i].thread == self) return true;
        if (step_.conflicts_with(runs_[i].all)) return false;
    }
    return false;
}

bool reduction::end_step() {
    if (!enabled_ || run_count_ == 0) return false;
    run& now = runs_[run_count_ - 1];
    if (!now.has_steps && step_is_late()) return true;
    now.has_steps = true;
    now.all.reads |= step_.reads;
    now.all.writes |= step_.writes;
    step_ = {};
    return false;
}

bool reduction::end_run() {
    if (!enabled_ || run_count_ == 0) return false;
    const run& ended = runs_[run_count_ - 1];
    for (std::size_t i = run_count_ - 1; i-- > 0;) {
        if (ended.all.conflicts_with(runs_[i].all)) return false;
        if (runs_[i].thread > ended.thread) return true;
    }
    return false;
}

}  // namespace weft::model
