// SPDX-License-Identifier: MIT

// Model of a task group (group_core.hpp) with its scope: children end, fail, wait, wait for their
// turn and spawn each other, while the body ends or fails and the task is stopped. The group lies
// in the frame of the parent, which goes when that goes on; a child frees itself when it has ended.

#include <weft/detail/branch/operation_word.hpp>
#include <weft/detail/branch/scope.hpp>
#include <weft/detail/task/group_core.hpp>

#include "explorer.hpp"

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;
using weft::detail::suspend_outcome;

namespace {

struct branch;
using scope = weft::detail::basic_scope<layer, branch>;
using nested_scope = weft::detail::basic_nested_scope<layer, branch>;
using member = weft::detail::basic_scope_member<layer, branch>;

// What a child waits for: only a stop ends it.
struct object {
    layer::atomic<branch*> registered{nullptr};

    bool take(branch* expected) {
        return registered.compare_exchange_strong(expected, nullptr, order::acq_rel,
                                                  order::relaxed);
    }
};

struct branch {
    weft::detail::operation_word<layer> word;
    layer::var<branch*> next{nullptr};
    layer::var<object*> waits_on{nullptr};  // Null: the parent, which waits for its children.
    layer::var<int> number{0};
};

struct child : branch {
    member membership{*this};
};

using core = weft::detail::group_core<layer, branch>;

// In the parent's frame.
struct group {
    core decides;
    nested_scope inside;
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
};

struct world {
    branch parent;
    scope* root = model::make<scope>(&parent);
    group* opened = nullptr;
    child* children[3];
    layer::atomic<bool> queued[3] = {false, false, false};
    object awaited[3];
    plan how;
    model::shared<int> parent_resumed{0};
    model::shared<int> started{0};
    model::shared<int> ended{0};
    model::shared<int> running{0};
    model::shared<int> failure{0};
    model::shared<int> suppressed{0};
};

world* all;

void resume_parent() {
    ++all->parent_resumed;
    model::check(all->parent_resumed == 1, "the parent is resumed twice");
    model::check(all->ended == all->how.children, "a child is left behind");
    all->failure = all->opened->failure;
    all->opened->inside.close(all->parent);
    model::destroy(all->opened);
}

void cancel_parked(branch* parked);

void fail(int who) {
    if (!all->opened->decides.fail()) {
        ++all->suppressed;
        return;
    }
    all->opened->failure = who;
    cancel_parked(all->opened->inside.stop(false));
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
        all->queued[decided.next->number - 1].store(true, order::release);
    }
    if (decided.last && all->parent.word.complete()) resume_parent();
}

// A child goes on after its wait, which a stop has ended.
void go_on(child& self) {
    model::check(self.word.stop_requested(), "it waits for a stop");
    finish(self, false);
}

void cancel_parked(branch* parked) {
    while (parked != nullptr) {
        branch* cancelled = parked;
        parked = cancelled->next;
        object* const on = cancelled->waits_on;
        if (on != nullptr && on->take(cancelled)) {
            cancelled->word.withdrawn();
            go_on(static_cast<child&>(*cancelled));
        } else if (cancelled->word.let_go()) {
            model::check(cancelled == &all->parent, "who is that?");
            resume_parent();
        }
    }
}

void spawn(int which) {
    child& added = *all->children[which];
    all->opened->inside.enter(added.membership);
    if (all->opened->decides.add(added)) all->queued[which].store(true, order::release);
}

void wait_on(child& self, object& on) {
    self.waits_on = &on;
    if (self.word.stop_requested()) return go_on(self);
    on.registered.store(&self, order::release);
    switch (self.word.suspend()) {
    case suspend_outcome::suspended: return;
    case suspend_outcome::completed: model::fail("nobody completes it");
    case suspend_outcome::stopped:
        if (on.take(&self)) {
            self.word.withdrawn();
        } else if (!self.word.let_go()) {
            return;
        }
        return go_on(self);
    }
}

// By the worker that takes it from the queue.
void run_child(int which) {
    while (!all->queued[which].load(order::acquire)) layer::pause();
    child& self = *all->children[which];
    ++all->running;
    model::check(all->how.limit == 0 || all->running <= static_cast<int>(all->how.limit),
                 "more run than may");
    if (self.word.stop_requested()) return finish(self, false);
    ++all->started;
    switch (all->how.child_ways[which]) {
    case way::ends: return finish(self, false);
    case way::fails: return finish(self, true);
    case way::waits: return wait_on(self, all->awaited[which]);
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
    if (all->opened->decides.leave()) return resume_parent();
    switch (self.word.suspend()) {
    case suspend_outcome::suspended: return;
    case suspend_outcome::completed: return resume_parent();
    case suspend_outcome::stopped:
        if (self.word.let_go()) resume_parent();
    }
}

template <class... Threads>
void run(plan how, Threads... threads) {
    world here;
    for (int i = 0; i < 3; ++i) {
        here.children[i] = model::make<child>();
        here.children[i]->number = i + 1;
    }
    here.how = how;
    all = &here;
    model::run_threads(model::named_thread{"parent", run_parent},
                       model::named_thread{"first", [] { run_child(0); }},
                       model::named_thread{"second", [] { run_child(1); }}, threads...);
    model::check(here.parent_resumed == 1, "the parent waits for ever");
    model::check(here.parent.word.stop_requested() == how.stops, "a stop is lost, or leaks");
    model::destroy(here.root);
}

auto stopper() {
    return model::named_thread{"stop", [] { cancel_parked(all->root->stop(false)); }};
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
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "group_core", scenarios);
}
