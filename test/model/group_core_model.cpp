// SPDX-License-Identifier: MIT

// Model of a task group (group_core.hpp) with its scope: children end, fail, wait, wait for their
// turn and spawn each other, while the body ends or fails, the task is stopped, and its runtime
// ends. The group lies in the frame of the parent, which goes when that goes on, or is destroyed; a
// child frees itself when it has ended.

#include <weft/detail/task/group_core.hpp>

#include "children_in_scopes.hpp"
#include "ending_runtime.hpp"
#include "explorer.hpp"

namespace model = weft::model;
using layer = model::model_layer;
using model::branch;
using order = std::memory_order;

namespace {

struct child : model::child_branch {
    layer::var<int> number{0};
};

using core = weft::detail::group_core<layer, branch>;

// In the parent's frame.
struct group {
    core decides;
    model::nested_scope inside;
    layer::var<int> failure{0};

    explicit group(std::size_t limit) : decides(limit) {}
};

enum class way { ends, fails, waits, spawns };

struct plan {
    way child_ways[3] = {way::ends, way::ends, way::ends};
    way body = way::ends;
    std::size_t limit = 0;
    // Of so many children the body spawns all but those that a sibling spawns, which is the one
    // before.
    int children = 2;
    bool stops = false;
    bool completes = false;  // What a child waits for may happen.
};

struct world {
    branch parent;
    model::scope* root = model::make<model::scope>(&parent);
    group* opened = nullptr;
    child* children[3];
    layer::atomic<bool> queued[3] = {false, false, false};
    model::awaited_object awaited[3];
    model::ending_runtime runtime;
    plan how;
    model::shared<int> parent_resumed{0};
    model::shared<int> spawned{0};
    model::shared<int> started{0};
    model::shared<int> ended{0};
    model::shared<int> running{0};
    model::shared<int> failure{0};
    model::shared<int> suppressed{0};
};

world* all;

void resume_parent() {
    const auto step = all->runtime.begin_step();
    if (!step) return;
    ++all->parent_resumed;
    model::check(all->parent_resumed == 1, "the parent is resumed twice");
    model::check(all->ended == all->spawned, "a child is left behind");
    all->failure = all->opened->failure;
    all->opened->inside.close(all->parent);
    model::destroy(all->opened);
}

void stop(model::scope& stopped);

void fail(int who) {
    if (!all->opened->decides.fail()) {
        ++all->suppressed;
        return;
    }
    all->opened->failure = who;
    stop(all->opened->inside);
}

// As group_child::finish().
void finish(child& self, bool failed) {
    if (failed) fail(self.number);
    all->opened->inside.leave(self.membership);
    --all->running;
    model::destroy(&self);
    ++all->ended;
    const core::end_decision decided = all->opened->decides.end();
    if (decided.next != nullptr) {
        const child& next = static_cast<child&>(*decided.next);
        all->queued[next.number - 1].store(true, order::release);
    }
    if (decided.last && all->parent.word.complete()) resume_parent();
}

// A child goes on after its wait.
void go_on(child& self) {
    const auto step = all->runtime.begin_step();
    if (!step) return;
    model::check(self.word.stop_requested() || all->how.completes, "it waits for a stop");
    finish(self, false);
}

void stop(model::scope& stopped) {
    model::cancel_parked(stopped.stop(false), [](branch& cancelled) {
        if (&cancelled == &all->parent) {
            resume_parent();
        } else {
            go_on(static_cast<child&>(cancelled));
        }
    });
}

void spawn(int which) {
    child& added = *all->children[which];
    ++all->spawned;
    all->opened->inside.enter(added.membership);
    if (all->opened->decides.add(added)) all->queued[which].store(true, order::release);
}

// By the worker that takes it from the queue.
void run_child(int which) {
    if (!all->runtime.await_work([which] { return all->queued[which].peek(); })) return;
    while (!all->queued[which].load(order::acquire)) layer::pause();
    const auto step = all->runtime.begin_step();
    if (!step) return;
    child& self = *all->children[which];
    ++all->running;
    model::check(all->how.limit == 0 || all->running <= static_cast<int>(all->how.limit),
                 "more run than may");
    if (self.word.stop_requested()) return finish(self, false);
    ++all->started;
    switch (all->how.child_ways[which]) {
    case way::ends: return finish(self, false);
    case way::fails: return finish(self, true);
    case way::waits:
        if (model::wait_on(self, all->awaited[which])) go_on(self);
        return;
    case way::spawns: spawn(which + 1); return finish(self, false);
    }
}

// As in_task_group(): the body, then the join.
void run_parent() {
    branch& self = all->parent;
    all->opened = model::make<group>(all->how.limit);
    all->opened->inside.open(*all->root, self);
    for (int i = 0; i < all->how.children; ++i) {
        if (i == 0 || all->how.child_ways[i - 1] != way::spawns) spawn(i);
    }
    if (all->how.body == way::fails) fail(3);
    self.waits_on = nullptr;
    if (all->opened->decides.leave() || model::park(self)) resume_parent();
}

void set_up(world& here, const plan& how) {
    for (int i = 0; i < 3; ++i) {
        here.children[i] = model::make<child>();
        here.children[i]->number = i + 1;
    }
    here.how = how;
    all = &here;
}

template <class... Threads>
void run(plan how, Threads... threads) {
    world here;
    set_up(here, how);
    model::run_threads(model::named_thread{"parent", run_parent},
                       model::named_thread{"first", [] { run_child(0); }},
                       model::named_thread{"second", [] { run_child(1); }}, threads...);
    model::check(here.parent_resumed == 1, "the parent waits for ever");
    model::check(here.ended == how.children, "a child is left behind");
    model::check(here.parent.word.stop_requested() == how.stops, "a stop is lost, or leaks");
    model::destroy(here.root);
}

auto stopper() {
    return model::named_thread{"stop", [] { stop(*all->root); }};
}

void children_end() {
    run({});
    model::check(all->failure == 0 && all->started == 2, "nothing fails");
}

void one_after_the_other() {
    run({.limit = 1});
    model::check(all->failure == 0 && all->started == 2, "nothing fails");
}

void failure_stops_sibling() {
    run({.child_ways = {way::fails, way::waits}});
    model::check(all->failure == 1 && all->suppressed == 0, "the failure is lost");
}

void both_fail() {
    run({.child_ways = {way::fails, way::fails}});
    model::check(all->failure != 0, "the failure is lost");
    // Where the second one had started, its failure is told.
    model::check(all->suppressed == all->started - 1, "a failure is lost or doubled");
}

void failure_before_the_turn() {
    run({.child_ways = {way::fails, way::waits}, .limit = 1});
    model::check(all->failure == 1 && all->started == 1, "started in a stopped scope");
}

void body_fails() {
    run({.child_ways = {way::ends, way::waits}, .body = way::fails});
    model::check(all->failure == 3, "the failure is lost");
}

void stop_from_outside() {
    run({.child_ways = {way::ends, way::waits}, .stops = true}, stopper());
    model::check(all->failure == 0, "a stop is no failure");
}

void stop_and_failure() {
    run({.child_ways = {way::fails, way::waits}, .stops = true}, stopper());
}

void stop_at_the_limit() {
    run({.child_ways = {way::waits, way::waits}, .limit = 1, .stops = true}, stopper());
    model::check(all->started <= 1, "started in a stopped scope");
}

void child_spawns() {
    run({.child_ways = {way::spawns, way::ends}});
    model::check(all->started == 2, "a child is lost");
}

// The sibling that has the turn spawns the third one: it must wait for its own.
void three_at_the_limit() {
    run({.child_ways = {way::ends, way::spawns}, .limit = 1, .children = 3},
        model::named_thread{"third", [] { run_child(2); }});
    model::check(all->started == 3, "a child is lost");
}

void child_spawns_at_the_limit() {
    run({.child_ways = {way::spawns, way::ends}, .limit = 1});
    model::check(all->started == 2, "a child is lost");
}

// ---- the end of a runtime

// As runtime_core::destroy_suspended(), after all were stopped and the workers have left: children
// are destroyed where they wait, or wait for their turn, and then the frame with the group.
void end_runtime() {
    stop(*all->root);
    all->runtime.end();
    if (all->parent_resumed == 1) return;
    int destroyed = 0;
    for (branch* left = model::branches_left(*all->root, all->parent); left != nullptr;
         ++destroyed) {
        child& each = static_cast<child&>(*left);
        left = left->next;
        model::destroy_wait(each);
        all->opened->inside.leave(each.membership);
        model::destroy(&each);
    }
    model::check(all->ended + destroyed == all->spawned, "a child is forgotten");
    ++all->parent_resumed;
    all->opened->inside.close(all->parent, false);
    model::destroy(all->opened);
}

// All were spawned before the end begins, and the first one waits already.
template <class... Threads>
void run_to_the_end(plan how, Threads... threads) {
    world here;
    set_up(here, how);
    here.runtime.will_end();
    run_parent();
    run_child(0);
    model::run_threads(model::named_thread{"end", end_runtime}, threads...);
    model::check(here.parent_resumed == 1, "the parent waits for ever");
    for (const model::awaited_object& each : here.awaited) {
        model::check(each.registered.peek() == nullptr, "an operation is left on its object");
    }
    model::destroy(here.root);
}

void complete_first() {
    branch* waiting = all->awaited[0].take_any();
    if (waiting != nullptr && waiting->word.complete()) go_on(static_cast<child&>(*waiting));
}

void end_while_a_child_waits() {
    run_to_the_end({.child_ways = {way::waits, way::ends}, .stops = true, .completes = true},
                   model::named_thread{"second", [] { run_child(1); }},
                   model::named_thread{"completer", complete_first});
}

void end_before_the_turn() {
    run_to_the_end(
        {.child_ways = {way::waits, way::ends}, .limit = 1, .stops = true, .completes = true},
        model::named_thread{"second", [] { run_child(1); }},
        model::named_thread{"completer", complete_first});
}

void end_while_a_child_spawns() {
    run_to_the_end({.child_ways = {way::waits, way::spawns},
                    .limit = 2,
                    .children = 3,
                    .stops = true,
                    .completes = true},
                   model::named_thread{"second", [] { run_child(1); }},
                   model::named_thread{"completer", complete_first});
}

// There is no reason to look at old values: all that children share is under a lock.
constexpr model::explore_options reduced = {.stale_reads = 0, .reduce = true};

const model::scenario scenarios[] = {
    {"children end", children_end, {.stale_reads = 1, .reduce = true}},
    {"one after the other", one_after_the_other, reduced},
    {"a failure stops the sibling", failure_stops_sibling, reduced},
    {"both fail", both_fail, reduced},
    {"a failure before the turn", failure_before_the_turn, reduced},
    {"the body fails", body_fails, reduced},
    {"a stop from outside", stop_from_outside, reduced},
    {"a stop and a failure", stop_and_failure, reduced},
    {"a stop at the limit", stop_at_the_limit, reduced},
    {"a child spawns", child_spawns, reduced},
    {"a child spawns at the limit", child_spawns_at_the_limit, reduced},
    {"three at the limit", three_at_the_limit, reduced},
    {"the end while a child waits", end_while_a_child_waits, reduced},
    {"the end before the turn", end_before_the_turn, reduced},
    {"the end while a child spawns", end_while_a_child_spawns, reduced},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "group_core", scenarios);
}
