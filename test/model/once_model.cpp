// SPDX-License-Identifier: MIT

// Model of what is done once: calls that do it well or fail, wait for each other, are stopped, or
// end with their runtime before they could begin. Two must never do it at a time, nobody may wait
// while nobody does it, and what was done must be seen by all.

#include <weft/detail/branch/operation_word.hpp>
#include <weft/detail/sync/once_core.hpp>

#include "explorer.hpp"

namespace model = weft::model;
using layer = model::model_layer;
using weft::detail::once_step;
using weft::detail::suspend_outcome;

namespace {

enum class end_of_call { succeeds, fails, is_destroyed };

// One who calls: its branch, and what its frame holds.
struct party : weft::detail::once_links<layer, party> {
    weft::detail::operation_word<layer> word;
    model::lifetime frame;
    layer::var<bool> cancelled{false};
    end_of_call end = end_of_call::succeeds;
    bool waited = false;
    int resumed = 0;
    bool has_done_it = false;
};

using core = weft::detail::once_core<layer, party>;

struct fixture {
    fixture() { all = this; }

    core once;
    layer::var<int> tries{0};  // Written by whoever has the turn.
    layer::var<int> done{0};
    static fixture* all;
};

fixture* fixture::all;

fixture& here() {
    return *fixture::all;
}

void complete(party& waiting);

void complete_all(party* first) {
    while (first != nullptr) {
        party& each = *first;
        first = each.next;
        complete(each);
    }
}

void fail(party& self) {
    if (party* const next = here().once.fail(self)) complete(*next);
}

// The branch runs, with the turn or without, and its frame ends.
void resume(party& self) {
    ++self.resumed;
    if (self.cancelled) {
        model::check(!self.has_turn, "stopped with the turn");
    } else if (!self.has_turn) {
        model::check(here().once.is_done(), "it goes on, and nobody has done it");
        model::check(here().done == 1, "what was done is not seen");
    } else if (self.waited && self.end == end_of_call::is_destroyed) {
        fail(self);
    } else {
        here().tries = here().tries + 1;
        model::check(here().done == 0, "it is done again");
        if (self.end == end_of_call::fails) {
            fail(self);
        } else {
            here().done = 1;
            self.has_done_it = true;
            complete_all(here().once.succeed(self));
        }
    }
    self.frame.destroy("task");
}

void complete(party& waiting) {
    waiting.frame.touch("task");
    if (waiting.word.complete()) resume(waiting);
}

void cancel(party& waiting) {
    if (here().once.withdraw(waiting)) {
        waiting.cancelled = true;
        waiting.word.withdrawn();
        resume(waiting);
    } else if (waiting.word.let_go()) {
        resume(waiting);
    }
}

void call(party& self) {
    if (here().once.is_done()) {
        model::check(here().done == 1, "what was done is not seen");
        ++self.resumed;
        return;
    }
    if (here().once.begin(self) != once_step::waits) return resume(self);
    self.waited = true;
    switch (self.word.suspend()) {
    case suspend_outcome::suspended: return;
    case suspend_outcome::completed: return resume(self);
    case suspend_outcome::stopped: return cancel(self);
    }
}

void stop(party& waiting) {
    if (waiting.word.request_stop(false)) cancel(waiting);
}

template <std::size_t Count>
void check(const party (&tasks)[Count], int done) {
    int count = 0;
    for (const party& each : tasks) {
        model::check(each.resumed == 1, "a wake-up is lost or doubled");
        count += each.has_done_it ? 1 : 0;
    }
    model::check(count == done, "not done once");
    model::check(here().once.is_done() == (done == 1), "it does not know whether it is done");
}

void two_calls() {
    fixture once;
    party tasks[2];
    model::run_threads(model::named_thread{"call 1", [&] { call(tasks[0]); }},
                       model::named_thread{"call 2", [&] { call(tasks[1]); }});
    check(tasks, 1);
    model::check(once.tries == 1, "not tried once");
}

void three_calls() {
    fixture once;
    party tasks[3];
    model::run_threads(model::named_thread{"call 1", [&] { call(tasks[0]); }},
                       model::named_thread{"call 2", [&] { call(tasks[1]); }},
                       model::named_thread{"call 3", [&] { call(tasks[2]); }});
    check(tasks, 1);
}

void first_fails() {
    fixture once;
    party tasks[3];
    tasks[0].end = end_of_call::fails;
    model::run_threads(model::named_thread{"call 1", [&] { call(tasks[0]); }},
                       model::named_thread{"call 2", [&] { call(tasks[1]); }},
                       model::named_thread{"call 3", [&] { call(tasks[2]); }});
    check(tasks, 1);
}

void all_fail() {
    fixture once;
    party tasks[2];
    for (party& each : tasks) each.end = end_of_call::fails;
    model::run_threads(model::named_thread{"call 1", [&] { call(tasks[0]); }},
                       model::named_thread{"call 2", [&] { call(tasks[1]); }});
    check(tasks, 0);
    party last[1];
    call(last[0]);
    check(last, 1);
}

// Who waits is stopped while the one that it waits for succeeds, or fails.
void wait_against_stop(end_of_call end) {
    fixture once;
    party tasks[3];
    tasks[0].end = end;
    model::run_threads(model::named_thread{"call 1", [&] { call(tasks[0]); }},
                       model::named_thread{"call 2", [&] { call(tasks[1]); }},
                       model::named_thread{"canceller", [&] { stop(tasks[1]); }});
    call(tasks[2]);
    check(tasks, 1);
}

void stop_against_success() {
    wait_against_stop(end_of_call::succeeds);
}
void stop_against_failure() {
    wait_against_stop(end_of_call::fails);
}

// Who gets the turn is destroyed before it runs: the next one has it.
void destroyed_before_it_ran() {
    fixture once;
    party tasks[3];
    tasks[0].end = end_of_call::fails;
    tasks[1].end = end_of_call::is_destroyed;
    model::run_threads(model::named_thread{"call 1", [&] { call(tasks[0]); }},
                       model::named_thread{"call 2", [&] { call(tasks[1]); }},
                       model::named_thread{"call 3", [&] { call(tasks[2]); }});
    check(tasks, tasks[0].has_done_it || tasks[1].has_done_it || tasks[2].has_done_it ? 1 : 0);
    model::check(tasks[2].has_done_it || tasks[1].has_done_it, "the turn is lost");
}

const model::scenario scenarios[] = {
    {"two calls", two_calls},
    {"three calls", three_calls},
    {"first fails", first_fails},
    {"all fail", all_fail},
    {"stop against success", stop_against_success},
    {"stop against failure", stop_against_failure},
    {"destroyed before it ran", destroyed_before_it_ran},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "once", scenarios);
}
