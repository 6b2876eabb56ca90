// SPDX-License-Identifier: MIT
#pragma once

// The end of a runtime, as models of what tasks wait for see it. Threads of the model stand for
// workers: each step of a branch is inside begin_step(). Once the end has come no step begins, so
// whoever is readied stays in its queue; when all have finished, what is left is destroyed where it
// waits, while threads outside may still complete it.

#include "children_in_scopes.hpp"
#include "explorer.hpp"

#include <atomic>

namespace weft::model {

class ending_runtime {
public:
    /// Before the threads start. Elsewhere nothing is counted, which would keep steps of different
    /// threads from being independent.
    void will_end() { ends_ = true; }

    /// A step of a branch, from construction to destruction. False: the workers have left.
    class step {
    public:
        explicit step(ending_runtime& of) : of_(of), begun_(!of.ends_ || !of.ending_) {
            if (begun_ && of_.ends_) ++of_.running_;
        }
        ~step() {
            if (!begun_ || !of_.ends_) return;
            of_.finished_.fetch_add(1, std::memory_order_release);
            --of_.running_;
        }
        step(const step&) = delete;
        step& operator=(const step&) = delete;
        explicit operator bool() const { return begun_; }

    private:
        ending_runtime& of_;
        const bool begun_;
    };

    [[nodiscard]] step begin_step() { return step(*this); }

    /// A worker waits until there is something in its queue. False: it leaves instead.
    template <class There>
    bool await_work(There there) {
        block_until([&] { return there() || (ends_ && ending_.get()); }, "a worker without work");
        return there();
    }

    /// The workers leave. Returns when the last one has, and sees what they did.
    void end() {
        ending_ = true;
        block_until([this] { return running_.get() == 0; }, "the workers that leave");
        finished_.fetch_add(0, std::memory_order_acquire);
    }

private:
    bool ends_ = false;
    shared<bool> ending_{false};
    shared<int> running_{0};
    model_layer::atomic<unsigned> finished_{0};
};

/// What is left in a scope but its parent, linked through `next`, as
/// runtime_core::destroy_suspended() finds it.
inline branch* branches_left(scope& root, const branch& parent) {
    branch* left = nullptr;
    root.for_each_branch([&](branch& found) {
        if (&found == &parent) return;
        found.next = left;
        left = &found;
    });
    return left;
}

/// Destroys the operation that a branch waits for, as ~awaiter() does: afterwards nobody touches
/// the branch.
inline void destroy_wait(branch& left) {
    if (awaited_object* const on = left.waits_on) {
        left.word.end_parked([&] { return on->take(&left); });
    }
}

}  // namespace weft::model
