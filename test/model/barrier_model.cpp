// SPDX-License-Identifier: MIT

// Model of a barrier: tasks arrive, phase by phase, drop out, and are stopped. Nobody may pass
// before all who are expected have arrived, nobody may be forgotten, and what is done at the end of
// a phase must be done once, before anybody goes on.

#include <weft/detail/branch/operation_word.hpp>
#include <weft/detail/sync/barrier_core.hpp>

#include "explorer.hpp"

#include <cstddef>

namespace model = weft::model;
using layer = model::model_layer;
using weft::detail::suspend_outcome;

namespace {

// A task at the barrier: its branch, and what its frame holds while it waits.
struct party : weft::detail::wait_links<layer, party> {
    weft::detail::operation_word<layer> word;
    model::lifetime frame;
    layer::var<bool> cancelled{false};
    int resumed = 0;
    int phase = 0;  // The one that it has passed.
    int who = 0;
    party* then = nullptr;  // Its next arrival, once it has passed.
};

using core = weft::detail::barrier_core<layer, party>;

struct fixture {
    explicit fixture(std::size_t expected) : barrier(model::make<core>(expected)) { all = this; }

    core* barrier;
    layer::var<int> phases{0};          // Written at the end of each.
    layer::var<int> arrivals[2]{0, 0};  // In "two phases", before the first one.
    bool destroyed_by_waiter = false;
    static fixture* all;
};

fixture* fixture::all;

fixture& here() {
    return *fixture::all;
}

void arrive(party& self);

// The branch runs again, and its frame ends.
void resume(party& self, bool was_last = false) {
    ++self.resumed;
    if (!self.cancelled) {
        self.phase = here().phases;
        if (here().destroyed_by_waiter && !was_last) model::destroy(here().barrier);
        if (self.then != nullptr) {
            model::check(here().arrivals[1 - self.who] == 1, "the other one has not arrived");
            arrive(*self.then);
        }
    }
    self.frame.destroy("task");
}

// As barrier_base::end_phase().
void end_phase(party* first) {
    here().phases = here().phases + 1;
    while (first != nullptr) {
        party& each = *first;
        first = each.next;
        each.frame.touch("task");
        if (each.word.complete()) resume(each);
    }
}

void cancel(party& waiting) {
    if (here().barrier->withdraw(waiting)) {
        waiting.cancelled = true;
        waiting.word.withdrawn();
        resume(waiting);
    } else if (waiting.word.let_go()) {
        resume(waiting);
    }
}

// As barrier_operation::start().
void arrive(party& self) {
    const auto arrived = here().barrier->arrive(self);
    if (arrived.ends_phase) {
        if (arrived.expected) end_phase(arrived.others);
        return resume(self, true);
    }
    switch (self.word.suspend()) {
    case suspend_outcome::suspended: return;
    case suspend_outcome::completed: return resume(self);
    case suspend_outcome::stopped: return cancel(self);
    }
}

void drop() {
    const auto dropped = here().barrier->drop();
    model::check(dropped.expected, "it was not expected");
    if (dropped.ends_phase) end_phase(dropped.others);
}

void stop(party& waiting) {
    if (waiting.word.request_stop(false)) cancel(waiting);
}

void check_resumed(const party& task) {
    model::check(task.resumed == 1, "a wake-up is lost or doubled");
}

void two_meet() {
    fixture barrier(2);
    party tasks[2];
    model::run_threads(model::named_thread{"task 1", [&] { arrive(tasks[0]); }},
                       model::named_thread{"task 2", [&] { arrive(tasks[1]); }});
    for (const party& each : tasks) {
        check_resumed(each);
        model::check(each.phase == 1, "it has passed before the end of the phase");
    }
    model::check(barrier.phases == 1, "not one phase");
}

void three_meet() {
    fixture barrier(3);
    party tasks[3];
    model::run_threads(model::named_thread{"task 1", [&] { arrive(tasks[0]); }},
                       model::named_thread{"task 2", [&] { arrive(tasks[1]); }},
                       model::named_thread{"task 3", [&] { arrive(tasks[2]); }});
    for (const party& each : tasks) {
        check_resumed(each);
        model::check(each.phase == 1, "it has passed before the end of the phase");
    }
}

// Each goes on with the next phase as soon as it has passed the first one.
void two_phases() {
    fixture barrier(2);
    party first[2];
    party second[2];
    for (int i = 0; i < 2; ++i) {
        first[i].who = i;
        first[i].then = &second[i];
    }
    const auto meet_twice = [&](int who) {
        here().arrivals[who] = 1;
        arrive(first[who]);
    };
    model::run_threads(model::named_thread{"task 1", [&] { meet_twice(0); }},
                       model::named_thread{"task 2", [&] { meet_twice(1); }});
    for (int i = 0; i < 2; ++i) {
        check_resumed(first[i]);
        check_resumed(second[i]);
        model::check(first[i].phase == 1 && second[i].phase == 2, "not in its phase");
    }
}

void drop_against_arrivals() {
    fixture barrier(3);
    party tasks[2];
    model::run_threads(model::named_thread{"task 1", [&] { arrive(tasks[0]); }},
                       model::named_thread{"task 2", [&] { arrive(tasks[1]); }},
                       model::named_thread{"dropper", drop});
    for (const party& each : tasks) check_resumed(each);
    model::check(barrier.phases == 1, "not one phase");
    // Two are expected from now on.
    party next[2];
    arrive(next[0]);
    model::check(next[0].resumed == 0, "it is alone");
    arrive(next[1]);
    for (const party& each : next) check_resumed(each);
}

// One who is stopped has not arrived: another one has to in its place.
void arrival_against_stop() {
    fixture barrier(2);
    party tasks[2];
    model::run_threads(model::named_thread{"task 1", [&] { arrive(tasks[0]); }},
                       model::named_thread{"task 2", [&] { arrive(tasks[1]); }},
                       model::named_thread{"canceller", [&] { stop(tasks[0]); }});
    check_resumed(tasks[0]);
    model::check((barrier.phases == 0) == tasks[0].cancelled, "it does not know what it has done");
    party instead;
    if (tasks[0].cancelled) {
        model::check(tasks[1].resumed == 0, "it has passed alone");
        arrive(instead);
        check_resumed(instead);
    }
    check_resumed(tasks[1]);
    model::check(barrier.phases == 1, "not one phase");
}

void stop_in_line() {
    fixture barrier(4);
    party tasks[4];
    for (int i = 0; i < 3; ++i) arrive(tasks[i]);
    model::run_threads(model::named_thread{"last", [&] { arrive(tasks[3]); }},
                       model::named_thread{"canceller", [&] { stop(tasks[1]); }});
    party instead;
    if (tasks[1].cancelled) arrive(instead);
    for (const party& each : tasks) check_resumed(each);
}

void pass_and_destroy() {
    fixture barrier(2);
    barrier.destroyed_by_waiter = true;
    party tasks[2];
    model::run_threads(model::named_thread{"task 1", [&] { arrive(tasks[0]); }},
                       model::named_thread{"task 2", [&] { arrive(tasks[1]); }});
    for (const party& each : tasks) check_resumed(each);
}

void nobody_expected() {
    fixture barrier(1);
    drop();
    model::check(barrier.phases == 1, "the last one who drops out ends the phase");
    model::check(!barrier.barrier->drop().expected, "it does not say that it was too much");
    party task;
    arrive(task);
    check_resumed(task);
    model::check(barrier.phases == 1, "a phase of nobody");
}

const model::scenario scenarios[] = {
    {"two meet", two_meet},
    {"three meet", three_meet},
    {"two phases", two_phases},
    {"drop against arrivals", drop_against_arrivals},
    {"arrival against stop", arrival_against_stop},
    {"stop in line", stop_in_line},
    {"pass and destroy", pass_and_destroy},
    {"nobody expected", nobody_expected},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "barrier", scenarios);
}
