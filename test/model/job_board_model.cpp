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
    bool too_many = false;
};

struct machine : weft::detail::machine_link<layer, job, machine> {
    bool ended = false;
};

using board = weft::detail::job_board<layer, job, machine>;

struct world {
    explicit world(std::size_t most, std::size_t most_queued = 3)
        : jobs_board(most, most_queued), queue_limit(most_queued) {}
    board jobs_board;
    const std::size_t queue_limit;
    job jobs[3];
    machine machines[2];
    int ran = 0;
    // Machines that were made: their threads wait for it.
    layer::atomic<int> to_start{0};
    layer::atomic<int> begins[2]{0, 0};
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

// What a machine that is made finds: nothing yet, the queue, or a job (its number is added).
enum : int { not_begun, with_queue, with_job };

// As blocking_pool::state::start_machine(), where the system gives a thread.
void start(job* first) {
    const int number = all->to_start.fetch_add(1, order::relaxed);
    const int how = first == nullptr ? with_queue : with_job + static_cast<int>(first - all->jobs);
    all->begins[number].store(how, order::release);
}

void give_back(job& refused) {
    refused.refused = true;
    all->settled.fetch_add(1, order::relaxed);
}

// As blocking_pool::submit().
void place(job& added, bool starts = true, bool waits = true) {
    added.contents = 7;
    auto placed = all->jobs_board.place(added, 0, waits);
    job* const first = placed.queued ? nullptr : &added;
    if (placed.start && starts) {
        start(first);
    } else if (placed.start) {
        placed = all->jobs_board.start_failed(first, 0, waits);
        while (job* stranded = all->jobs_board.next_stranded()) give_back(*stranded);
    }
    model::check(waits || !placed.queued, "a job waits that is not to");
    model::check(all->jobs_board.queued() <= all->queue_limit, "the queue has no limit");
    if (placed.wake != nullptr) wake(*placed.wake);
    added.too_many = placed.full;
    if (placed.refused || placed.full || placed.alone) give_back(added);
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
    while (job* left = all->jobs_board.next_left()) give_back(*left);
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

void run_machine(machine& self, job* next, bool patient) {
    ++all->ran;
    bool ended = false;
    if (next == nullptr) next = all->jobs_board.take(self, ended);
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

// The thread of a machine: begins when it is made, or ends without when all is over.
void wait_and_run_machine(int number, int jobs, bool patient) {
    int how = not_begun;
    while ((how = all->begins[number].load(order::acquire)) == not_begun) {
        if (all->settled.load(order::relaxed) == jobs) return;
        layer::pause();
    }
    run_machine(all->machines[number], how == with_queue ? nullptr : &all->jobs[how - with_job],
                patient);
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

// ---- a second machine cannot be made: its job waits for the first one, or finds it idle.

void start_fails() {
    world here(2);
    all = &here;
    model::run_threads(model::named_thread{"placer",
                                           [] {
                                               place(all->jobs[0]);
                                               place(all->jobs[1], false);
                                               wait_until_settled(2);
                                               close();
                                           }},
                       model::named_thread{"machine", [] { wait_and_run_machine(0, 2, true); }});
    check_each_once(2);
    model::check(here.jobs[1].runs == 1, "a job was not run");
    check_machines();
}

// ---- the queue has its limit meanwhile, and who does not wait is told so.

template <bool Waits>
void start_fails_with_a_full_queue() {
    world here(3, 1);
    all = &here;
    model::run_threads(model::named_thread{"placer",
                                           [] {
                                               place(all->jobs[0]);
                                               place(all->jobs[1], false);
                                               place(all->jobs[2], false, Waits);
                                               wait_until_settled(3);
                                               close();
                                           }},
                       model::named_thread{"machine", [] { wait_and_run_machine(0, 3, true); }});
    check_each_once(3);
    model::check(here.jobs[1].runs == 1, "a job was not run");
    check_machines();
}

// ---- a machine can be made again: the job that was queued before is not overtaken.

void starts_again() {
    world here(2);
    all = &here;
    model::run_threads(
        model::named_thread{"placer",
                            [] {
                                place(all->jobs[0]);
                                place(all->jobs[1], false);
                                all->jobs[2].contents = 7;
                                const auto placed = all->jobs_board.place(all->jobs[2], 0, true);
                                model::check(!placed.start || placed.queued ||
                                                 all->jobs_board.queued() == 0,
                                             "a job is overtaken");
                                if (placed.wake != nullptr) wake(*placed.wake);
                                if (placed.start) start(placed.queued ? nullptr : &all->jobs[2]);
                            }},
        model::named_thread{"machines", [] {
                                wait_and_run_machine(0, 3, false);
                                wait_and_run_machine(1, 3, false);
                            }});
    check_each_once(3);
    model::check(here.jobs[2].runs == 1, "a job was not run");
    check_machines();
}

// ---- no machine can be made at all: whoever could not make it refuses what waits for it.

void no_start_succeeds() {
    world here(2);
    all = &here;
    model::run_threads(
        model::named_thread{"first placer", [] { place(all->jobs[0], false); }},
        model::named_thread{"second placer", [] { place(all->jobs[1], false); }});
    check_each_once(2);
    check_machines();
}

// ---- the same where nothing may be queued: the job is not taken for one too many.

void no_start_succeeds_without_queue() {
    world here(2, 0);
    all = &here;
    model::run_threads(model::named_thread{"placer", [] {
                                               place(all->jobs[0], false);
                                               place(all->jobs[1], false, false);
                                           }});
    check_each_once(2);
    model::check(!here.jobs[0].too_many && !here.jobs[1].too_many, "the pool is not full");
    check_machines();
}

// ---- the board closes while a machine cannot be made.

void close_against_failure() {
    world here(2);
    all = &here;
    model::run_threads(model::named_thread{"placer",
                                           [] {
                                               place(all->jobs[0]);
                                               place(all->jobs[1], false);
                                           }},
                       model::named_thread{"machine", [] { wait_and_run_machine(0, 2, true); }},
                       model::named_thread{"end", [] { close(); }});
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
    {"start fails, full queue", start_fails_with_a_full_queue<true>},
    {"start fails, no wait", start_fails_with_a_full_queue<false>},
    {"starts again", starts_again},
    {"close against failure", close_against_failure},
    {"no start succeeds", no_start_succeeds},
    {"no start succeeds, no queue", no_start_succeeds_without_queue},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "job_board", scenarios);
}
