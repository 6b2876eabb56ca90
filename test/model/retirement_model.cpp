// SPDX-License-Identifier: MIT

// Model of a worker that gives its processor up and gets it back, among others that steal from it,
// publish, park, watch timers and wait for polls. The workers are in retiring_worker.hpp.
//
// What is checked: no node and no timer is lost, each is taken once, and none waits while a worker
// that has a processor is idle. A *hog* keeps its worker until all other nodes and all timers have
// been taken, so what waits for nobody shows as a deadlock. A worker that was asked runs at most
// what it has begun, and one that was recalled comes back, and counts before it runs anything. When
// nothing is left that could run, and somebody wants to know, one of them says so.
//
// What the controller does before a recall, or before it asks once more, has to be visible to the
// owner that finds that out from the word alone. The counts cannot show it, as the explorer has one
// order of execution for all seq_cst accesses; so the model has plain memory for it, of which an
// access without that order is a race (told_word).
//
// The same for workers that run in the place of others: the watchdog, which starts one and lets it
// go again as watchdog::compensate() and look_at() do, beside whoever changes the number of
// processors and beside the end of the runtime. In the end as many run as there are processors, and
// the first ones do.

#include "explorer.hpp"
#include "retiring_worker.hpp"

namespace model = weft::model;

using namespace weft::model;

namespace {

// A worker with three nodes is asked; the other one parks, searches or steals from it.
void queue_against_park() {
    world all(2);
    worker& leaver = all.workers[1];
    for (int i = 0; i < 3; ++i) leaver.own.push_next(all.fresh(kind::quick), overflow_of(leaver));
    all.ask(leaver);
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { leaver.run(); }});
    all.check_end(1);
}

// It is asked while it runs something that spawns.
void asked_while_it_runs() {
    world all(2);
    worker& leaver = all.workers[1];
    leaver.own.push_next(all.fresh(kind::spawns_two), overflow_of(leaver));
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { leaver.run(); }},
                       model::named_thread{"controller", [&] { all.ask(leaver); }});
    all.check_end(1);
}

// A publisher may choose the worker that is asked, and find it searching.
void publish_against_retirement() {
    world all(2);
    model::run_threads(
        model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
        model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
        model::named_thread{"controller", [&] { all.ask(all.workers[1]); }},
        model::named_thread{"outside", [&] { all.inject(all.fresh(kind::quick)); }});
    all.check_end(1);
}

// Asked and recalled; then there is more than one worker can do.
void recall() {
    world all(2);
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"controller", [&] {
                                               all.ask(all.workers[1]);
                                               all.recall(all.workers[1]);
                                               all.inject(all.fresh(kind::hog));
                                               all.inject(all.fresh(kind::quick));
                                           }});
    all.check_end(2);
}

// Recalled, and asked again.
void asked_again() {
    world all(2);
    all.workers[1].state.expect_one_recall();
    all.workers[1].own.push_next(all.fresh(kind::quick), overflow_of(all.workers[1]));
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"controller", [&] {
                                               all.ask(all.workers[1]);
                                               all.recall(all.workers[1]);
                                               all.ask(all.workers[1]);
                                           }});
    all.check_end(1);
}

// A worker that has settled is recalled, and runs something that looks whether all are parked. It
// may notice before it is woken, and find what a publisher has not told of yet.
void counted_before_it_runs() {
    world all(2);
    worker& away = all.workers[1];
    away.state.expect_one_recall();
    away.state.ask();
    model::check(away.state.begin() && away.state.settle(), "a worker does not settle");
    all.idle.remove_processor();
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1",
                                           [&] {
                                               while (!away.may_return()) away.sleep_retired();
                                               away.run();
                                           }},
                       model::named_thread{"controller", [&] {
                                               node* added = all.fresh(kind::looks);
                                               added->next = nullptr;
                                               all.global.push_back(added, added, 1);
                                               all.recall(away);
                                               weft::detail::wake_searcher(all);
                                           }});
    all.check_end(2);
}

// Both find nothing, and one of them is asked meanwhile, and perhaps recalled: somebody says so.
void asleep_while_one_is_asked() {
    world all(2);
    all.watches = true;
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"controller", [&] {
                                               all.ask(all.workers[1]);
                                               if (model::choose(2) != 0) return;
                                               all.recall(all.workers[1]);
                                           }});
    model::check(all.reported, "all are asleep, and nobody says so");
    all.check_end(all.workers[1].state.running() ? 2 : 1);
}

// The worker that leaves has a poll in its ring, and a task that waits for it.
void poll_in_flight() {
    world all(2);
    all.watches = true;
    worker& leaver = all.workers[1];
    leaver.poll.arm(all.fresh(kind::quick));
    all.ask(leaver);
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { leaver.run(); }},
                       model::named_thread{"kernel", [&] { leaver.poll.end_when_cancelled(); }});
    model::check(all.reported, "all are asleep, and nobody says so");
    all.check_end(1);
}

// It is recalled meanwhile, or when the poll has ended.
void recalled_with_a_poll() {
    world all(2);
    worker& leaver = all.workers[1];
    leaver.state.expect_one_recall();
    leaver.poll.arm(all.fresh(kind::quick));
    all.ask(leaver);
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { leaver.run(); }},
                       model::named_thread{"kernel", [&] { leaver.poll.end_when_cancelled(); }},
                       model::named_thread{"controller", [&] { all.recall(leaver); }});
    // Nobody has cancelled it where the recall came first.
    model::check(!leaver.poll.has_ended(), "nobody takes the end of a poll");
    if (!leaver.poll.in_flight()) model::check(all.taken == all.used, "a node is lost");
}

