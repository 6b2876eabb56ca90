// SPDX-License-Identifier: MIT

// Model of a semaphore, and of an event that lets one task through for each set(): permits are
// taken, waited for, released, and those who wait are stopped, or destroyed after they were granted
// what they wanted. No permit may be lost or doubled, nobody may be overtaken, and nobody may wait
// beside what it wants.

#include <weft/detail/branch/operation_word.hpp>
#include <weft/detail/sync/semaphore_core.hpp>

#include "explorer.hpp"

#include <cstddef>

namespace model = weft::model;
using layer = model::model_layer;
using weft::detail::suspend_outcome;

namespace {

enum class end_of_task { runs, is_destroyed };

// A task that wants permits: its branch, and what its frame holds.
struct party : weft::detail::permit_links<layer, party> {
    weft::detail::operation_word<layer> word;
    model::lifetime frame;
    layer::var<bool> cancelled{false};
    end_of_task end = end_of_task::runs;
    int resumed = 0;
    int place = 0;  // Which one it was that got its permits.
    std::size_t has = 0;
};

using core = weft::detail::semaphore_core<layer, party>;

constexpr std::size_t limit = 3;

struct fixture {
    explicit fixture(std::size_t permits) : semaphore(model::make<core>(permits, limit)) {
        all = this;
    }

