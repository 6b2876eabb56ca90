// SPDX-License-Identifier: MIT

// Model of a mutex: tasks lock, wait, lose against others, are handed it, and are cancelled or
// destroyed on the way. Sections must not overlap, each sees what the one before has written, and
// nobody may wait for a mutex that is free.

#include <weft/detail/sync/mutex_core.hpp>

#include "explorer.hpp"
#include "parked_task.hpp"

#include <cstddef>

namespace model = weft::model;
using layer = model::model_layer;

namespace {

// A task that wants the mutex: its branch, and what its frame holds.
struct party : weft::detail::wait_links<layer, party>, model::parked_task {
    // What the clock says is anything, unless the scenario says more.
    bool waits_long() const { return waited == anything ? model::choose(2) == 1 : waited != 0; }
    static constexpr int anything = -1;

    layer::var<bool> handed{false};
    layer::var<bool> lined_up{false};
    int waited = anything;
    int sections = 0;
};

using core = weft::detail::mutex_core<layer, party>;

struct world {
    core mutex;
    layer::var<int> guarded{0};
};

world* all;

// Who was readied by a thread that goes on itself before it runs them.
struct run_queue {
    void push(party& readied) {
        model::check(count < 4, "too many are readied");
        waiting[count++] = &readied;
    }
    void run_all();

    party* waiting[4] = {};
    int count = 0;
};

void run(party& self, run_queue* queue = nullptr);

// Without a queue it runs at once.
void complete(party* woken, run_queue* queue) {
    if (woken == nullptr) return;
    woken->frame.touch("task");
    if (!woken->word.complete() || woken->ending) return;
    if (queue != nullptr) {
        queue->push(*woken);
    } else {
        run(*woken);
    }
}

// As mutex_base::unlock().
void unlock(run_queue* queue = nullptr) {
    const auto decided = all->mutex.unlock();
    model::check(decided.was_locked, "a holder finds it unlocked");
    if (decided.next == nullptr) return;
    decided.next->frame.touch("task");
    if (decided.handed) {
        decided.next->lined_up = false;
        decided.next->handed = true;
    }
    complete(decided.next, queue);
}

// As mutex_base::leave().
void leave(party& self, run_queue* queue = nullptr) {
    if (!self.lined_up) return;
    self.lined_up = false;
    complete(all->mutex.give_up(self), queue);
}

// As mutex_base::withdraw().
bool withdraw(party& waiting) {
    if (!all->mutex.withdraw(waiting)) return false;
    waiting.lined_up = false;
    return true;
}

// As mutex_base::lock_or_line_up().
bool lock_or_line_up(party& self) {
    if (!self.lined_up && all->mutex.try_lock()) return true;
    self.lined_up = true;
    if (!all->mutex.acquire(self)) return false;
    self.lined_up = false;
    return true;
}

// What the mutex guards is used; a race would be found.
void section(party& self, run_queue* queue) {
    all->guarded = all->guarded + 1;
    ++self.sections;
    unlock(queue);
}

// As lock_operation::start(), and then a section.
void run(party& self, run_queue* queue) {
    while (!self.handed) {
        if (self.word.stop_requested()) {
            leave(self, queue);
            return self.end();
        }
        if (lock_or_line_up(self)) break;
        if (!model::park(self, withdraw)) return;
    }
    section(self, queue);
    self.end();
}

void run_queue::run_all() {
    for (int i = 0; i < count; ++i) run(*waiting[i], this);
    count = 0;
}

void stop(party& waiting) {
    if (model::stop(waiting, withdraw)) run(waiting);
}

// The end of a runtime. The lines in the middle are ~lock_operation().
void destroy(party& left) {
    model::end_wait(left, withdraw);
    leave(left);
    if (left.handed) unlock();
    left.end();
}

// Somebody who never waits.
void try_section() {
    if (!all->mutex.try_lock()) return;
    all->guarded = all->guarded + 1;
    unlock();
}

// A holder that unlocks, is faster than who was woken, and unlocks again.
void unlock_twice() {
    run_queue queue;
    unlock(&queue);
    if (all->mutex.try_lock()) {
        queue.run_all();
        unlock(&queue);
    }
    queue.run_all();
}

struct fixture : world {
    fixture() { all = this; }

