// SPDX-License-Identifier: MIT

#include "search.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace weft::model {

std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

std::uint64_t search::next_random() {
    random_state_ += 0x9e3779b97f4a7c15u;
    return mix(random_state_);
}

void search::begin_execution() {
    position_ = 0;
    preemptions_used_ = stale_used_ = spurious_used_ = 0;
    if (!random) return;
    tape_.clear();
    random_state_ = seed;
    // Long stretches of one thread in some executions, wild interleaving in others.
    switch_shift_ = static_cast<unsigned>(next_random() % 4);
    stale_shift_ = static_cast<unsigned>(next_random() % 3);
}

bool search::advance() {
    // What an execution that was cut short has not reached is not on its path.
    tape_.resize(std::min(tape_.size(), position_));
    while (!tape_.empty() && tape_.back().chosen + 1u == tape_.back().count) tape_.pop_back();
    if (tape_.empty()) return false;
    ++tape_.back().chosen;
    return true;
}

unsigned search::decide(unsigned count) {
    if (count <= 1) return 0;
    if (position_ < tape_.size()) {
        const decision& taken = tape_[position_++];
        if (taken.count != count) {
            std::fprintf(stderr,
                         "model: the same decisions gave another execution; a body must depend on "
                         "nothing but them (no addresses, clocks or left-over statics)\n");
            std::exit(2);
        }
        return taken.chosen;
    }
    ++position_;
    const unsigned chosen = random ? static_cast<unsigned>(next_random() % count) : 0;
    tape_.push_back({static_cast<std::uint16_t>(chosen), static_cast<std::uint16_t>(count)});
    return chosen;
}

bool search::preemption_allowed() {
    if (!random) return preemptions_used_ < options.preemptions;
    if (position_ < tape_.size()) return true;
    return (next_random() & ((1u << switch_shift_) - 1)) == 0;
}

bool search::stale_read_allowed() {
    if (!random) return stale_used_ < options.stale_reads;
    return (next_random() & ((1u << stale_shift_) - 1)) == 0;
}

bool search::fails_spuriously() {
    if (spurious_used_ >= options.spurious_failures || decide(2) == 0) return false;
    ++spurious_used_;
    return true;
}

// "chosen/count" for each decision; "*N" repeats.
std::string search::tape_text() const {
    std::string text;
    for (std::size_t i = 0; i < tape_.size();) {
        std::size_t same = i;
        while (same < tape_.size() && tape_[same].chosen == tape_[i].chosen &&
               tape_[same].count == tape_[i].count) {
            ++same;
        }
        if (!text.empty()) text += ',';
        text += std::to_string(tape_[i].chosen) + '/' + std::to_string(tape_[i].count);
        if (same - i > 1) text += '*' + std::to_string(same - i);
        i = same;
    }
    return text;
}

bool search::read_tape(const char* text) {
    tape_.clear();
    while (*text != '\0') {
        unsigned chosen = 0, count = 0, repeat = 1;
        int used = 0;
        if (std::sscanf(text, "%u/%u%n", &chosen, &count, &used) < 2) return false;
        text += used;
        if (*text == '*') {
            if (std::sscanf(text, "*%u%n", &repeat, &used) < 1) return false;
            text += used;
        }
        for (; repeat > 0; --repeat) {
            tape_.push_back(
                {static_cast<std::uint16_t>(chosen), static_cast<std::uint16_t>(count)});
        }
        if (*text == ',') ++text;
    }
    return true;
}

}  // namespace weft::model