    core* semaphore;
    layer::var<int> done{0};  // Written by whoever releases, before it does.
    int went_on = 0;
    bool destroyed_by_waiter = false;
    static fixture* all;
};

fixture* fixture::all;

fixture& here() {
    return *fixture::all;
}

void complete_all(party* first);

// The branch runs again, or its runtime has ended, and its frame ends.
void resume(party& self) {
    ++self.resumed;
    self.place = ++here().went_on;
    if (self.granted) {
        if (self.end == end_of_task::is_destroyed) {
            complete_all(here().semaphore->give_back(self));
            self.frame.destroy("task");
            return;
        }
        here().semaphore->take(self);
    }
    if (!self.cancelled) {
        self.has = self.wanted;
        if (here().destroyed_by_waiter) {
            model::check(here().done == 1, "what was done before the release is not seen");
            model::destroy(here().semaphore);
        }
    }
    self.frame.destroy("task");
}

void complete_all(party* first) {
    while (first != nullptr) {
        party& each = *first;
        first = each.next_granted;
        each.frame.touch("task");
        if (each.word.complete()) resume(each);
    }
}

void release(std::size_t count) {
    const auto released = here().semaphore->release(count);
    model::check(released.fits, "more permits than there are");
    complete_all(released.granted);
}

void cancel(party& waiting) {
    const auto withdrawn = here().semaphore->withdraw(waiting);
    complete_all(withdrawn.granted);
    if (withdrawn.was_there) {
        waiting.cancelled = true;
        waiting.word.withdrawn();
        resume(waiting);
    } else if (waiting.word.let_go()) {
        resume(waiting);
    }
}

void acquire(party& self, std::size_t wanted) {
    self.wanted = wanted;
    if (here().semaphore->acquire(wanted, &self)) return resume(self);
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

// All that was there is there again, or with one of these.
template <std::size_t Count>
void account(std::size_t all, const party (&tasks)[Count]) {
    std::size_t found = here().semaphore->permits();
    for (const party& each : tasks) found += each.has;
    model::check(found == all, "a permit is lost or doubled");
}

void two_for_one() {
    fixture semaphore(1);
    party tasks[2];
    model::run_threads(model::named_thread{"task 1", [&] { acquire(tasks[0], 1); }},
                       model::named_thread{"task 2", [&] { acquire(tasks[1], 1); }});
    model::check(tasks[0].resumed + tasks[1].resumed == 1, "not exactly one has it");
    account(1, tasks);
    release(1);
    for (const party& each : tasks) check_resumed(each);
    account(2, tasks);
}

void release_against_acquire() {
    fixture semaphore(0);
    party tasks[2];
    model::run_threads(model::named_thread{"task 1", [&] { acquire(tasks[0], 1); }},
                       model::named_thread{"task 2", [&] { acquire(tasks[1], 1); }},
                       model::named_thread{"releaser", [&] {
                                               release(1);
                                               release(1);
                                           }});
    for (const party& each : tasks) check_resumed(each);
    account(2, tasks);
}

void two_releasers() {
    fixture semaphore(0);
    party tasks[1];
    model::run_threads(model::named_thread{"task", [&] { acquire(tasks[0], 2); }},
                       model::named_thread{"releaser 1", [] { release(1); }},
                       model::named_thread{"releaser 2", [] { release(1); }});
    check_resumed(tasks[0]);
    account(2, tasks);
}

// One who wants many is not overtaken by one who wants few.
void many_before_few() {
    fixture semaphore(0);
    party tasks[2];
    acquire(tasks[0], 2);
    release(1);
    model::check(tasks[0].resumed == 0, "it has more than there is");
    model::run_threads(model::named_thread{"few", [&] { acquire(tasks[1], 1); }},
                       model::named_thread{"try", [] {
                                               model::check(!here().semaphore->acquire(1, nullptr),
                                                            "it has overtaken");
                                           }});
    model::check(tasks[0].resumed == 0 && tasks[1].resumed == 0, "out of nothing");
    release(1);
    check_resumed(tasks[0]);
    model::check(tasks[1].resumed == 0, "more than there are");
    release(1);
    check_resumed(tasks[1]);
    account(3, tasks);
}

void more_than_there_are() {
    fixture semaphore(1);
    party tasks[1];
    model::check(!semaphore.semaphore->acquire(2, nullptr), "more than there are");
    acquire(tasks[0], 2);
    model::check(tasks[0].resumed == 0, "more than there are");
    release(1);
    check_resumed(tasks[0]);
    account(2, tasks);
}

void one_release_for_several() {
    fixture semaphore(0);
    party tasks[3];
    for (party& each : tasks) acquire(each, 1);
    model::run_threads(model::named_thread{"releaser", [] { release(3); }},
                       model::named_thread{"canceller", [&] { stop(tasks[1]); }});
    for (const party& each : tasks) check_resumed(each);
    model::check(tasks[0].place < tasks[2].place, "the order is lost");
    account(3, tasks);
}

void acquire_against_stop() {
    fixture semaphore(0);
    party tasks[1];
    model::run_threads(model::named_thread{"task", [&] { acquire(tasks[0], 1); }},
                       model::named_thread{"releaser", [] { release(1); }},
                       model::named_thread{"canceller", [&] { stop(tasks[0]); }});
    check_resumed(tasks[0]);
    model::check((tasks[0].has == 0) == tasks[0].cancelled, "it does not know what it has");
    account(1, tasks);
}

// Who wants many is stopped: there is enough for those behind, and nobody will release any more.
void stop_of_the_first() {
    fixture semaphore(2);
    party tasks[3];
    acquire(tasks[0], 3);
    model::run_threads(model::named_thread{"task", [&] { acquire(tasks[1], 1); }},
                       model::named_thread{"canceller", [&] { stop(tasks[0]); }},
                       model::named_thread{"another", [&] { acquire(tasks[2], 1); }});
    for (const party& each : tasks) check_resumed(each);
    account(2, tasks);
}

// Who was granted a permit is destroyed before it runs: the next one has it.
void destroyed_before_it_ran() {
    fixture semaphore(0);
    party tasks[2];
    tasks[0].end = end_of_task::is_destroyed;
    acquire(tasks[0], 1);
    model::run_threads(model::named_thread{"task", [&] { acquire(tasks[1], 1); }},
                       model::named_thread{"releaser", [] { release(1); }});
    for (const party& each : tasks) check_resumed(each);
    account(1, tasks);
}

void destroyed_against_stop() {
    fixture semaphore(0);
    party tasks[2];
    tasks[0].end = end_of_task::is_destroyed;
    acquire(tasks[0], 1);
    acquire(tasks[1], 1);
    model::run_threads(model::named_thread{"releaser", [] { release(1); }},
                       model::named_thread{"canceller", [&] { stop(tasks[1]); }});
    for (const party& each : tasks) check_resumed(each);
    account(1, tasks);
}

void acquire_and_destroy() {
    fixture semaphore(0);
    semaphore.destroyed_by_waiter = true;
    party task;
    model::run_threads(model::named_thread{"task", [&] { acquire(task, 1); }},
                       model::named_thread{"releaser", [] {
                                               here().done = 1;
                                               release(1);
                                           }});
    check_resumed(task);
}

void limit_of_the_permits() {
    fixture semaphore(2);
    model::check(!semaphore.semaphore->release(2).fits, "it does not say that it was too much");
    model::check(semaphore.semaphore->permits() == limit, "more than the limit, or fewer");
    // As an event that remembers one set().
    core event(0, 1);
    event.release(1);
    event.release(1);
    model::check(event.acquire(1, nullptr), "a set() is lost");
    model::check(!event.acquire(1, nullptr), "it counts");
}

const model::scenario scenarios[] = {
    {"two for one", two_for_one},
    {"release against acquire", release_against_acquire},
    {"two releasers", two_releasers},
    {"many before few", many_before_few},
    {"more than there are", more_than_there_are},
    {"one release for several", one_release_for_several},
    {"acquire against stop", acquire_against_stop},
    {"stop of the first", stop_of_the_first},
    {"destroyed before it ran", destroyed_before_it_ran},
    {"destroyed against stop", destroyed_against_stop},
    {"acquire and destroy", acquire_and_destroy},
    {"limit of the permits", limit_of_the_permits},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "semaphore", scenarios);
}
