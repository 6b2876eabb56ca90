// SPDX-License-Identifier: MIT

// Model of the sentinel's role and deadline, with the parking of workers around it: the timers of a
// busy worker are served by an idle one, in time.
//
// Time is abstract. A sleeper with a deadline may wake by it at any moment; it is late if it finds
// a timer that is due before that deadline and that its owner had told of. A busy worker goes on
// until all timers have been collected, so a timer that nobody watches shows as a deadlock.

#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/sched/idle_protocol.hpp>
#include <weft/detail/sched/park_word.hpp>
#include <weft/detail/sched/sentinel.hpp>

#include "explorer.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;
using weft::detail::sleep_kind;
using role = weft::detail::sentinel_role<layer>;

namespace {

constexpr std::int64_t no_deadline = role::for_ever;
constexpr auto asleep = static_cast<std::uint32_t>(sleep_kind::in_futex);

struct world;

struct worker {
    struct link {
        layer::var<worker*> next{nullptr};
        layer::var<worker*> previous{nullptr};
        layer::var<bool> listed{false};
    };
    link parked;
    weft::detail::park_word<layer> word;
    // The heap of this worker: one timer, the earliest.
    layer::atomic<std::int64_t> earliest{no_deadline};
    // Its owner has told of it: bookkeeping of the model.
    model::shared<std::int64_t> told{no_deadline};
    bool searching = false;
    // Its next branch readies another one.
    bool brings_work = false;
    world* all = nullptr;
    std::uint32_t index = 0;

    void idle_loop();
    bool sleep();
    bool collect(worker& from, std::int64_t now);
    void add_timer(std::int64_t when);
    void wake();
};

struct world {
    std::uint32_t processors;
    weft::detail::idle_protocol<layer, worker> idle;
    role sentinel;
    worker workers[4];
    // Branches in the global queue: published with seq_cst.
    layer::atomic<int> work{0};
    model::shared<int> timers_left{0};
    model::shared<std::uint32_t> hogs{0};

