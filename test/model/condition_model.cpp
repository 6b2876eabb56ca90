// SPDX-License-Identifier: MIT

// Model of a condition variable with its mutex: tasks wait for what others change and notify, and
// are stopped or destroyed on the way. No notification is lost, and whoever comes back has the
// mutex.

#include <weft/detail/sync/condition_core.hpp>
#include <weft/detail/sync/mutex_core.hpp>

#include "explorer.hpp"
#include "parked_task.hpp"

namespace model = weft::model;
using layer = model::model_layer;

namespace {

struct party;

struct in_line : weft::detail::wait_links<layer, in_line> {
    explicit in_line(party& task) : of(task) {}
    party& of;
};

struct for_mutex : weft::detail::wait_links<layer, for_mutex> {
    explicit for_mutex(party& task) : of(task) {}
    bool waits_long() const { return model::choose(2) == 1; }
    party& of;
    layer::var<bool> locked{false};
    layer::var<bool> lined_up{false};
};

enum class step { begins, waits, locks };

// A task that waits: its branch, and what its frame holds.
struct party : model::parked_task {
    in_line condition{*this};
    for_mutex mutex{*this};
    layer::var<step> at{step::begins};
    layer::var<bool> stopped{false};  // Its wait was ended by a stop.
    bool notified = false;
};

struct world {
    weft::detail::mutex_core<layer, for_mutex> mutex;
    weft::detail::condition_core<layer, in_line> condition;
    layer::var<bool> happened{false};
};

world* all;

void start(party& self);

void complete(party& waiting) {
    waiting.frame.touch("task");
    if (waiting.word.complete() && !waiting.ending) start(waiting);
}

// As mutex_base::unlock().
void unlock() {
    const auto decided = all->mutex.unlock();
    model::check(decided.was_locked, "a holder finds it unlocked");
    if (decided.next == nullptr) return;
    decided.next->of.frame.touch("task");
    if (decided.handed) {
        decided.next->lined_up = false;
        decided.next->locked = true;
    }
    complete(decided.next->of);
}

bool withdraw_from_mutex(for_mutex& waiting) {
    if (!all->mutex.withdraw(waiting)) return false;
    waiting.lined_up = false;
    return true;
}

// As condition_operation::unlink().
bool unlink(party& waiting) {
    if (waiting.at != step::waits || !all->condition.withdraw(waiting.condition)) return false;
    waiting.stopped = true;
    return true;
}

// As mutex_base::lock_or_line_up().
bool lock_or_line_up(for_mutex& self) {
    if (!self.lined_up && all->mutex.try_lock()) return true;
    self.lined_up = true;
    if (!all->mutex.acquire(self)) return false;
    self.lined_up = false;
    return true;
}

// As condition_operation::start(), and then the end of the wait.
void start(party& self) {
    if (self.at == step::begins) {
        self.at = step::waits;
        all->condition.line_up(self.condition);
        unlock();
        if (!model::park(self, unlink)) return;
    }
    if (self.at == step::waits) self.at = step::locks;
    while (!self.mutex.locked) {
        if (lock_or_line_up(self.mutex)) {
            self.mutex.locked = true;
        } else if (!model::park(self, unlink)) {
            return;
        }
    }
    // What the mutex guards is used; a race would be found.
    const bool happened = all->happened;
    self.notified = !self.stopped;
    model::check(happened || self.stopped, "woken for nothing");
    self.end();
    unlock();
}

void stop(party& waiting) {
    if (model::stop(waiting, unlink)) start(waiting);
}

// The end of a runtime: it is stopped, does not run any more, and is destroyed, as by
// ~condition_awaiter(), ~awaiter() and ~condition_operation().
void destroy(party& left) {
    model::stop(left, unlink);
    if (left.at == step::locks && left.word.awaits_completer() && withdraw_from_mutex(left.mutex)) {
        left.word.complete();
    }
    left.word.end_parked([&] { return unlink(left); });
    if (left.mutex.lined_up) {
        left.mutex.lined_up = false;
        if (for_mutex* const next = all->mutex.give_up(left.mutex)) complete(next->of);
    }
    if (left.mutex.locked) unlock();
    left.end();
}

void change() {
    while (!all->mutex.try_lock()) layer::pause();
    all->happened = true;
}

void notify_one() {
    if (in_line* const first = all->condition.notify_one()) complete(first->of);
}

void notify_all() {
    in_line* first = all->condition.notify_all();
    while (first != nullptr) {
        in_line& each = *first;
        each.of.frame.touch("task");
        first = each.next;
        complete(each.of);
    }
}

struct fixture : world {
    fixture() { all = this; }

