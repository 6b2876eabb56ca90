// SPDX-License-Identifier: MIT

// Model of the sentinel's role and deadline, with the parking of workers around it: the timers of a
// busy worker are served by an idle one, in time. The loop and its order of steps is weft's own
// (parking_loop.hpp); branches, heaps and the sleep itself are stand-ins.
//
// Time is abstract. A sleeper with a deadline may wake by it at any moment; it is late if it finds
// a timer that is due before that deadline and that its owner had told of. A busy worker goes on
// until all timers have been collected, so a timer that nobody watches shows as a deadlock.

#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/sched/idle_protocol.hpp>
#include <weft/detail/sched/park_word.hpp>
#include <weft/detail/sched/parking_loop.hpp>
#include <weft/detail/sched/sentinel.hpp>

#include "explorer.hpp"

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
struct branch;

struct worker {
    struct link {
        layer::var<worker*> next{nullptr};
        layer::var<worker*> previous{nullptr};
        layer::var<bool> listed{false};
    };
    weft::detail::park_word<layer> word;
    // The heap of this worker: one timer, the earliest.
    layer::atomic<std::int64_t> earliest{no_deadline};
    // Its owner has told of it: bookkeeping of the model.
    model::shared<std::int64_t> told{no_deadline};
    // Its next branch readies another one.
    bool brings_work = false;
    // It has collected timers: branches to run.
    bool fired = false;
    std::int64_t now = 0;
    world* all = nullptr;
    std::uint32_t number = 0;

    // For parking_loop.hpp.
    struct ready_list {};
    link parked;
    bool searching = false;
    std::uint32_t index() const { return number; }
    bool attend() const { return true; }
    branch* look();
    bool has_own_work() const { return false; }
    std::int64_t earliest_timer() const { return earliest.load(order::seq_cst); }
    void sleep(std::int64_t deadline, bool is_sentinel, ready_list&);
    void ready(ready_list&) const {}
    void back_from_sleep(bool was_sentinel);
    // Whoever sleeps looks at the word itself, in block_until().
    void wake() { static_cast<void>(word.wake()); }

    void idle_loop();
    bool collect(worker& from);
    void add_timer(std::int64_t when);
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
            workers[i].number = i;
        }
        model::name(*this, "world");
        model::name(workers[0], "worker 0");
        model::name(workers[1], "worker 1");
        model::name(workers[2], "worker 2");
        model::name(workers[3], "worker 3");
    }

    // For parking_loop.hpp.
    std::uint32_t worker_count() const { return processors; }
    worker& worker_at(std::uint32_t index) { return workers[index]; }
    bool anything_published() const { return work.load(order::seq_cst) != 0; }
    bool unwatched() const { return false; }
    void count_wake() const {}
    bool all_asleep() const { return false; }
    void report_all_asleep() const {}

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
        weft::detail::wake_searcher(*this);
    }
    // The running branch keeps its worker until all timers are served, or nobody is idle.
    void hog() {
        ++hogs;
        model::may_sleep_for_ever(false);
        model::block_until([this] { return timers_left == 0 || hogs == processors; }, "a hog");
        model::may_sleep_for_ever();
        --hogs;
    }
    // What the busy worker does when its branch has ended.
    void serve_own(worker& busy) {
        hog();
        busy.now = no_deadline - 1;
        busy.collect(busy);
    }
};

// As timer_heap::collect_due() and fire().
bool worker::collect(worker& from) {
    std::int64_t when = from.earliest.load(order::seq_cst);
    if (when > now) return false;
    if (!from.earliest.compare_exchange_strong(when, no_deadline, order::seq_cst, order::seq_cst)) {
        return false;
    }
    --all->timers_left;
    from.told = no_deadline;
    return true;
}

// As worker::timer_added() and worker_thread::tell_sentinel().
void worker::add_timer(std::int64_t when) {
    if (earliest.exchange(when, order::seq_cst) == no_deadline) ++all->timers_left;
    weft::detail::tell_sentinel(*this, *all);
    told = when;
}

// A branch is all that there is to run; which one does not matter.
branch* worker::look() {
    if (!searching) searching = all->idle.begin_search();
    const bool found = std::exchange(fired, false) || all->take_work();
    return found ? reinterpret_cast<branch*>(this) : nullptr;
}

void worker::idle_loop() {
    model::may_sleep_for_ever();
    for (;;) {
        weft::detail::find_work(*this, *all);
        if (std::exchange(brings_work, false)) all->add_work();
        all->hog();
    }
}

void worker::sleep(std::int64_t deadline, bool is_sentinel, ready_list&) {
    now = 0;
    if (!word.prepare(sleep_kind::in_futex)) return;
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

void worker::back_from_sleep(bool was_sentinel) {
    if (!was_sentinel) {
        fired = collect(*this);
        return;
    }
    for (std::uint32_t i = 0; i < all->processors; ++i) {
        fired = collect(all->workers[i]) || fired;
    }
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
    {"the role falls vacant", role_falls_vacant, {.stale_reads = 1, .reduce = true}},
    {"work and a timer", work_and_timer, {.stale_reads = 1, .reduce = true, .alike = 2}},
    {"woken for the role",
     woken_for_the_role_finds_work,
     {.stale_reads = 0, .reduce = true, .alike = 2},
     100'000},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "sentinel", scenarios);
}
