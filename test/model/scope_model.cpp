// SPDX-License-Identifier: MIT

// Model of the scope tree: a branch opens scopes, parks in them and closes them, while the task and
// the inner scope are stopped, and while what it waits for happens. An inner scope lies in a frame
// and is gone after its close.

#include <weft/detail/branch/operation_word.hpp>
#include <weft/detail/branch/scope.hpp>

#include "explorer.hpp"

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;
using weft::detail::suspend_outcome;

namespace {

struct branch;
using scope = weft::detail::basic_scope<layer, branch>;
using nested_scope = weft::detail::basic_nested_scope<layer, branch>;

// What the branch waits for: it is given away once.
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
    layer::var<object*> waits_on{nullptr};
    layer::var<scope*> innermost{nullptr};
    // The steps that the branch has done; it goes on in the thread that readied it.
    layer::var<int> step{0};
    bool finished = false;
};

struct world {
    branch task;
    scope* root = model::make<scope>(&task);
    nested_scope* inner = nullptr;
    object first, second;
    // The inner scope's timer, as in deadline_scope.
    layer::atomic<bool> timer_set{false};
    layer::atomic<bool> timer_fired{false};
    bool stopped_inside = false;
    bool late_inside = false;
};

world* all;
void (*go_on)();

void resume() {
    go_on();
}

// Parks on `on`; the program goes on in the next step, here or in another thread.
void park_on(object& on) {
    branch& self = all->task;
    self.waits_on = &on;
    if (self.word.stop_requested()) return resume();
    on.registered.store(&self, order::release);
    switch (self.word.suspend()) {
    case suspend_outcome::suspended: return;
    case suspend_outcome::completed: return resume();
    case suspend_outcome::stopped:
        if (on.take(&self)) {
            self.word.withdrawn();
        } else if (!self.word.let_go()) {
            return;
        }
        return resume();
    }
}

// As cancel_parked(); what it readies is resumed by the caller afterwards.
bool cancel_parked(branch* parked) {
    bool readied = false;
    while (parked != nullptr) {
        branch* cancelled = parked;
        parked = cancelled->next;
        if (cancelled->waits_on->take(cancelled)) {
            cancelled->word.withdrawn();
            readied = true;
        } else if (cancelled->word.let_go()) {
            readied = true;
        }
    }
    return readied;
}

// As stop_scope().
bool stop(scope& stopped, bool late) {
    return cancel_parked(stopped.stop(late));
}

void complete_when_there(object& on) {
    branch* waiting = nullptr;
    while ((waiting = on.registered.exchange(nullptr, order::acquire)) == nullptr) layer::pause();
    if (waiting->word.complete()) resume();
}

void complete(object& on) {
    branch* waiting = on.registered.exchange(nullptr, order::acquire);
    if (waiting != nullptr && waiting->word.complete()) resume();
}

void open_inner() {
    all->inner = model::make<nested_scope>();
    all->inner->open(*all->root, all->task);
    all->task.innermost = all->inner;
}

void close_inner() {
    all->stopped_inside = all->task.word.stop_requested();
    all->late_inside = all->task.word.late();
    all->inner->close(all->task);
    all->task.innermost = all->root;
    model::destroy(all->inner);
}

void stop_root() {
    if (stop(*all->root, false)) resume();
}

void check_end() {
    model::check(all->task.finished, "the branch is parked for ever");
    model::destroy(all->root);
}

// ---- open, park, close, park again, while the task is stopped.

void open_park_close() {
    const int step = all->task.step;
    all->task.step = step + 1;
    switch (step) {
    case 0: open_inner(); return park_on(all->first);
    case 1:
        close_inner();
        // Nobody completes this one: only the stop ends it.
        return park_on(all->second);
    default:
        model::check(step == 2, "resumed too often");
        model::check(all->task.word.stop_requested(), "the stop is lost");
        model::check(!all->task.word.late(), "the reason is wrong");
        all->task.finished = true;
    }
}

void stop_against_open_and_close() {
    world here;
    all = &here;
    go_on = open_park_close;
    model::run_threads(model::named_thread{"branch", [] { resume(); }},
                       model::named_thread{"stop", [] { stop_root(); }});
    check_end();
}

void stop_and_completion() {
    world here;
    all = &here;
    go_on = open_park_close;
    model::run_threads(model::named_thread{"branch", [] { resume(); }},
                       model::named_thread{"stop", [] { stop_root(); }},
                       model::named_thread{"completer", [] { complete(all->first); }});
    check_end();
}

