// SPDX-License-Identifier: MIT

// Model of the watchdog's rest: it never sleeps while somebody works, or has noted something that
// it is to remind of.

#include <weft/detail/sched/idle_protocol.hpp>
#include <weft/detail/sched/rest_word.hpp>
#include <weft/detail/sched/retirement.hpp>
#include <weft/detail/sched/running_workers.hpp>

#include "explorer.hpp"

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;

namespace {

struct worker;
struct link {
    layer::var<worker*> next{nullptr};
    layer::var<worker*> previous{nullptr};
    layer::var<bool> listed{false};
};
struct worker {
    link parked;
    weft::detail::state_word<layer> state;

    // As its wake word; recalled() is what it looks at in any case.
    void wake() {}
};

struct fixture {
    weft::detail::rest_word<layer> rest;
    weft::detail::idle_protocol<layer, worker> idle;
    worker workers[2];
    // A worker that works until the watchdog has seen it, or 0. Relaxed on purpose.
    layer::atomic<int> working{0};
    layer::atomic<int> wakes{0};
    // What the watchdog is to remind a worker of.
    layer::atomic<bool> noted{false};

    explicit fixture(int parked, std::uint32_t processors = 2) : idle(processors) {
        for (int i = 0; i < parked; ++i) idle.park(workers[i], false);
    }

    // The second worker has given its processor up, or is about to.
    void ask_second() {
        workers[1].state.ask();
        model::check(workers[1].state.begin(), "it was asked");
    }
    // As retire_if_asked(), when nothing is on its way any more.
    void settle() {
        if (workers[1].state.settle()) { idle.remove_processor(); }
    }
    void recall() { weft::detail::recall_worker(workers[1], *this); }
    // Then it looks for work, and finds some.
    void work_when_recalled() {
        while (!workers[1].state.recalled()) { layer::pause(); }
        work();
    }

