// SPDX-License-Identifier: MIT

// Model of the join of children (child_join.hpp) and of children in scopes (scope.hpp): a branch
// forks two, which lie in its frame, and waits for them, while they end, wait, open scopes of their
// own, and are stopped. The frame is gone when the parent goes on, and so must be all who touch it.

#include <weft/detail/branch/child_join.hpp>
#include <weft/detail/branch/operation_word.hpp>
#include <weft/detail/branch/scope.hpp>

#include "explorer.hpp"

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;
using weft::detail::scope_kind;
using weft::detail::suspend_outcome;

namespace {

struct branch;
using scope = weft::detail::basic_scope<layer, branch>;
using nested_scope = weft::detail::basic_nested_scope<layer, branch>;
using member = weft::detail::basic_scope_member<layer, branch>;

// What a child waits for: it is given away once.
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
    // Null: it waits for its children.
    layer::var<object*> waits_on{nullptr};
};

struct child : branch {
    member membership{*this};
    layer::var<int> result{0};
    layer::var<bool> started{false};
    layer::var<nested_scope*> inner{nullptr};
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
    scope* root = model::make<scope>(&parent);
    frame* forked = model::make<frame>();
    layer::atomic<bool> queued{false};
    object awaited[2];
    plan how;
    model::shared<int> parent_resumed{0};
    model::shared<bool> child_seen_stopped{false};
};

world* all;

void resume_parent() {
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

void wait_on(child& self, object& on) {
    self.waits_on = &on;
    if (self.word.stop_requested()) return go_on(self);
    on.registered.store(&self, order::release);
    switch (self.word.suspend()) {
    case suspend_outcome::suspended: return;
    case suspend_outcome::completed: return go_on(self);
    case suspend_outcome::stopped:
        if (on.take(&self)) {
            self.word.withdrawn();
        } else if (!self.word.let_go()) {
            return;
        }
        return go_on(self);
    }
}

// As child_branch::start(), by the worker that takes it from the queue.
void run_child(int which) {
    while (!all->queued.load(order::acquire)) layer::pause();
    child& self = all->forked->children[which];
    if (self.word.stop_requested()) return end(self, 2);
    self.started = true;
    if (all->how.opens[which]) {
        self.inner = model::make<nested_scope>();
        self.inner->open(*all->root, self, &self.membership, all->how.kind);
    }
    if (all->how.waits[which]) return wait_on(self, all->awaited[which]);
    go_on(self);
}

// As children_operation::start().
void run_parent() {
    branch& self = all->parent;
    self.waits_on = nullptr;
    all->forked->join.begin(2);
    for (child& each : all->forked->children) all->root->enter(each.membership);
    all->queued.store(true, order::release);
    switch (self.word.suspend()) {
    case suspend_outcome::suspended: return;
    case suspend_outcome::completed: return resume_parent();
    case suspend_outcome::stopped:
        // Nothing can be taken off; the last child readies.
        if (self.word.let_go()) resume_parent();
    }
}

// As cancel_parked().
void stop() {
    branch* parked = all->root->stop(false);
    while (parked != nullptr) {
        branch* cancelled = parked;
        parked = cancelled->next;
        object* const on = cancelled->waits_on;
        if (on != nullptr && on->take(cancelled)) {
            cancelled->word.withdrawn();
            go_on(static_cast<child&>(*cancelled));
        } else if (cancelled->word.let_go()) {
            if (cancelled == &all->parent) {
                resume_parent();
            } else {
                go_on(static_cast<child&>(*cancelled));
            }
        }
    }
}

void complete(int which) {
    branch* waiting = all->awaited[which].registered.exchange(nullptr, order::acquire);
    if (waiting != nullptr && waiting->word.complete()) go_on(static_cast<child&>(*waiting));
}

// What waits for nothing but a completion gets it.
void complete_when_there(int which) {
    object& on = all->awaited[which];
    branch* waiting = nullptr;
    while ((waiting = on.registered.exchange(nullptr, order::acquire)) == nullptr) layer::pause();
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
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "child_join", scenarios);
}