    static void check_served(const party& task) {
        task.check_ended();
        model::check(task.sections == 1, "it did not get the mutex");
    }
    // Nobody is left in line, and the mutex is as new.
    void check_free() {
        model::check(mutex.try_lock(), "the mutex stays locked");
        model::check(mutex.unlock().next == nullptr, "somebody waits for a mutex that is free");
    }
    // They stand in line, in this order, and the caller holds the mutex.
    template <class... Party>
    void line_up(Party&... waiting) {
        model::check(mutex.try_lock(), "a new mutex is locked");
        (run(waiting), ...);
    }
};

void two_lock() {
    fixture here;
    party tasks[2];
    model::run_threads(model::named_thread{"one", [&] { run(tasks[0]); }},
                       model::named_thread{"two", [&] { run(tasks[1]); }});
    for (const party& each : tasks) fixture::check_served(each);
    here.check_free();
}

void three_lock() {
    fixture here;
    party tasks[3];
    model::run_threads(model::named_thread{"one", [&] { run(tasks[0]); }},
                       model::named_thread{"two", [&] { run(tasks[1]); }},
                       model::named_thread{"three", [&] { run(tasks[2]); }});
    for (const party& each : tasks) fixture::check_served(each);
    here.check_free();
}

// Whoever stands in line loses against its holder, and somebody else comes.
void lose() {
    fixture here;
    party waiter;
    here.line_up(waiter);
    model::run_threads(model::named_thread{"holder", unlock_twice},
                       model::named_thread{"another", try_section});
    fixture::check_served(waiter);
    here.check_free();
}

void lose_in_line() {
    fixture here;
    party waiters[2];
    here.line_up(waiters[0], waiters[1]);
    model::run_threads(model::named_thread{"holder", unlock_twice},
                       model::named_thread{"another", try_section});
    for (const party& each : waiters) fixture::check_served(each);
    here.check_free();
}

void line_up_behind() {
    fixture here;
    party waiter;
    party another;
    here.line_up(waiter);
    model::run_threads(model::named_thread{"holder", unlock_twice},
                       model::named_thread{"another", [&] { run(another); }});
    fixture::check_served(waiter);
    fixture::check_served(another);
    here.check_free();
}

// Whoever was woken stands in front again, before those who have come later.
void keep_the_order() {
    fixture here;
    party waiters[2];
    here.line_up(waiters[0], waiters[1]);
    run_queue queue;
    unlock(&queue);
    model::check(here.mutex.try_lock(), "a mutex that is free is not locked");
    queue.run_all();
    unlock(&queue);
    model::check(queue.count == 1 && queue.waiting[0] == &waiters[0], "it lost its place");
    queue.run_all();
    for (const party& each : waiters) fixture::check_served(each);
    here.check_free();
}

// It is handed over only as long as somebody has waited for long.
void become_normal() {
    fixture here;
    party first;
    party second;
    party third;
    first.waited = 1;
    second.waited = 0;
    here.line_up(first, second);
    run_queue queue;
    unlock(&queue);
    model::check(here.mutex.try_lock(), "a mutex that is free is not locked");
    queue.run_all();
    unlock(&queue);
    model::check(first.handed, "nobody is handed a mutex after a long wait");
    queue.run_all();
    model::check(second.handed, "it is handed to the first in line, and not to those behind");
    model::check(here.mutex.try_lock(), "the mutex stays locked");
    run(third);
    unlock(&queue);
    model::check(!third.handed, "it is handed over after a short wait");
    queue.run_all();
    fixture::check_served(third);
    here.check_free();
}

// Whoever is stopped at any moment, nobody else is forgotten.
void stop_in_line(std::size_t which) {
    fixture here;
    party waiters[2];
    here.line_up(waiters[0], waiters[1]);
    model::run_threads(model::named_thread{"holder", unlock_twice},
                       model::named_thread{"canceller", [&] { stop(waiters[which]); }});
    waiters[which].check_ended();
    fixture::check_served(waiters[1 - which]);
    here.check_free();
}
void stop_the_first() {
    stop_in_line(0);
}
void stop_the_last() {
    stop_in_line(1);
}

void stop_the_only_one() {
    fixture here;
    party waiter;
    here.line_up(waiter);
    model::run_threads(model::named_thread{"holder", unlock_twice},
                       model::named_thread{"canceller", [&] { stop(waiter); }},
                       model::named_thread{"another", try_section});
    waiter.check_ended();
    here.check_free();
}

void lock_against_stop() {
    fixture here;
    party first;
    party second;
    model::run_threads(model::named_thread{"first", [&] { run(first); }},
                       model::named_thread{"second", [&] { run(second); }},
                       model::named_thread{"canceller", [&] { stop(second); }});
    fixture::check_served(first);
    second.check_ended();
    here.check_free();
}

// The runtime of the one in front ends: what it is woken for, or handed, goes on to the next one.
void destroy_the_first() {
    fixture here;
    party left;
    party waiter;
    here.line_up(left, waiter);
    left.ending = true;
    model::run_threads(model::named_thread{"holder", unlock_twice},
                       model::named_thread{"end", [&] { destroy(left); }});
    left.check_ended();
    fixture::check_served(waiter);
    here.check_free();
}

// The same after it has lost once, so that it may be handed the mutex.
void destroy_the_loser() {
    fixture here;
    party left;
    party waiter;
    here.line_up(left, waiter);
    run_queue queue;
    unlock(&queue);
    model::check(here.mutex.try_lock(), "a mutex that is free is not locked");
    queue.run_all();
    left.ending = true;
    model::run_threads(model::named_thread{"holder", unlock_twice},
                       model::named_thread{"end", [&] { destroy(left); }});
    left.check_ended();
    fixture::check_served(waiter);
    here.check_free();
}

// The runtime of the holder of a section ends, and with it that of one who waits.
void destroy_against_unlock() {
    fixture here;
    party left;
    party waiter;
    here.line_up(left);
    left.ending = true;
    model::run_threads(model::named_thread{"holder", [] { unlock(); }},
                       model::named_thread{"end", [&] { destroy(left); }},
                       model::named_thread{"another", [&] { run(waiter); }});
    left.check_ended();
    fixture::check_served(waiter);
    here.check_free();
}

const model::scenario scenarios[] = {
    {"two lock", two_lock},
    {"three lock", three_lock},
    {"lose", lose},
    {"lose in line", lose_in_line},
    {"line up behind", line_up_behind},
    {"keep the order", keep_the_order},
    {"become normal", become_normal},
    {"stop the first", stop_the_first},
    {"stop the last", stop_the_last},
    {"stop the only one", stop_the_only_one},
    {"lock against stop", lock_against_stop},
    {"destroy the first", destroy_the_first},
    {"destroy the loser", destroy_the_loser},
    {"destroy against unlock", destroy_against_unlock},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "mutex", scenarios);
}
