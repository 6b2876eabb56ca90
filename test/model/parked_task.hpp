// SPDX-License-Identifier: MIT
#pragma once

// What models of waits have in common: a task that parks, and those who race for it. `Withdraw`
// takes its operation off the object, `withdraw(task)`: false, a completer has it.

#include "explorer.hpp"

#include <weft/detail/branch/operation_word.hpp>

namespace weft::model {

/// Its branch, and what its frame holds.
struct parked_task {
    weft::detail::operation_word<model_layer> word;
    lifetime frame;
    bool ending = false;  // Its runtime ends, so it does not run once it was readied.
    int ended = 0;

    void end() {
        ++ended;
        frame.destroy("task");
    }
    void check_ended() const { check(ended == 1, "a wake-up is lost or doubled"); }
};

/// What the canceller does with a branch that was parked. True: the branch is its own now.
template <class Task, class Withdraw>
bool cancel(Task& waiting, Withdraw withdraw) {
    if (!withdraw(waiting)) return waiting.word.let_go();
    waiting.word.withdrawn();
    return true;
}

/// As park(): false, it was suspended, and belongs to others.
template <class Task, class Withdraw>
bool park(Task& self, Withdraw withdraw) {
    switch (self.word.suspend()) {
    case weft::detail::suspend_outcome::suspended: return false;
    case weft::detail::suspend_outcome::completed: return true;
    case weft::detail::suspend_outcome::stopped: break;
    }
    return cancel(self, withdraw);
}

/// True: the branch is the caller's now.
template <class Task, class Withdraw>
bool stop(Task& waiting, Withdraw withdraw) {
    return waiting.word.request_stop(false) && cancel(waiting, withdraw);
}

/// The end of a runtime: it is stopped, does not run any more, and is destroyed. The last line is
/// ~awaiter(), after which nobody touches it.
template <class Task, class Withdraw>
void end_wait(Task& left, Withdraw withdraw) {
    stop(left, withdraw);
    left.word.end_parked([&] { return withdraw(left); });
}

}  // namespace weft::model