    // As worker_thread::next(), after find_work() has returned.
    void begin_work() {
        if (rest.begin_work()) { wakes.fetch_add(1, order::relaxed); }
    }
    void work() {
        begin_work();
        working.store(1, order::relaxed);
        model::block_until([this] { return working.peek() == 0; }, "waiting to be watched");
    }
    bool begin_rest() {
        return rest.begin_rest([this] { return idle.all_parked(); },
                               [this] { return noted.load(order::relaxed); });
    }
    // As the watchdog's loop, which looks again and again while it does not rest.
    void watch(int expected) {
        int seen = 0;
        while (seen < expected) {
            if (working.peek() != 0) {
                working.store(0, order::relaxed);
                ++seen;
                continue;
            }
            if (begin_rest()) {
                model::block_until([this] { return rest.word().peek() != rest.resting; },
                                   "the watchdog rests");
                rest.end_rest();
            } else if (rest.is_ended()) {
                return;
            } else if (working.peek() == 0) {
                layer::pause();
            }
        }
    }
};

// A worker comes out of its park by itself while the watchdog goes to rest.
void a_worker_wakes_up() {
    fixture all(2);
    model::run_threads(model::named_thread{"watchdog", [&] { all.watch(1); }},
                       model::named_thread{"worker", [&] {
                                               all.idle.unpark(all.workers[0], true);
                                               all.work();
                                           }});
}

// One that works takes the other one off the list; that one works.
void a_worker_is_woken() {
    fixture all(2);
    layer::atomic<bool> woken{false};
    model::run_threads(model::named_thread{"watchdog", [&] { all.watch(1); }},
                       model::named_thread{"waker",
                                           [&] {
                                               if (all.idle.wake_one(nullptr) != nullptr) {
                                                   woken.store(true, order::release);
                                               }
                                           }},
                       model::named_thread{"worker", [&] {
                                               while (!woken.load(order::acquire)) {
                                                   layer::pause();
                                               }
                                               all.idle.unpark(all.workers[1], true);
                                               all.work();
                                           }});
}

// It parks, is found by its recheck, and works; the watchdog may have seen it parked.
void a_worker_parks_and_comes_back() {
    fixture all(1);
    model::run_threads(model::named_thread{"watchdog", [&] { all.watch(1); }},
                       model::named_thread{"worker", [&] {
                                               all.idle.park(all.workers[1], false);
                                               all.idle.unpark(all.workers[1], true);
                                               all.work();
                                           }});
}

void two_workers_wake_up() {
    fixture all(2);
    model::run_threads(model::named_thread{"watchdog", [&] { all.watch(1); }},
                       model::named_thread{"worker",
                                           [&] {
                                               all.idle.unpark(all.workers[0], true);
                                               all.begin_work();
                                           }},
                       model::named_thread{"other worker", [&] {
                                               all.idle.unpark(all.workers[1], true);
                                               all.work();
                                           }});
}

// Who wakes it pays for a system call, so of two only one does.
void one_of_two_wakes() {
    fixture all(2);
    const auto come_back = [&](int which) {
        all.idle.unpark(all.workers[which], true);
        all.begin_work();
    };
    bool rested = false;
    model::run_threads(
        model::named_thread{"watchdog",
                            [&] { rested = all.begin_rest(); }},
        model::named_thread{"worker", [&] { come_back(0); }},
        model::named_thread{"other worker", [&] { come_back(1); }});
    model::check(all.wakes.peek() <= 1, "two wake one watchdog");
    model::check(!rested || all.wakes.peek() == 1, "nobody wakes it");
    model::check(rested || all.rest.value() == all.rest.watching, "it seems to rest");
}

// A worker notes something and parks; whether it tells the watchdog that it works, or notes before
// it has got that far.
void a_worker_parks_with_a_note() {
    fixture all(2);
    bool seen = false;
    model::run_threads(model::named_thread{"watchdog",
                                           [&] {
                                               for (int looks = 0; looks < 2 && !seen; ++looks) {
                                                   seen = all.noted.load(order::relaxed);
                                                   if (!seen && all.begin_rest()) { return; }
                                               }
                                           }},
                       model::named_thread{"worker", [&] {
                                               all.idle.unpark(all.workers[0], true);
                                               if (model::choose(2) == 0) { all.begin_work(); }
                                               if (all.rest.is_watching()) {
                                                   all.noted.store(true, order::relaxed);
                                               }
                                               all.idle.park(all.workers[0], true);
                                           }});
    model::check(all.rest.value() != all.rest.resting || !all.noted.peek(),
                 "it rests over a note");
}

// A worker without a processor gets one back, and works, while the only other one is parked.
void a_worker_is_recalled() {
    fixture all(1, 2);
    all.ask_second();
    all.settle();
    model::run_threads(model::named_thread{"watchdog", [&] { all.watch(1); }},
                       model::named_thread{"controller", [&] { all.recall(); }},
                       model::named_thread{"worker", [&] { all.work_when_recalled(); }});
}

// It settles at that moment: it counts once then, whichever of the two comes first.
void a_worker_settles_and_is_recalled() {
    fixture all(1, 2);
    all.ask_second();
    model::run_threads(model::named_thread{"watchdog", [&] { all.watch(1); }},
                       model::named_thread{"controller", [&] { all.recall(); }},
                       model::named_thread{"worker", [&] {
                                               all.settle();
                                               all.work_when_recalled();
                                           }});
    model::check(all.idle.processors_hint() == 2, "it does not count once");
}

// The other one leaves the parked state between the two loads of the watchdog.
void another_works_while_one_settles() {
    fixture all(1, 2);
    all.ask_second();
    model::run_threads(model::named_thread{"watchdog", [&] { all.watch(1); }},
                       model::named_thread{"settles", [&] { all.settle(); }},
                       model::named_thread{"worker", [&] {
                                               all.idle.unpark(all.workers[0], true);
                                               all.work();
                                           }});
}

// A worker that is recalled notes something, before or after it tells the watchdog that it works.
void a_worker_is_recalled_with_a_note() {
    fixture all(1, 2);
    all.ask_second();
    all.settle();
    bool rested = false;
    model::run_threads(model::named_thread{"watchdog", [&] { rested = all.begin_rest(); }},
                       model::named_thread{"controller", [&] { all.recall(); }},
                       model::named_thread{"worker", [&] {
                                               while (!all.workers[1].state.recalled()) {
                                                   layer::pause();
                                               }
                                               if (model::choose(2) == 0) { all.begin_work(); }
                                               if (all.rest.is_watching()) {
                                                   all.noted.store(true, order::relaxed);
                                               }
                                           }});
    model::check(all.rest.value() != all.rest.resting || !all.noted.peek(),
                 "it rests over a note");
}

void it_ends() {
    fixture all(2);
    layer::var<int> message{0};
    model::run_threads(model::named_thread{"watchdog",
                                           [&] {
                                               all.watch(100);
                                               model::check(message == 1, "an old message");
                                           }},
                       model::named_thread{"worker",
                                           [&] {
                                               all.idle.unpark(all.workers[0], true);
                                               all.begin_work();
                                           }},
                       model::named_thread{"end", [&] {
                                               message = 1;
                                               all.rest.end();
                                           }});
}

const model::scenario scenarios[] = {
    {"a worker wakes up", a_worker_wakes_up},
    {"a worker is woken", a_worker_is_woken},
    {"a worker parks and comes back", a_worker_parks_and_comes_back},
    {"two workers wake up", two_workers_wake_up},
    {"one of two wakes", one_of_two_wakes},
    {"a worker parks with a note", a_worker_parks_with_a_note},
    {"a worker is recalled", a_worker_is_recalled},
    {"a worker settles and is recalled", a_worker_settles_and_is_recalled},
    {"another works while one settles", another_works_while_one_settles},
    {"a worker is recalled with a note", a_worker_is_recalled_with_a_note},
    {"it ends", it_ends},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "rest_word", scenarios);
}
