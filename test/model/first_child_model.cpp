// SPDX-License-Identifier: MIT

// Model of who comes first among children (first_child.hpp), with the join and the scope: two
// children give values, fail, and wait for a stop, and whoever comes first stops the other one, in
// a scope that lies in the frame of the parent and goes with that.

#include <weft/detail/branch/child_join.hpp>
#include <weft/detail/task/first_child.hpp>

#include "children_in_scopes.hpp"
#include "explorer.hpp"

namespace model = weft::model;
using layer = model::model_layer;
using model::branch;
using order = std::memory_order;
using weft::detail::first_rule;

namespace {

struct child : model::child_branch {
    layer::var<bool> started{false};
    layer::var<bool> has_value{false};

    bool never_started() const { return !started; }
    bool gave_value() const { return has_value; }
};

// In the parent's frame.
struct frame {
    explicit frame(first_rule rule) : first(rule) {}

    model::nested_scope inside;
    weft::detail::child_join<layer> join;
    weft::detail::first_child<layer, child> first;
    child children[2];
};

enum class way { gives, fails, waits };

struct plan {
    first_rule rule;
    way ways[2] = {way::gives, way::gives};
    bool stops = false;  // From outside.
};

constexpr int nobody = 2;

struct world {
    branch parent;
    model::scope* root = model::make<model::scope>(&parent);
    frame* forked = nullptr;
    layer::atomic<bool> queued{false};
    model::awaited_object awaited[2];
    plan how;
    model::shared<int> parent_resumed{0};
    model::shared<int> stops{0};  // By who came first.
    // What the parent has seen.
    bool started[2] = {};
    bool values[2] = {};
    int first = nobody;
};

world* all;

void resume_parent() {
    ++all->parent_resumed;
    model::check(all->parent_resumed == 1, "the parent is resumed twice");
    const child* const first = all->forked->first.get();
    for (int i = 0; i < 2; ++i) {
        const child& each = all->forked->children[i];
        all->started[i] = each.started;
        all->values[i] = each.has_value;
        if (&each == first) all->first = i;
    }
    all->forked->inside.close(all->parent);
    model::destroy(all->forked);
}

void stop(model::scope& stopped);

// As awaited_child::finish() with children_operation::decide().
void finish(child& self) {
    if (all->forked->first.decide(self)) {
        ++all->stops;
        stop(all->forked->inside);
    }
    weft::detail::end_child(static_cast<model::scope&>(all->forked->inside), self.membership,
                            all->forked->join, all->parent, [](branch& waiting) {
                                if (waiting.word.complete()) resume_parent();
                            });
}

// As cancel_parked(); only a stop ends the wait of a child, which then fails.
void stop(model::scope& stopped) {
    model::cancel_parked(stopped.stop(false), [](branch& cancelled) {
        if (&cancelled == &all->parent) {
            resume_parent();
        } else {
            finish(static_cast<child&>(cancelled));
        }
    });
}

// By the worker that takes it from the queue.
void run_child(int which) {
    while (!all->queued.load(order::acquire)) layer::pause();
    child& self = all->forked->children[which];
    if (self.word.stop_requested()) return finish(self);
    self.started = true;
    switch (all->how.ways[which]) {
    case way::gives: self.has_value = true; return finish(self);
    case way::fails: return finish(self);
    case way::waits:
        if (model::wait_on(self, all->awaited[which])) finish(self);
    }
}

// As first_in_scope() and children_operation::start().
void run_parent() {
    all->forked = model::make<frame>(all->how.rule);
    all->forked->inside.open(*all->root, all->parent);
    all->forked->join.begin(2);
    for (child& each : all->forked->children) all->forked->inside.enter(each.membership);
    all->queued.store(true, order::release);
    if (model::park(all->parent)) resume_parent();
}

// What has come out of it.
struct outcome {
    bool started[2];
    bool values[2];
    int first;
    int stops;
};

template <class... Threads>
outcome run(plan how, Threads... threads) {
    world here;
    here.how = how;
    all = &here;
    model::run_threads(model::named_thread{"parent", run_parent},
                       model::named_thread{"first", [] { run_child(0); }},
                       model::named_thread{"second", [] { run_child(1); }}, threads...);
    model::check(here.parent_resumed == 1, "the parent waits for ever");
    model::check(here.parent.word.stop_requested() == how.stops, "a stop is lost, or leaks");
    model::destroy(here.root);
    return {{here.started[0], here.started[1]},
            {here.values[0], here.values[1]},
            here.first,
            here.stops};
}

auto stopper() {
    return model::named_thread{"stop", [] { stop(*all->root); }};
}

// The others are stopped once, by the one that came first.
void check_first(const outcome& seen, int first) {
    model::check(seen.first == first, "the wrong one came first");
    model::check(seen.stops == 1, "the first one stops the others, and nobody else");
}

void both_end() {
    const outcome seen = run({.rule = first_rule::end});
    model::check(seen.first != nobody && seen.values[seen.first], "nobody came first");
    check_first(seen, seen.first);
    model::check(seen.started[1 - seen.first] == seen.values[1 - seen.first], "a value is lost");
}

void one_ends() {
    check_first(run({.rule = first_rule::end, .ways = {way::waits, way::gives}}), 1);
}

void one_ends_by_failing() {
    check_first(run({.rule = first_rule::end, .ways = {way::waits, way::fails}}), 1);
}

// Nobody ends but by the stop from outside; one that does not start has not come first.
void end_by_a_stop() {
    const outcome seen =
        run({.rule = first_rule::end, .ways = {way::waits, way::waits}, .stops = true}, stopper());
    const bool any_started = seen.started[0] || seen.started[1];
    model::check((seen.first != nobody) == any_started, "who came first, or nobody, is wrong");
    model::check(!any_started || seen.started[seen.first], "one came first that never started");
}

void both_give_values() {
    const outcome seen = run({.rule = first_rule::value});
    model::check(seen.first != nobody && seen.values[seen.first], "a value is not the first one");
    check_first(seen, seen.first);
}

// A failure does not end the race, whether it comes before or after the value.
void one_gives_a_value() {
    const outcome seen = run({.rule = first_rule::value, .ways = {way::fails, way::gives}});
    check_first(seen, 1);
    model::check(seen.values[1], "the value is lost");
}

void value_stops_the_other() {
    check_first(run({.rule = first_rule::value, .ways = {way::gives, way::waits}}), 0);
}

void no_value() {
    const outcome seen = run({.rule = first_rule::value, .ways = {way::fails, way::fails}});
    model::check(seen.started[0] && seen.started[1], "a failure stops the others");
    model::check(seen.first == nobody && seen.stops == 0, "a failure came first");
}

void both_fail() {
    const outcome seen = run({.rule = first_rule::failure, .ways = {way::fails, way::fails}});
    model::check(seen.first != nobody, "the failure is lost");
    model::check(seen.stops == 0 && seen.started[0] && seen.started[1], "a sibling is stopped");
}

void one_fails() {
    const outcome seen = run({.rule = first_rule::failure, .ways = {way::gives, way::fails}});
    model::check(seen.first == 1, "the wrong one came first");
    model::check(seen.values[0] && seen.stops == 0, "a sibling is stopped");
}

void nobody_fails() {
    const outcome seen = run({.rule = first_rule::failure});
    model::check(seen.first == nobody && seen.values[0] && seen.values[1], "nobody has failed");
}

// One that a stop from outside has ended has failed, also where it never started.
void failure_by_a_stop() {
    const outcome seen = run(
        {.rule = first_rule::failure, .ways = {way::gives, way::waits}, .stops = true}, stopper());
    model::check(seen.first != nobody && !seen.values[seen.first], "the failure is lost");
}

// There is no reason to look at old values: all that decides is one word.
constexpr model::explore_options reduced = {.stale_reads = 1, .reduce = true};
constexpr model::explore_options newest = {.stale_reads = 0, .reduce = true};

const model::scenario scenarios[] = {
    {"both end", both_end, reduced},
    {"one ends", one_ends, reduced},
    {"one ends by failing", one_ends_by_failing, reduced},
    {"the end by a stop", end_by_a_stop, newest},
    {"both give values", both_give_values, reduced},
    {"one gives a value", one_gives_a_value, reduced},
    {"a value stops the other", value_stops_the_other, reduced},
    {"no value", no_value, reduced},
    {"both fail", both_fail, reduced},
    {"one fails", one_fails, reduced},
    {"nobody fails", nobody_fails, reduced},
    {"the failure by a stop", failure_by_a_stop, newest},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "first_child", scenarios);
}
