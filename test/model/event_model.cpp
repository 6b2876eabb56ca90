// SPDX-License-Identifier: MIT

// Model of what events, wait groups and latches are underneath: a count, and those who wait until
// it is zero. Each wait must end once, by what it waits for or by its stop, and whoever has waited
// may free the object.

#include <weft/detail/branch/operation_word.hpp>
#include <weft/detail/sync/event_core.hpp>

#include "explorer.hpp"

#include <cstddef>

namespace model = weft::model;
using layer = model::model_layer;
using weft::detail::suspend_outcome;

namespace {

// A task that waits: its branch, and what its frame holds.
struct party : weft::detail::wait_links<layer, party> {
    weft::detail::operation_word<layer> word;
    model::lifetime frame;
    layer::var<bool> cancelled{false};
    int resumed = 0;
    int place = 0;  // Which one it was that went on.
};

using core = weft::detail::event_core<layer, party>;

struct fixture {
    explicit fixture(std::size_t count) : event(model::make<core>(count)) { all = this; }

    core* event;
    layer::var<int> done{0};  // Written by whoever makes it happen, before it does.
    int went_on = 0;
    bool destroyed_by_waiter = false;
    static fixture* all;
};

fixture* fixture::all;

fixture& here() {
    return *fixture::all;
}

// The branch runs again, and its frame ends.
void resume(party& self) {
    ++self.resumed;
    self.place = ++here().went_on;
    if (!self.cancelled) {
        model::check(here().done != 0, "it went on before anything has happened");
        if (here().destroyed_by_waiter) model::destroy(here().event);
    }
    self.frame.destroy("task");
}

void complete_all(party* first) {
    while (first != nullptr) {
        party& each = *first;
        first = each.next;
        each.frame.touch("task");
        if (each.word.complete()) resume(each);
    }
}

void set() {
    here().done = 1;
    complete_all(here().event->open());
}

void lower() {
    here().done = 1;
    const weft::detail::lowered<party> lowered = here().event->lower(1);
    model::check(lowered.enough, "somebody else has taken what is counted");
    complete_all(lowered.gone);
}

void cancel(party& waiting) {
    if (here().event->withdraw(waiting)) {
        waiting.cancelled = true;
        waiting.word.withdrawn();
        resume(waiting);
    } else if (waiting.word.let_go()) {
        resume(waiting);
    }
}

void wait(party& self) {
    if (here().event->wait(&self)) return resume(self);
    switch (self.word.suspend()) {
    case suspend_outcome::suspended: return;
    case suspend_outcome::completed: return resume(self);
    case suspend_outcome::stopped: return cancel(self);
    }
}

// As arrive_operation::start().
void arrive(party& self) {
    const weft::detail::lowered<party> lowered = here().event->lower(1, &self);
    model::check(lowered.enough, "somebody else has taken what is counted");
    complete_all(lowered.gone);
    if (lowered.open) return resume(self);
    switch (self.word.suspend()) {
    case suspend_outcome::suspended: return;
    case suspend_outcome::completed: return resume(self);
    case suspend_outcome::stopped: return cancel(self);
    }
}

void stop(party& waiting) {
    if (waiting.word.request_stop(false)) cancel(waiting);
}

void check_resumed(const party& task) {
    model::check(task.resumed == 1, "a wake-up is lost or doubled");
}

void set_against_waits() {
    fixture event(1);
    party waiters[2];
    model::run_threads(model::named_thread{"waiter 1", [&] { wait(waiters[0]); }},
                       model::named_thread{"waiter 2", [&] { wait(waiters[1]); }},
                       model::named_thread{"setter", set});
    for (const party& each : waiters) check_resumed(each);
    model::check(event.event->wait(nullptr), "it does not stay set");
}

void set_twice() {
    fixture event(1);
    party waiter;
    // What is done before a second set() is not what the waiter is told of.
    event.done = 1;
    const auto again = [] { complete_all(here().event->open()); };
    model::run_threads(model::named_thread{"waiter", [&] { wait(waiter); }},
                       model::named_thread{"setter 1", again},
                       model::named_thread{"setter 2", again});
    check_resumed(waiter);
}

// Whoever was there goes on, and a wait that comes after the reset waits for the next set().
void set_against_reset() {
    fixture event(1);
    party first;
    party second;
    wait(first);
    model::run_threads(model::named_thread{"waiter", [&] { wait(second); }},
                       model::named_thread{"setter", [&] {
                                               set();
                                               event.event->close();
                                           }});
    check_resumed(first);
    model::check(!event.event->wait(nullptr), "a reset is lost");
    complete_all(event.event->open());
    check_resumed(second);
}

void reset_of_a_count() {
    fixture event(2);
    event.event->close();
    lower();
    model::check(!event.event->wait(nullptr), "a reset has lowered the count");
    lower();
    model::check(event.event->wait(nullptr), "a reset has raised the count");
}

void wait_against_stop() {
    fixture event(1);
    party waiter;
    model::run_threads(model::named_thread{"waiter", [&] { wait(waiter); }},
                       model::named_thread{"setter", set},
                       model::named_thread{"canceller", [&] { stop(waiter); }});
    check_resumed(waiter);
}

void stop_in_line() {
    fixture event(1);
    party waiters[3];
    for (party& each : waiters) wait(each);
    model::run_threads(model::named_thread{"setter", set},
                       model::named_thread{"canceller", [&] { stop(waiters[1]); }});
    for (const party& each : waiters) check_resumed(each);
    model::check(waiters[0].place < waiters[2].place, "the order is lost");
}

// Two who count down against one who waits, and destroys the latch at once.
void count_down() {
    fixture latch(2);
    latch.destroyed_by_waiter = true;
    party waiter;
    // Both have to be seen.
    layer::var<int> parts[2]{0, 0};
    const auto count = [&](int part) {
        parts[part] = 1;
        complete_all(here().event->lower(1).gone);
    };
    latch.done = 1;
    model::run_threads(model::named_thread{"waiter", [&] { wait(waiter); }},
                       model::named_thread{"counter 1", [&] { count(0); }},
                       model::named_thread{"counter 2", [&] { count(1); }});
    check_resumed(waiter);
    model::check(parts[0] == 1 && parts[1] == 1, "not all of it is seen");
}

// Two who wait for each other, and one of them is stopped.
void arrive_against_stop() {
    fixture latch(2);
    party tasks[2];
    latch.done = 1;
    model::run_threads(model::named_thread{"task 1", [&] { arrive(tasks[0]); }},
                       model::named_thread{"task 2", [&] { arrive(tasks[1]); }},
                       model::named_thread{"canceller", [&] { stop(tasks[0]); }});
    for (const party& each : tasks) check_resumed(each);
    model::check(!tasks[1].cancelled, "stopped with another one");
    model::check(latch.event->wait(nullptr), "one who was stopped has not arrived");
}

void set_and_destroy() {
    fixture event(1);
    event.destroyed_by_waiter = true;
    party waiter;
    model::run_threads(model::named_thread{"waiter", [&] { wait(waiter); }},
                       model::named_thread{"setter", set});
    check_resumed(waiter);
}

// A wait group: one more is added before the first one is done.
void raise_against_wait() {
    fixture group(1);
    party waiter;
    layer::var<int> parts[2]{0, 0};
    group.done = 1;
    const auto done = [&](int part) {
        parts[part] = 1;
        const auto lowered = here().event->lower(1);
        model::check(lowered.enough, "what was added is not counted");
        if (lowered.gone != nullptr) {
            model::check(parts[0] == 1 && parts[1] == 1, "it went on before all was done");
        }
        complete_all(lowered.gone);
    };
    model::run_threads(
        model::named_thread{"waiter", [&] { wait(waiter); }},
        model::named_thread{"first",
                            [&] {
                                model::check(here().event->raise(1), "no room");
                                done(0);
                            }},
        model::named_thread{"second", [&] {
                                model::block_until([&] { return parts[0].peek() == 1; });
                                done(1);
                            }});
    check_resumed(waiter);
}

void ends_of_the_count() {
    fixture event(1);
    model::check(!event.event->lower(3).enough, "it does not say that it was too much");
    model::check(event.event->count() == 0, "a count below zero");
    model::check(event.event->raise(1), "no room");
    model::check(!event.event->raise(~std::size_t{0}), "it does not say that it was too much");
    model::check(event.event->count() == ~std::size_t{0}, "the count has turned over");
}

const model::scenario scenarios[] = {
    {"set against waits", set_against_waits},
    {"set twice", set_twice},
    {"set against reset", set_against_reset},
    {"reset of a count", reset_of_a_count},
    {"wait against stop", wait_against_stop},
    {"stop in line", stop_in_line},
    {"count down", count_down},
    {"arrive against stop", arrive_against_stop},
    {"set and destroy", set_and_destroy},
    {"raise against wait", raise_against_wait},
    {"ends of the count", ends_of_the_count},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "event", scenarios);
}
