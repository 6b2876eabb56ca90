// SPDX-License-Identifier: MIT

// Model of the board of the blocking pool: jobs are placed and withdrawn while machines go idle,
// give up after a long idle time, and end when the board closes. Every job that was placed and not
// withdrawn must be run once, and never may a job wait while a machine sleeps.

#include <weft/detail/blocking/job_board.hpp>

#include "explorer.hpp"

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;

namespace {

struct job : weft::detail::job_link<layer, job> {
    layer::var<int> contents;
    int runs = 0;
    bool withdrawn = false;
    bool refused = false;
};

struct machine : weft::detail::machine_link<layer, job, machine> {
    bool ended = false;
};

using board = weft::detail::job_board<layer, job, machine>;

struct world {
    explicit world(std::size_t most) : jobs_board(most, 3) {}
    board jobs_board;
    job jobs[3];
    machine machines[2];
    int ran = 0;
    // A machine that was made by place(): its thread waits for it.
    layer::atomic<int> to_start{0};
    layer::atomic<int> settled{0};
};

world* all;

void run(job& taken) {
    model::check(taken.contents == 7, "the job is not visible to the machine");
    ++taken.runs;
    all->settled.fetch_add(1, order::relaxed);
}

// As blocking_pool::wake().
void wake(machine& woken) {
    woken.word.store(1, order::release);
}

void place(job& added) {
    added.contents = 7;
    const auto placed = all->jobs_board.place(added, 0, true);
    if (placed.refused) {
        added.refused = true;
        all->settled.fetch_add(1, order::relaxed);
    } else if (placed.wake != nullptr) {
        wake(*placed.wake);
    } else if (placed.start) {
        all->to_start.fetch_add(1, order::release);
    }
}

void withdraw(job& taken_back) {
    if (all->jobs_board.withdraw(taken_back)) {
        taken_back.withdrawn = true;
        all->settled.fetch_add(1, order::relaxed);
    }
}

void close() {
    all->jobs_board.close();
    while (machine* idle = all->jobs_board.next_to_wake()) wake(*idle);
    while (job* left = all->jobs_board.next_left()) {
        left->refused = true;
        all->settled.fetch_add(1, order::relaxed);
    }
}

// As blocking_pool::state::sleep(). With `patient` the time never comes; otherwise it comes as soon
// as the machine sleeps.
job* sleep(machine& self, bool& ended, bool patient) {
    for (;;) {
        while (patient && self.word.load(order::relaxed) == 0) layer::pause();
        if (self.word.exchange(0, order::acquire) != 0) {
            job* found = all->jobs_board.woken(self, ended);
            if (found != nullptr || ended) return found;
        } else {
            job* found = all->jobs_board.give_up(self);
            ended = found == nullptr;
            return found;
        }
    }
}

void run_machine(machine& self, bool patient) {
    ++all->ran;
    bool ended = false;
    job* next = all->jobs_board.take(self, ended);
    while (!ended) {
        if (next == nullptr) {
            next = sleep(self, ended, patient);
            continue;
        }
        run(*next);
        next = all->jobs_board.take(self, ended);
    }
    self.ended = true;
}

// The thread of a machine: begins when place() has asked for it, or ends without when all is over.
void wait_and_run_machine(int number, int jobs, bool patient) {
    while (all->to_start.load(order::acquire) <= number) {
        if (all->settled.load(order::relaxed) == jobs) return;
        layer::pause();
    }
    run_machine(all->machines[number], patient);
}

void wait_until_settled(int jobs) {
    while (all->settled.load(order::relaxed) != jobs) layer::pause();
}

void check_each_once(int jobs) {
    for (int i = 0; i < jobs; ++i) {
        const job& each = all->jobs[i];
        model::check(each.runs + (each.withdrawn ? 1 : 0) + (each.refused ? 1 : 0) == 1,
                     "a job is lost or done twice");
    }
    model::check(all->jobs_board.queued() == 0, "a job is left");
}

// Every machine that ran has ended and is not counted any more; its thread may have found that all
// was over before it began.
void check_machines() {
    const int asked_for = all->to_start.load(order::relaxed);
    model::check(static_cast<int>(all->jobs_board.machines()) == asked_for - all->ran,
                 "a machine is left");
}

// ---- a job is placed while a machine goes idle.

void place_against_idle() {
    world here(1);
    all = &here;
    model::run_threads(model::named_thread{"placer",
                                           [] {
                                               place(all->jobs[0]);
                                               place(all->jobs[1]);
                                               wait_until_settled(2);
                                               close();
                                           }},
                       model::named_thread{"machine", [] { wait_and_run_machine(0, 2, true); }});
    check_each_once(2);
    model::check(here.jobs[0].runs == 1 && here.jobs[1].runs == 1, "a job was not run");
    check_machines();
}

// ---- a job is placed while an idle machine gives up.

void place_against_giving_up() {
    world here(1);
    all = &here;
    model::run_threads(
        model::named_thread{"placer",
                            [] {
                                place(all->jobs[0]);
                                place(all->jobs[1]);
                            }},
        model::named_thread{"machine", [] { wait_and_run_machine(0, 2, false); }},
        // The machine that takes the place of the first one, when that has given up.
        model::named_thread{"next machine", [] { wait_and_run_machine(1, 2, false); }});
    check_each_once(2);
    model::check(here.jobs[0].runs == 1 && here.jobs[1].runs == 1, "a job was not run");
    check_machines();
}

// ---- two jobs from two threads, while a machine gives up and another one takes its place.

void two_placers() {
    world here(1);
    all = &here;
    model::run_threads(model::named_thread{"first placer", [] { place(all->jobs[0]); }},
                       model::named_thread{"second placer", [] { place(all->jobs[1]); }},
                       model::named_thread{"machines", [] {
                                               wait_and_run_machine(0, 2, false);
                                               wait_and_run_machine(1, 2, false);
                                           }});
    check_each_once(2);
    model::check(here.jobs[0].runs == 1 && here.jobs[1].runs == 1, "a job was not run");
    check_machines();
}

// ---- a canceller takes back what a machine may be about to take.

void withdraw_against_take() {
    world here(1);
    all = &here;
    model::run_threads(model::named_thread{"placer",
                                           [] {
                                               place(all->jobs[0]);
                                               place(all->jobs[1]);
                                               withdraw(all->jobs[1]);
                                               wait_until_settled(2);
                                               close();
                                           }},
                       model::named_thread{"machine", [] { wait_and_run_machine(0, 2, true); }});
    check_each_once(2);
    model::check(here.jobs[0].runs == 1, "a job was not run");
}

// ---- the board closes while jobs are placed and a machine goes idle.

void close_against_place() {
    world here(1);
    all = &here;
    model::run_threads(model::named_thread{"placer",
                                           [] {
                                               place(all->jobs[0]);
                                               place(all->jobs[1]);
                                           }},
                       model::named_thread{"machine", [] { wait_and_run_machine(0, 2, true); }},
                       model::named_thread{"end", [] { close(); }});
    check_each_once(2);
    check_machines();
}

// ---- a machine cannot be made.

void start_fails() {
    world here(2);
    all = &here;
    model::run_threads(
        model::named_thread{"placer",
                            [] {
                                place(all->jobs[0]);
                                all->jobs[1].contents = 7;
                                const auto placed = all->jobs_board.place(all->jobs[1], 0, true);
                                if (placed.wake != nullptr) wake(*placed.wake);
                                if (!placed.start) return wait_until_settled(2), close();
                                // As blocking_pool::state::start_machine().
                                bool counted = true;
                                while (job* left = all->jobs_board.start_failed(counted)) {
                                    counted = false;
                                    left->refused = true;
                                    all->settled.fetch_add(1, order::relaxed);
                                }
                                wait_until_settled(2);
                                close();
                            }},
        model::named_thread{"machine", [] { wait_and_run_machine(0, 2, true); }});
    check_each_once(2);
    check_machines();
}

// ---- no machine can be made at all: whoever could not make it refuses what waits for it.

void place_and_fail(job& added) {
    added.contents = 7;
    if (!all->jobs_board.place(added, 0, true).start) return;
    bool counted = true;
    while (job* left = all->jobs_board.start_failed(counted)) {
        counted = false;
        left->refused = true;
    }
}

void no_start_succeeds() {
    world here(1);
    all = &here;
    model::run_threads(
        model::named_thread{"first placer", [] { place_and_fail(all->jobs[0]); }},
        model::named_thread{"second placer", [] { place_and_fail(all->jobs[1]); }});
    check_each_once(2);
    check_machines();
}

const model::scenario scenarios[] = {
    {"place against idle", place_against_idle},
    {"place against giving up", place_against_giving_up},
    {"two placers", two_placers},
    {"withdraw against take", withdraw_against_take},
    {"close against place", close_against_place},
    {"start fails", start_fails},
    {"no start succeeds", no_start_succeeds},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "job_board", scenarios);
}
