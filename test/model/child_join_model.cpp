// SPDX-License-Identifier: MIT

// Model of the join of children (child_join.hpp) and of children in scopes (scope.hpp): a branch
// forks two, which lie in its frame, and waits for them, while they end, wait, open scopes of their
// own, and are stopped, and while their runtime ends. The frame is gone when the parent goes on, or
// was destroyed, and so must be all who touch it.

#include <weft/detail/branch/child_join.hpp>

#include "children_in_scopes.hpp"
#include "ending_runtime.hpp"
#include "explorer.hpp"

namespace model = weft::model;
using layer = model::model_layer;
using model::branch;
using order = std::memory_order;
using weft::detail::scope_kind;

namespace {

struct child : model::child_branch {
    layer::var<int> result{0};
    layer::var<bool> started{false};
    layer::var<model::nested_scope*> inner{nullptr};
};

// In the parent's frame.
struct frame {
    weft::detail::child_join<layer> join;
    child children[2];
};

// How the children behave.
struct plan {
    bool waits[2] = {false, false};
    bool opens[2] = {false, false};
    scope_kind kind = scope_kind::open;
    bool stops = false;
};

struct world {
    branch parent;
    model::scope* root = model::make<model::scope>(&parent);
    frame* forked = model::make<frame>();
    layer::atomic<bool> queued{false};
    model::awaited_object awaited[2];
    model::ending_runtime runtime;
    plan how;
    model::shared<int> parent_resumed{0};
    model::shared<bool> child_seen_stopped{false};
};

world* all;

void resume_parent() {
    const auto step = all->runtime.begin_step();
    if (!step) return;
    ++all->parent_resumed;
    model::check(all->parent_resumed == 1, "the parent is resumed twice");
    for (child& each : all->forked->children) {
        const bool unstarted = each.result == 2 && !each.started;
        model::check(unstarted || (each.result == 1 && each.started),
                     "the end of a child is not visible");
    }
    // Nobody is in the scope any more.
    int branches = 0;
    all->root->for_each_branch([&](branch& found) {
        ++branches;
        model::check(&found == &all->parent, "a child is left in the scope");
    });
    model::check(branches == 1, "the parent is not in its scope");
    model::destroy(all->forked);
}

void end(child& self, int result) {
    self.result = result;
    weft::detail::end_child(*all->root, self.membership, all->forked->join, all->parent,
                            [](branch& waiting) {
                                if (waiting.word.complete()) resume_parent();
                            });
}

// A child goes on after its wait, or has not waited.
void go_on(child& self) {
    const auto step = all->runtime.begin_step();
    if (!step) return;
    if (self.inner != nullptr) {
        model::check(all->how.kind == scope_kind::open || !self.word.stop_requested(),
                     "a stop reaches behind a shield");
        const bool stopped_outside = all->root->stopped();
        self.inner->close(self);
        model::check(!stopped_outside || self.word.stop_requested(), "a stop is forgotten");
        model::destroy(self.inner.get());
    }
    if (self.word.stop_requested()) all->child_seen_stopped = true;
    end(self, 1);
}

// What was cancelled goes on.
void go_on_cancelled(branch& cancelled) {
    if (&cancelled == &all->parent) {
        resume_parent();
    } else {
        go_on(static_cast<child&>(cancelled));
    }
}

// As child_branch::start(), by the worker that takes it from the queue.
void run_child(int which) {
    if (!all->runtime.await_work([] { return all->queued.peek(); })) return;
    while (!all->queued.load(order::acquire)) layer::pause();
    const auto step = all->runtime.begin_step();
    if (!step) return;
    child& self = all->forked->children[which];
    if (self.word.stop_requested()) return end(self, 2);
    self.started = true;
    if (all->how.opens[which]) {
        self.inner = model::make<model::nested_scope>();
        self.inner->open(*all->root, self, &self.membership, all->how.kind);
    }
    if (!all->how.waits[which] || model::wait_on(self, all->awaited[which])) go_on(self);
}

// As children_operation::start().
void run_parent() {
    branch& self = all->parent;
    self.waits_on = nullptr;
    all->forked->join.begin(2);
    for (child& each : all->forked->children) all->root->enter(each.membership);
    all->queued.store(true, order::release);
    // No stop takes it off its object; the last child readies.
    if (model::park(self)) resume_parent();
}

void stop() {
    model::cancel_parked(all->root->stop(false), go_on_cancelled);
}

void complete(int which) {
    branch* waiting = all->awaited[which].take_any();
    if (waiting != nullptr && waiting->word.complete()) go_on(static_cast<child&>(*waiting));
}

// What waits for nothing but a completion gets it.
void complete_when_there(int which) {
    branch* waiting = nullptr;
    while ((waiting = all->awaited[which].take_any()) == nullptr) layer::pause();
    if (waiting->word.complete()) go_on(static_cast<child&>(*waiting));
}

auto parent() {
    return model::named_thread{"parent", run_parent};
}
template <int Which>
auto child_thread() {
    return model::named_thread{Which == 0 ? "first" : "second", [] { run_child(Which); }};
}
auto stopper() {
    return model::named_thread{"stop", stop};
}

void check_end() {
    model::check(all->parent_resumed == 1, "the parent waits for ever");
    model::check(!all->how.stops || all->parent.word.stop_requested(), "the stop is lost");
    model::destroy(all->root);
}

template <class... Threads>
void run(plan how, Threads... threads) {
    world here;
    here.how = how;
    all = &here;
    model::run_threads(parent(), child_thread<0>(), child_thread<1>(), threads...);
    check_end();
}

void children_end() {
    run({});
}

void children_end_and_stop() {
    run({.stops = true}, stopper());
}

// Only the stop ends the wait of the second child.
void child_waits_and_stop() {
    run({.waits = {false, true}, .stops = true}, stopper());
}

void child_waits_stop_and_completion() {
    run({.waits = {false, true}, .stops = true}, stopper(),
        model::named_thread{"completer", [] { complete(1); }});
}

void scope_of_a_child_and_stop() {
    run({.waits = {false, true}, .opens = {false, true}, .stops = true}, stopper());
}

// A stop goes by a shield: only the completion ends the wait behind it.
void shielded_child_and_stop() {
    run({.waits = {false, true},
         .opens = {false, true},
         .kind = scope_kind::shielded,
         .stops = true},
        stopper(),
        model::named_thread{"completer", [] {
                                // It may not start, where the stop comes first.
                                model::block_until(
                                    [] {
                                        return all->parent_resumed.get() != 0 ||
                                               all->awaited[1].registered.peek() != nullptr;
                                    },
                                    "the shielded wait");
                                complete(1);
                            }});
}

// A stop before the fork: no child starts.
void stopped_before() {
    world here;
    here.how = {.waits = {true, true}, .stops = true};
    all = &here;
    model::check(here.root->stop(false) == nullptr, "nobody is parked");
    model::run_threads(parent(), child_thread<0>(), child_thread<1>());
    check_end();
    model::check(!here.child_seen_stopped, "a child started in a stopped scope");
}

// Both children wait, and one is let go by a completion.
void both_wait() {
    run({.waits = {true, true}, .stops = false}, model::named_thread{"completer", [] {
                                                                         complete_when_there(0);
                                                                         complete_when_there(1);
                                                                     }});
}

// ---- the end of a runtime

// A child that has not ended is destroyed where it waits: the scope that it has opened, the
// operation, its place in its scope.
void destroy(child& left) {
    if (left.inner != nullptr) {
        left.inner->close(left, false);
        model::destroy(left.inner.get());
    }
    if (left.started) model::destroy_wait(left);
    all->root->leave(left.membership);
}

// As runtime_core::destroy_suspended(), after all were stopped and the workers have left.
void end_runtime() {
    stop();
    all->runtime.end();
    if (all->parent_resumed == 1) return;
    int destroyed = 0;
    for (branch* left = model::branches_left(*all->root, all->parent); left != nullptr;
         ++destroyed) {
        child& each = static_cast<child&>(*left);
        left = left->next;
        destroy(each);
    }
    for (const child& each : all->forked->children) destroyed += each.result != 0 ? 1 : 0;
    model::check(destroyed == 2, "a child is forgotten");
    ++all->parent_resumed;
    model::destroy(all->forked);
}

// The children are there before the end begins; one of them may wait already.
template <class... Threads>
void run_to_the_end(plan how, Threads... threads) {
    world here;
    here.how = how;
    here.runtime.will_end();
    all = &here;
    run_parent();
    if (how.waits[1]) run_child(1);
    model::run_threads(model::named_thread{"end", end_runtime}, threads...);
    check_end();
    for (const model::awaited_object& each : here.awaited) {
        model::check(each.registered.peek() == nullptr, "an operation is left on its object");
    }
}

auto completer() {
    return model::named_thread{"completer", [] { complete(1); }};
}

void end_before_the_children() {
    run_to_the_end({.stops = true}, child_thread<0>(), child_thread<1>());
}

void end_while_a_child_waits() {
    run_to_the_end({.waits = {false, true}, .stops = true}, child_thread<0>(), completer());
}

void end_while_a_child_waits_in_a_scope() {
    run_to_the_end({.waits = {false, true}, .opens = {false, true}, .stops = true},
                   child_thread<0>(), completer());
}

void end_behind_a_shield() {
    run_to_the_end({.waits = {false, true},
                    .opens = {false, true},
                    .kind = scope_kind::shielded,
                    .stops = true},
                   child_thread<0>(), completer());
}

const model::scenario scenarios[] = {
    {"children end", children_end, {.reduce = true}},
    {"children end, and a stop", children_end_and_stop, {.stale_reads = 1, .reduce = true}},
    {"a child waits, and a stop", child_waits_and_stop, {.stale_reads = 1, .reduce = true}},
    {"a child waits, a stop and a completion",
     child_waits_stop_and_completion,
     {.stale_reads = 0, .reduce = true}},
    {"a child in a scope, and a stop",
     scope_of_a_child_and_stop,
     {.stale_reads = 0, .reduce = true}},
    {"a shielded child, and a stop", shielded_child_and_stop, {.stale_reads = 0, .reduce = true}},
    {"stopped before", stopped_before, {.stale_reads = 1, .reduce = true}},
    {"both wait", both_wait, {.stale_reads = 0, .reduce = true}},
    {"the end before the children", end_before_the_children, {.stale_reads = 0, .reduce = true}},
    {"the end while a child waits", end_while_a_child_waits, {.stale_reads = 0, .reduce = true}},
    {"the end while a child waits in a scope",
     end_while_a_child_waits_in_a_scope,
     {.stale_reads = 0, .reduce = true}},
    {"the end behind a shield", end_behind_a_shield, {.stale_reads = 0, .reduce = true}},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "child_join", scenarios);
}