// ---- the inner scope has a deadline as well.

void with_deadline() {
    const int step = all->task.step;
    all->task.step = step + 1;
    switch (step) {
    case 0:
        open_inner();
        all->timer_set.store(true, order::release);
        return park_on(all->first);
    case 1:
        if (!all->timer_set.exchange(false, order::acq_rel)) {
            while (!all->timer_fired.load(order::acquire)) layer::pause();
        }
        close_inner();
        return park_on(all->second);
    default:
        model::check(step == 2, "resumed too often");
        model::check(!all->task.word.late(), "a deadline goes beyond its scope");
        all->task.finished = true;
    }
}

// As deadline_scope::fire().
void fire() {
    if (!all->timer_set.exchange(false, order::acq_rel)) return;
    const bool readied = stop(*all->inner, true);
    all->timer_fired.store(true, order::release);
    if (readied) resume();
}

void stop_and_deadline() {
    world here;
    all = &here;
    go_on = with_deadline;
    model::run_threads(model::named_thread{"branch", [] { resume(); }},
                       model::named_thread{"stop", [] { stop_root(); }},
                       model::named_thread{"deadline", [] { fire(); }});
    check_end();
    model::check(here.stopped_inside, "the stop did not reach the inner scope");
}

// Only the deadline: it ends the first wait, and not the second.
void deadline_alone() {
    world here;
    all = &here;
    go_on = with_deadline;
    model::run_threads(
        model::named_thread{"branch", [] { resume(); }},
        model::named_thread{"deadline",
                            [] {
                                model::block_until([] { return all->timer_set.peek(); });
                                fire();
                            }},
        model::named_thread{"completer", [] {
                                model::block_until(
                                    [] { return all->second.registered.peek() != nullptr; });
                                complete(all->second);
                            }});
    check_end();
    model::check(here.stopped_inside && here.late_inside, "the deadline is lost");
}

// ---- two scopes deep, nothing parks.

void two_deep() {
    world here;
    all = &here;
    nested_scope* outer = model::make<nested_scope>();
    model::run_threads(model::named_thread{"branch",
                                           [&] {
                                               branch& self = all->task;
                                               outer->open(*all->root, self);
                                               all->inner = model::make<nested_scope>();
                                               all->inner->open(*outer, self);
                                               const bool seen = self.word.stop_requested();
                                               all->inner->close(self);
                                               model::destroy(all->inner);
                                               model::check(!seen || self.word.stop_requested(),
                                                            "a close forgets the stop");
                                               outer->close(self);
                                               model::destroy(outer);
                                           }},
                       model::named_thread{"stop", [] { all->root->stop(false); }});
    model::check(here.task.word.stop_requested(), "the stop is lost");
    model::check(here.root->stopped(), "the scope is not stopped");
}

// ---- two scopes deep, and the branch parks in the inner one.

nested_scope* middle;

void park_two_deep() {
    const int step = all->task.step;
    all->task.step = step + 1;
    if (step == 0) {
        middle = model::make<nested_scope>();
        middle->open(*all->root, all->task);
        all->inner = model::make<nested_scope>();
        all->inner->open(*middle, all->task);
        return park_on(all->first);
    }
    all->inner->close(all->task);
    model::destroy(all->inner);
    middle->close(all->task);
    model::destroy(middle);
    all->task.finished = true;
}

void stop_two_deep() {
    world here;
    all = &here;
    go_on = park_two_deep;
    model::run_threads(model::named_thread{"branch", [] { resume(); }},
                       model::named_thread{"stop", [] { stop_root(); }},
                       model::named_thread{"completer", [] { complete(all->first); }});
    check_end();
    model::check(here.task.word.stop_requested(), "the stop is lost");
}

// ---- a stop for one task comes late: its block has been given back, and the next task lives in
// it.

void next_life() {
    const int step = all->task.step;
    all->task.step = step + 1;
    switch (step) {
    case 0:
        // The first task ends, stopped or not. The next one opens a scope, closes it, and parks.
        all->task.word.begin_next_life();
        open_inner();
        model::check(!all->task.word.stop_requested(), "the next task is stopped");
        return park_on(all->first);
    case 1:
        close_inner();
        return park_on(all->second);
    default:
        model::check(step == 2, "resumed too often");
        model::check(!all->task.word.stop_requested(), "the next task is stopped");
        all->task.finished = true;
    }
}

