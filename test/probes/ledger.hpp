// SPDX-License-Identifier: MIT
//
// The set of addresses at which an object is alive. A compiler that copies an object bit by bit,
// destroys it twice, or forgets it, leaves a contradiction here, without any of the undefined
// behaviour that a real object would bring along, so that one run shows all the faults.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>

namespace weft::probe {

/// Used by one thread at a time. The probes that change threads join them in between.
class ledger {
public:
    void born(const void* object) {
        if (!alive_.insert(object).second) complain("constructed where another object is alive");
    }

    void died(const void* object) {
        if (alive_.erase(object) == 0) complain("destroyed twice, or never constructed");
    }

    void used(const void* object) {
        if (!alive_.contains(object)) complain("used while not alive");
    }

    /// What went wrong since the last call, and what is still alive; empty if all is well. Starts
    /// afresh.
    std::string close() {
        if (!alive_.empty()) complain(std::to_string(alive_.size()) + " never destroyed");
        alive_.clear();
        return std::exchange(complaints_, {});
    }

private:
    void complain(const std::string& text) {
        if (complaints_.size() < 200) complaints_ += text + "; ";
    }

    std::set<const void*> alive_;
    std::string complaints_;
};

inline ledger live_objects;

/// An object that enters itself in the ledger, with a value that moving takes along.
class tracked {
public:
    explicit tracked(int value = 7) : value_(value) { live_objects.born(this); }
    tracked(const tracked& other) : value_(other.value()) { live_objects.born(this); }
    tracked(tracked&& other) noexcept : value_(other.value()) {
        live_objects.born(this);
        other.value_ = -1;
    }
    tracked& operator=(const tracked& other) = default;
    tracked& operator=(tracked&& other) = default;
    ~tracked() { live_objects.died(this); }

    int value() const {
        live_objects.used(this);
        return value_;
    }

private:
    int value_;
};

}  // namespace weft::probe