    static void wait(party& task) {
        while (!all->mutex.try_lock()) layer::pause();
        if (!all->happened) return start(task);
        ++task.ended;
        unlock();
    }
    void check_free() {
        model::check(mutex.try_lock(), "the mutex stays locked");
        model::check(mutex.unlock().next == nullptr, "somebody waits for a mutex that is free");
        model::check(condition.notify_one() == nullptr, "somebody still waits");
    }
};

void wait_and_notify() {
    fixture here;
    party waiter;
    model::run_threads(model::named_thread{"waiter", [&] { fixture::wait(waiter); }},
                       model::named_thread{"notifier", [] {
                                               change();
                                               unlock();
                                               notify_one();
                                           }});
    waiter.check_ended();
    here.check_free();
}

void notify_with_the_mutex() {
    fixture here;
    party waiter;
    model::run_threads(model::named_thread{"waiter", [&] { fixture::wait(waiter); }},
                       model::named_thread{"notifier", [] {
                                               change();
                                               notify_one();
                                               unlock();
                                           }});
    waiter.check_ended();
    here.check_free();
}

void notify_two() {
    fixture here;
    party waiters[2];
    model::run_threads(model::named_thread{"waiter 1", [&] { fixture::wait(waiters[0]); }},
                       model::named_thread{"waiter 2", [&] { fixture::wait(waiters[1]); }},
                       model::named_thread{"notifier", [] {
                                               change();
                                               notify_all();
                                               unlock();
                                           }});
    for (const party& each : waiters) each.check_ended();
    here.check_free();
}

// Who notifies need not have the mutex, so it may look at the line while somebody lines up.
void line_up_against(void (*notify)()) {
    fixture here;
    party waiters[2];
    fixture::wait(waiters[0]);
    here.happened = true;
    model::run_threads(model::named_thread{"waiter",
                                           [&] {
                                               while (!all->mutex.try_lock()) layer::pause();
                                               start(waiters[1]);
                                           }},
                       model::named_thread{"notifier", notify});
    notify_all();
    for (const party& each : waiters) each.check_ended();
    here.check_free();
}
void line_up_against_one() {
    line_up_against(notify_one);
}
void line_up_against_all() {
    line_up_against(notify_all);
}

// The first of two is stopped while one is notified: that is one of them.
void stop_against_notify() {
    fixture here;
    party first;
    party second;
    for (party* each : {&first, &second}) fixture::wait(*each);
    here.happened = true;
    model::run_threads(model::named_thread{"canceller", [&] { stop(first); }},
                       model::named_thread{"notifier", notify_one});
    first.check_ended();
    model::check(first.notified != second.notified, "a notification is lost or doubled");
    if (second.ended == 0) notify_one();
    second.check_ended();
    here.check_free();
}

// Whoever is stopped waits for the mutex all the same.
void stop_while_the_mutex_is_held() {
    fixture here;
    party waiter;
    fixture::wait(waiter);
    model::check(here.mutex.try_lock(), "the mutex stays locked");
    model::run_threads(model::named_thread{"canceller", [&] { stop(waiter); }},
                       model::named_thread{"notifier", [] {
                                               all->happened = true;
                                               notify_one();
                                               unlock();
                                           }});
    waiter.check_ended();
    here.check_free();
}

void wait_against_stop() {
    fixture here;
    party waiter;
    model::run_threads(model::named_thread{"waiter", [&] { fixture::wait(waiter); }},
                       model::named_thread{"canceller", [&] { stop(waiter); }},
                       model::named_thread{"another", [] {
                                               if (all->mutex.try_lock()) unlock();
                                           }});
    waiter.check_ended();
    here.check_free();
}

// The runtime of one that was stopped, and waits for the mutex, ends; another one waits too.
void destroy_against_unlock() {
    fixture here;
    party left;
    party behind;
    fixture::wait(left);
    fixture::wait(behind);
    model::check(here.mutex.try_lock(), "the mutex stays locked");
    here.happened = true;
    stop(left);
    notify_all();
    left.ending = true;
    model::run_threads(model::named_thread{"end", [&] { destroy(left); }},
                       model::named_thread{"holder", [] { unlock(); }});
    left.check_ended();
    behind.check_ended();
    here.check_free();
}

// The same where the mutex is never unlocked: the end comes all the same.
void destroy_alone() {
    fixture here;
    party left;
    fixture::wait(left);
    model::check(here.mutex.try_lock(), "the mutex stays locked");
    left.ending = true;
    model::run_threads(model::named_thread{"end", [&] {
                                               stop(left);
                                               destroy(left);
                                           }});
    left.check_ended();
    unlock();
    here.check_free();
}

const model::scenario scenarios[] = {
    {"wait and notify", wait_and_notify},
    {"notify with the mutex", notify_with_the_mutex},
    {"notify two", notify_two},
    {"line up against one", line_up_against_one},
    {"line up against all", line_up_against_all},
    {"stop against notify", stop_against_notify},
    {"stop while the mutex is held", stop_while_the_mutex_is_held},
    {"wait against stop", wait_against_stop},
    {"destroy against unlock", destroy_against_unlock},
    {"destroy alone", destroy_alone},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "condition", scenarios);
}