void late_stop() {
    world here;
    all = &here;
    go_on = next_life;
    const std::uint32_t first_life = here.task.word.life();
    model::run_threads(model::named_thread{"branch", [] { resume(); }},
                       model::named_thread{"stop",
                                           [first_life] {
                                               branch* parked =
                                                   all->root->stop_life(all->task, first_life);
                                               model::check(parked == nullptr,
                                                            "the next task is cancelled");
                                           }},
                       model::named_thread{"completer", [] {
                                               complete_when_there(all->first);
                                               complete_when_there(all->second);
                                           }});
    check_end();
}

// ---- the same, while the task that is meant lives: the stop arrives whatever it does.

void stop_in_time() {
    world here;
    all = &here;
    go_on = open_park_close;
    const std::uint32_t life = here.task.word.life();
    model::run_threads(model::named_thread{"branch", [] { resume(); }},
                       model::named_thread{"stop", [life] {
                                               branch* parked =
                                                   all->root->stop_life(all->task, life);
                                               if (cancel_parked(parked)) resume();
                                           }});
    check_end();
}

// ---- the end of a runtime: the frames of a branch that waits behind a shield are destroyed, the
// scope before the operation, while a thread outside completes that.

void end_behind_a_shield() {
    world here;
    all = &here;
    go_on = [] { model::fail("nobody resumes it"); };
    branch& task = here.task;
    nested_scope* shield = model::make<nested_scope>();
    shield->open(*here.root, task, nullptr, weft::detail::scope_kind::shielded);
    model::check(here.root->stop(false) == nullptr, "a stop passes the shield");
    park_on(here.first);
    model::lifetime operation;
    model::run_threads(model::named_thread{"end",
                                           [&] {
                                               shield->close(task, false);
                                               model::destroy(shield);
                                               task.word.end_parked(
                                                   [&] { return here.first.take(&task); });
                                               operation.destroy("operation");
                                           }},
                       model::named_thread{"completer", [&] {
                                               branch* waiting = here.first.registered.exchange(
                                                   nullptr, order::acquire);
                                               if (waiting == nullptr) return;
                                               operation.touch("operation");
                                               waiting->word.complete();
                                           }});
    model::check(here.first.registered.peek() == nullptr, "the operation is left on its object");
    model::destroy(here.root);
}

// ---- a survey of the branches ends where it has found one, while a child leaves and the task is
// stopped: afterwards each branch is still there, once, and stopped.

// A child, in the scope of its task or in one that it has opened there.
struct member_branch {
    branch self;
    scope::member membership{self};
};

bool finds(branch* wanted) {
    return all->root->any_branch([wanted](branch& each) { return &each == wanted; });
}

void survey() {
    world here;
    all = &here;
    member_branch staying, leaving, deep, beside;
    for (member_branch* each : {&staying, &leaving, &deep, &beside}) {
        here.root->enter(each->membership);
    }
    nested_scope outer, inner, other;
    other.open(*here.root, beside.self, &beside.membership);
    outer.open(*here.root, deep.self, &deep.membership);
    inner.open(outer, deep.self);
    model::run_threads(model::named_thread{"survey",
                                           [&] {
                                               model::check(finds(&deep.self), "not found deep");
                                               model::check(finds(&beside.self), "not found");
                                           }},
                       model::named_thread{"child",
                                           [&] { here.root->leave(leaving.membership); }},
                       model::named_thread{"stop", [] { all->root->stop(false); }});
    model::check(!finds(&leaving.self), "who has left is found");
    model::check(finds(&staying.self), "who stays is not found");
    int found = 0;
    here.root->for_each_branch([&found](branch& each) {
        ++found;
        model::check(each.word.stop_requested(), "a branch is not stopped");
    });
    model::check(found == 4, "a branch is missing, or there twice");
    inner.close(deep.self);
    outer.close(deep.self);
    other.close(beside.self);
    for (member_branch* each : {&staying, &deep, &beside}) {
        model::check(finds(&each->self), "a branch is lost");
        here.root->leave(each->membership);
    }
    model::destroy(here.root);
}

const model::scenario scenarios[] = {
    {"stop against open and close", stop_against_open_and_close},
    {"stop and completion", stop_and_completion},
    {"stop and deadline", stop_and_deadline},
    {"deadline alone", deadline_alone},
    {"two deep", two_deep},
    {"parked two deep", stop_two_deep},
    {"late stop", late_stop},
    {"stop in time", stop_in_time},
    {"end behind a shield", end_behind_a_shield},
    {"survey", survey},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "scope", scenarios);
}