    explicit world(std::uint32_t count) : processors(count), idle(count) {
        for (std::uint32_t i = 0; i < 4; ++i) {
            workers[i].all = this;
            workers[i].index = i;
        }
        model::name(*this, "world");
        model::name(workers[0], "worker 0");
        model::name(workers[1], "worker 1");
        model::name(workers[2], "worker 2");
        model::name(workers[3], "worker 3");
    }
    bool take_work() {
        int left = work.load(order::seq_cst);
        while (left > 0) {
            if (work.compare_exchange_weak(left, left - 1, order::seq_cst, order::seq_cst)) {
                return true;
            }
        }
        return false;
    }
    void add_work() {
        work.fetch_add(1, order::seq_cst);
        wake_if_needed();
    }
    void wake_if_needed() {
        if (!idle.wake_wanted()) return;
        const std::uint32_t holder = sentinel.holder_hint();
        worker* last_choice = holder == role::none ? nullptr : &workers[holder];
        if (worker* chosen = idle.wake_one(last_choice)) chosen->wake();
    }
    // As runtime_core::fill_role().
    void fill_role() {
        if (!idle.wake_wanted() || !sentinel.vacant()) return;
        bool anything = false;
        for (std::uint32_t i = 0; i < processors; ++i) {
            if (workers[i].earliest.load(order::seq_cst) != no_deadline) anything = true;
        }
        if (anything) wake_if_needed();
    }
    // The running branch keeps its worker until all timers are served, or nobody is idle.
    void hog() {
        ++hogs;
        model::may_sleep_for_ever(false);
        model::block_until([this] { return timers_left == 0 || hogs == processors; }, "a hog");
        model::may_sleep_for_ever();
        --hogs;
    }
    void serve(worker& busy);
    // What the busy worker does when its branch has ended.
    void serve_own(worker& busy) {
        hog();
        serve(busy);
    }
};

void world::serve(worker& busy) {
    busy.collect(busy, no_deadline - 1);
}

void worker::wake() {
    // Whoever sleeps looks at the word itself, in block_until().
    static_cast<void>(word.wake());
}

// As timer_heap::collect_due() and fire().
bool worker::collect(worker& from, std::int64_t now) {
    std::int64_t when = from.earliest.load(order::seq_cst);
    if (when > now) return false;
    if (!from.earliest.compare_exchange_strong(when, no_deadline, order::seq_cst, order::seq_cst)) {
        return false;
    }
    --all->timers_left;
    from.told = no_deadline;
    return true;
}

// As worker::timer_added() followed by worker_thread::tell_sentinel().
void worker::add_timer(std::int64_t when) {
    if (earliest.exchange(when, order::seq_cst) == no_deadline) ++all->timers_left;
    const std::uint32_t holder = all->sentinel.to_be_woken(when);
    if (holder == role::vacant_role) {
        if (all->idle.anybody_parked()) all->fill_role();
    } else if (holder != role::none && holder != index) {
        all->workers[holder].wake();
    }
    told = when;
}

// As worker_thread::find_work(): only with work in hand does it stop looking.
void worker::idle_loop() {
    model::may_sleep_for_ever();
    bool fired = false;
    for (;;) {
        if (!searching) searching = all->idle.begin_search();
        if (std::exchange(fired, false) || all->take_work()) {
            if (std::exchange(searching, false) && all->idle.end_search() &&
                all->work.load(order::seq_cst) != 0) {
                all->wake_if_needed();
            }
            all->fill_role();
            if (std::exchange(brings_work, false)) all->add_work();
            all->hog();
            continue;
        }
        all->idle.park(*this, std::exchange(searching, false));
        if (all->work.load(order::seq_cst) != 0) {
            all->idle.unpark(*this, true);
            searching = true;
            continue;
        }
        fired = sleep();
    }
}

// As worker_thread::sleep() and leave_sleep(). True: timers were collected.
bool worker::sleep() {
    const bool is_sentinel = all->sentinel.take(index);
    std::int64_t deadline = no_deadline;
    if (is_sentinel) {
        for (std::uint32_t i = 0; i < all->processors; ++i) {
            deadline = std::min(deadline, all->workers[i].earliest.load(order::seq_cst));
        }
        all->sentinel.watch_until(deadline);
    } else {
        deadline = earliest.load(order::seq_cst);
    }
    std::int64_t now = 0;
    if (word.prepare(sleep_kind::in_futex)) {
        model::may_sleep_for_ever(deadline == no_deadline);
        model::block_until([&] { return deadline != no_deadline || word.word().peek() != asleep; },
                           "sleep");
        if (word.word().peek() == asleep) {
            now = deadline;
            for (std::uint32_t i = 0; i < all->processors; ++i) {
                model::check(!is_sentinel || all->workers[i].told >= now, "a timer is late");
            }
        }
        word.finish();
    }
    if (is_sentinel) all->sentinel.leave();
    all->idle.unpark(*this, true);
    searching = true;
    bool served = false;
    if (is_sentinel) {
        for (std::uint32_t i = 0; i < all->processors; ++i) {
            served = collect(all->workers[i], now) || served;
        }
    } else {
        served = collect(*this, now);
    }
    return served;
}

// ---- scenarios

// A busy worker adds a timer, and an earlier one; the other is on its way to sleep.
void new_minimum() {
    world all(2);
    model::run_threads(model::named_thread{"busy",
                                           [&] {
                                               all.workers[0].add_timer(9);
                                               all.workers[0].add_timer(5);
                                               all.serve_own(all.workers[0]);
                                           }},
                       model::named_thread{"idle", [&] { all.workers[1].idle_loop(); }});
    model::check(all.timers_left == 0, "a timer is lost");
}

// Two idle workers; one timer.
void one_of_two_watches() {
    world all(3);
    model::run_threads(model::named_thread{"busy",
                                           [&] {
                                               all.workers[0].add_timer(9);
                                               all.serve_own(all.workers[0]);
                                           }},
                       model::named_thread{"idle 1", [&] { all.workers[1].idle_loop(); }},
                       model::named_thread{"idle 2", [&] { all.workers[2].idle_loop(); }});
    model::check(all.timers_left == 0, "a timer is lost");
}

// The sentinel serves its own timer and is busy then: the other has to take over.
void role_falls_vacant() {
    world all(3);
    all.workers[1].add_timer(3);
    model::run_threads(model::named_thread{"busy",
                                           [&] {
                                               all.workers[0].add_timer(9);
                                               all.serve_own(all.workers[0]);
                                           }},
                       model::named_thread{"idle 1", [&] { all.workers[1].idle_loop(); }},
                       model::named_thread{"idle 2", [&] { all.workers[2].idle_loop(); }});
    model::check(all.timers_left == 0, "a timer is lost");
}

// Work comes as well: another worker than the sentinel takes it if there is one.
void work_and_timer() {
    world all(3);
    model::run_threads(model::named_thread{"busy",
                                           [&] {
                                               all.add_work();
                                               all.workers[0].add_timer(9);
                                               all.serve_own(all.workers[0]);
                                           }},
                       model::named_thread{"idle 1", [&] { all.workers[1].idle_loop(); }},
                       model::named_thread{"idle 2", [&] { all.workers[2].idle_loop(); }});
    model::check(all.timers_left == 0, "a timer is lost");
    model::check(all.work.peek() == 0, "work is lost");
}

// Whoever was woken to take the role finds work instead.
void woken_for_the_role_finds_work() {
    world all(4);
    all.workers[1].add_timer(3);
    all.workers[1].brings_work = true;
    model::run_threads(model::named_thread{"busy",
                                           [&] {
                                               all.workers[0].add_timer(9);
                                               all.serve_own(all.workers[0]);
                                           }},
                       model::named_thread{"idle 1", [&] { all.workers[1].idle_loop(); }},
                       model::named_thread{"idle 2", [&] { all.workers[2].idle_loop(); }},
                       model::named_thread{"idle 3", [&] { all.workers[3].idle_loop(); }});
    model::check(all.timers_left == 0, "a timer is lost");
    model::check(all.work.peek() == 0, "work is lost");
}

const model::scenario scenarios[] = {
    {"a new minimum", new_minimum, {.reduce = true}},
    {"one of two watches", one_of_two_watches, {.stale_reads = 1, .reduce = true, .alike = 2}},
    {"the role falls vacant", role_falls_vacant, {.stale_reads = 0, .reduce = true}},
    {"work and a timer", work_and_timer, {.stale_reads = 0, .reduce = true, .alike = 2}},
    {"woken for the role",
     woken_for_the_role_finds_work,
     {.stale_reads = 0, .reduce = true, .alike = 2},
     100'000},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "sentinel", scenarios);
}
