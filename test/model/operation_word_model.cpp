// SPDX-License-Identifier: MIT

// Model of the word of an operation: completer, canceller and the parker itself race for one
// wake-up, and the frame dies as soon as the branch runs again.

#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/branch/operation_word.hpp>

#include "explorer.hpp"

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;
using weft::detail::suspend_outcome;

namespace {

struct branch;

// The awaiting frame with its operation: freed when the branch runs again.
struct frame {
    layer::var<branch*> waiter;
    layer::var<int> handle;
    layer::var<int> result;
    layer::var<bool> cancelled;
};

// What the operation lies on: gives it away once.
struct object {
    layer::atomic<frame*> registered{nullptr};

    frame* take(frame* expected) {
        const bool taken =
            registered.compare_exchange_strong(expected, nullptr, order::acq_rel, order::relaxed);
        return taken ? expected : nullptr;
    }
    frame* take_any() { return registered.exchange(nullptr, order::acquire); }
};

// Type-stable, unlike the frame.
struct branch {
    weft::detail::operation_word<layer> word;
    layer::var<frame*> waiting_for;
    layer::var<object*> waits_on;
    // Written by the parker between its publication and its suspension.
    layer::var<bool> parked;
    int resumed = 0;
    int results = 0;
    int cancellations = 0;
    // What the branch does when it runs again.
    void (*then)(branch&) = nullptr;
};

weft::detail::spin_lock<layer>* scope_lock;
object* second_object;

// The branch runs again, in whichever thread readied it: the frame is gone.
void resume(branch& readied) {
    frame* ended = readied.waiting_for;
    ++readied.resumed;
    model::check(ended->handle == 7, "the handle is not visible");
    if (ended->cancelled) {
        ++readied.cancellations;
    } else {
        model::check(ended->result == 42, "the result is not visible");
        ++readied.results;
    }
    readied.parked = false;
    readied.waiting_for = nullptr;
    model::destroy(ended);
    if (auto then = readied.then) {
        readied.then = nullptr;
        then(readied);
    }
}

// A canceller that owns the wake-up, after the last unlock.
void cancel(branch& parked) {
    frame* waiting = parked.waiting_for;
    object* on = parked.waits_on;
    if (on->take(waiting) != nullptr) {
        waiting->cancelled = true;
        parked.word.withdrawn();
        resume(parked);
    } else if (parked.word.let_go()) {
        resume(parked);
    }
}

void complete(frame* taken) {
    if (taken == nullptr) return;
    branch& waiter = *taken->waiter;
    taken->result = 42;
    if (waiter.word.complete()) resume(waiter);
}

// Completes what will be registered at `on`.
void complete_later(object& on) {
    frame* taken = nullptr;
    while ((taken = on.take_any()) == nullptr) layer::pause();
    complete(taken);
}

// Whether the branch suspended or goes on at once makes no difference here: resume() runs it.
void park_on(branch& parker, object& on) {
    frame* own = model::make<frame>();
    own->waiter = &parker;
    own->handle = 7;
    parker.waiting_for = own;
    parker.waits_on = &on;
    if (parker.word.stop_requested()) {
        own->cancelled = true;
        resume(parker);
        return;
    }
    on.registered.store(own, order::release);
    parker.parked = true;
    switch (parker.word.suspend()) {
    case suspend_outcome::suspended: return;
    case suspend_outcome::completed: resume(parker); return;
    case suspend_outcome::stopped: cancel(parker); return;
    }
}

void stop(branch& of, bool late) {
    scope_lock->lock();
    const bool parked = of.word.request_stop(late);
    scope_lock->unlock();
    if (parked) cancel(of);
}

struct fixture {
    weft::detail::spin_lock<layer> lock;
    object first, second;
    branch parker;