// The worker that leaves has a timer; worker 0 is busy, and worker 2 has to watch.
void timer_of_the_leaver() {
    world all(3);
    all.sentinel.offered = true;
    all.add_timer(all.workers[1], 5);
    all.ask(all.workers[1]);
    model::run_threads(model::named_thread{"busy", [&] { all.hog(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"worker 2", [&] { all.workers[2].run(); }});
    model::check(all.timers_left == 0, "a timer is lost");
}

// The same with worker 0 alone, which is busy and looks at nothing but its own heap.
void timer_while_all_are_busy() {
    world all(2);
    all.sentinel.offered = true;
    all.add_timer(all.workers[1], 5);
    all.ask(all.workers[1]);
    model::run_threads(
        model::named_thread{"worker 0",
                            [&] {
                                heap& own = all.workers[0].timers;
                                while (all.timers_left != 0) {
                                    model::block_until(
                                        [&] { return own.earliest.peek() != no_deadline; }, "work");
                                    all.workers[0].collect(all.workers[0]);
                                }
                            }},
        model::named_thread{"worker 1", [&] { all.workers[1].run(); }});
    model::check(all.timers_left == 0, "a timer is lost");
}

// The sentinel is asked; a timer of a busy worker needs another one.
void sentinel_leaves() {
    world all(3);
    all.sentinel.offered = true;
    all.add_timer(all.workers[2], 5);
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"busy", [&] {
                                               all.ask(all.workers[1]);
                                               all.hog();
                                           }});
    model::check(all.timers_left == 0, "a timer is lost");
}

// The only worker is kept, for as long as what it has made ready waits, or shorter. Another one
// runs in its place, and goes when it is back.
void in_the_place_of_another() {
    world all(2);
    all.begin_with(1);
    all.workers[0].own.push_next(all.fresh(kind::long_run), overflow_of(all.workers[0]));
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"watchdog", [&] { all.compensate(); }});
    all.check_running();
}

// The number of processors is raised and lowered meanwhile.
void number_changes_meanwhile() {
    world all(3);
    all.begin_with(1);
    all.workers[0].own.push_next(all.fresh(kind::long_run), overflow_of(all.workers[0]));
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"worker 2", [&] { all.workers[2].run(); }},
                       model::named_thread{"watchdog", [&] { all.compensate(); }},
                       model::named_thread{"controller", [&] {
                                               all.set_processors(2);
                                               all.set_processors(1);
                                           }});
    all.check_running();
}

// The number is lowered below that of the workers in the place of others, and one more is refused.
void fewer_than_compensating() {
    world all(3);
    all.begin_with(2);
    model::check(all.start_compensating_worker(), "a worker is refused");
    all.set_processors(1);
    model::check(all.workers[1].state.running() && !all.workers[2].state.running(),
                 "the first workers go before the last ones");
    model::check(!all.start_compensating_worker(), "there are more than processors");
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"worker 2", [&] { all.workers[2].run(); }},
                       model::named_thread{"watchdog", [&] { all.retire_compensating_worker(); }},
                       model::named_thread{"outside", [&] { all.inject(all.fresh(kind::quick)); }});
    all.check_running();
}

// The runtime ends meanwhile: all workers end their loops, whatever is asked of them.
void end_meanwhile() {
    world all(2);
    all.ends = true;
    all.begin_with(1);
    all.workers[0].own.push_next(all.fresh(kind::long_run), overflow_of(all.workers[0]));
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"watchdog", [&] { all.compensate(); }},
                       model::named_thread{"end", [&] {
                                               model::block_until(
                                                   [&] { return all.long_begun != 0; }, "begin");
                                               all.stop();
                                           }});
}

const model::scenario scenarios[] = {
    {"a queue against park", queue_against_park, {.stale_reads = 1, .reduce = true}},
    {"asked while it runs", asked_while_it_runs, {.stale_reads = 0, .reduce = true}},
    {"publish against retirement", publish_against_retirement, {.stale_reads = 0, .reduce = true}},
    {"recall", recall, {.stale_reads = 0, .reduce = true}},
    {"asked again", asked_again, {.stale_reads = 1, .reduce = true}},
    {"counted before it runs", counted_before_it_runs, {.stale_reads = 1, .reduce = true}},
    {"asleep while one is asked", asleep_while_one_is_asked, {.stale_reads = 0, .reduce = true}},
    {"a poll in flight", poll_in_flight, {.stale_reads = 1, .reduce = true}},
    {"recalled with a poll", recalled_with_a_poll, {.stale_reads = 0, .reduce = true}},
    {"a timer of the leaver", timer_of_the_leaver, {.stale_reads = 0, .reduce = true}},
    {"a timer while all are busy", timer_while_all_are_busy, {.stale_reads = 0, .reduce = true}},
    {"the sentinel leaves", sentinel_leaves, {.stale_reads = 0, .reduce = true}},
    {"in the place of another", in_the_place_of_another, {.stale_reads = 0, .reduce = true}},
    {"the number changes meanwhile", number_changes_meanwhile,
     {.preemptions = 1, .stale_reads = 0, .reduce = true}},
    {"fewer than compensating", fewer_than_compensating,
     {.preemptions = 1, .stale_reads = 0, .reduce = true}},
    {"the end meanwhile", end_meanwhile, {.stale_reads = 0, .reduce = true}},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "retirement", scenarios);
}
