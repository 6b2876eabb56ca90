// SPDX-License-Identifier: MIT
#pragma once

// What the models of closing have in common, whoever is the home of the polls: the references of a
// descriptor, and an operation that reads one message from it.

#include "poll_fixture.hpp"

namespace weft::model {

using descriptor_word = weft::detail::descriptor_word<layer>;

/// Those of the poll that an operation is about to arm.
struct poll_references {
    descriptor_word& of;
    void add() const { of.add_reference(); }
    void drop() const { check(!of.drop_reference(), "the operation holds none of its own"); }
};

enum class read_result : int { running, done, closed, refused };

/// `Fixture` is one life of a descriptor: `word`, `generation`, `reads`, `number`, end_life(), and
///
///     read()                  the system call: true, or EAGAIN
///     wait(branch, here)      poll_side::wait() with the references of `word`
///     arm(here, decision)     what follows from it; false: refused
template <class Fixture>
struct closing_reader {
    Fixture& on;
    unsigned here;
    waiter branch;
    bool has_turn = false;
    read_result ended = read_result::running;

    closing_reader(Fixture& descriptor, unsigned home) : on(descriptor), here(home) {}

    void leave(read_result how) {
        ended = how;
        if (!has_turn) return;
        has_turn = false;
        switch (on.word.leave(weft::detail::direction::read)) {
        case descriptor_word::leave_outcome::left: return;
        case descriptor_word::leave_outcome::last: on.end_life(); return;
        case descriptor_word::leave_outcome::hand_over: fail("nobody queues");
        }
    }

    /// The loop of io_operation::start(), until it has ended or is parked.
    void start() {
        using weft::detail::enter_outcome;
        using weft::detail::wait_step;
        for (;;) {
            if (!has_turn) {
                const enter_outcome outcome =
                    on.word.enter(on.generation, weft::detail::direction::read);
                if (outcome == enter_outcome::closed) return leave(read_result::closed);
                check(outcome == enter_outcome::entered, "the turn is taken");
                has_turn = true;
            }
            if (on.word.closing()) return leave(read_result::closed);
            on.reads.forget_readiness();
            on.number.touch("file");
            if (on.read()) return leave(read_result::done);
            const auto decision = on.wait(branch, here);
            if (decision.step == wait_step::ready) continue;
            const bool closing = decision.step == wait_step::closing;
            if ((closing || !on.arm(here, decision)) && on.reads.withdraw(&branch)) {
                return leave(closing ? read_result::closed : read_result::refused);
            }
            if (branch.word.suspend() == weft::detail::suspend_outcome::suspended) return;
        }
    }
};

}  // namespace weft::model