    fixture() {
        scope_lock = &lock;
        second_object = &second;
    }
    void check_end(int rounds) {
        model::check(parker.resumed == rounds, "a wake-up is lost or doubled");
        // From `idle`, and only from there, a completion is found by the next suspension.
        model::check(!parker.word.complete(), "the word is still armed");
        model::check(parker.word.suspend() == suspend_outcome::completed, "the word is not idle");
    }
};

void complete_only() {
    fixture all;
    model::run_threads(model::named_thread{"parker", [&] { park_on(all.parker, all.first); }},
                       model::named_thread{"completer", [&] { complete_later(all.first); }});
    all.check_end(1);
    model::check(all.parker.results == 1, "no result");
}

void cancel_only() {
    fixture all;
    model::run_threads(model::named_thread{"parker", [&] { park_on(all.parker, all.first); }},
                       model::named_thread{"canceller", [&] { stop(all.parker, true); }});
    all.check_end(1);
    model::check(all.parker.cancellations == 1, "not cancelled");
    model::check(all.parker.word.late(), "the reason is lost");
}

// The completer looks once, so that it may come too early.
void complete_against_cancel() {
    fixture all;
    model::run_threads(model::named_thread{"parker", [&] { park_on(all.parker, all.first); }},
                       model::named_thread{"completer", [&] { complete(all.first.take_any()); }},
                       model::named_thread{"canceller", [&] { stop(all.parker, false); }});
    all.check_end(1);
    model::check(all.parker.word.stop_requested(), "the stop is forgotten");
    model::check(!all.parker.word.late(), "the reason is wrong");
}

// The same operation for both, as with a timer that will expire in any case.
void complete_surely_against_cancel() {
    fixture all;
    model::run_threads(model::named_thread{"parker", [&] { park_on(all.parker, all.first); }},
                       model::named_thread{"completer",
                                           [&] {
                                               model::block_until([&] {
                                                   return all.first.registered.peek() != nullptr ||
                                                          all.parker.resumed == 1;
                                               });
                                               complete(all.first.take_any());
                                           }},
                       model::named_thread{"canceller", [&] { stop(all.parker, false); }});
    all.check_end(1);
}

// The branch parks again at once; a party of the first round must not touch the second.
void two_rounds() {
    fixture all;
    all.parker.then = [](branch& self) { park_on(self, *second_object); };
    model::run_threads(model::named_thread{"parker", [&] { park_on(all.parker, all.first); }},
                       model::named_thread{"completer 1", [&] { complete_later(all.first); }},
                       model::named_thread{"completer 2", [&] { complete_later(all.second); }});
    all.check_end(2);
    model::check(all.parker.results == 2, "no result");
}

// The scope of the first round is closed before the second one; the stop hits either or none.
void two_rounds_and_cancel() {
    fixture all;
    all.parker.then = [](branch& self) {
        scope_lock->lock();
        self.word.adopt_flags(0);
        scope_lock->unlock();
        park_on(self, *second_object);
    };
    model::run_threads(model::named_thread{"parker", [&] { park_on(all.parker, all.first); }},
                       model::named_thread{"completers",
                                           [&] {
                                               complete(all.first.take_any());
                                               model::block_until([&] {
                                                   return all.second.registered.peek() != nullptr ||
                                                          all.parker.resumed == 2;
                                               });
                                               complete(all.second.take_any());
                                           }},
                       model::named_thread{"canceller", [&] { stop(all.parker, false); }});
    // A completer that came too early leaves the first round to the canceller, if it comes.
    model::check(all.parker.resumed == 2, "a wake-up is lost or doubled");
}

// Two stops: of the scope's deadline and of the task. One cancels, the first reason stays.
void two_cancellers() {
    fixture all;
    model::run_threads(model::named_thread{"parker", [&] { park_on(all.parker, all.first); }},
                       model::named_thread{"deadline", [&] { stop(all.parker, true); }},
                       model::named_thread{"stop", [&] { stop(all.parker, false); }});
    all.check_end(1);
    model::check(all.parker.cancellations == 1, "not cancelled");
}

const model::scenario scenarios[] = {
    {"complete", complete_only},
    {"cancel", cancel_only},
    {"complete against cancel", complete_against_cancel},
    {"complete surely against cancel", complete_surely_against_cancel},
    {"two rounds", two_rounds},
    {"two rounds and a cancel", two_rounds_and_cancel},
    {"two cancellers", two_cancellers},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "operation_word", scenarios);
}
