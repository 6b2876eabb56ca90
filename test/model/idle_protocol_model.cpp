// SPDX-License-Identifier: MIT

// Model of searching, parking and waking, together with the local queues and the wake words that it
// is made for. The loop is weft's own (parking_loop.hpp); what a worker looks at is that of
// lib/sched/worker_thread.cpp in small: one steal pass over all victims, no timers, no I/O.
//
// What is checked is promise 2 of the design: no runnable branch waits while a worker is idle. Some
// nodes are *hogs*: whoever runs one keeps its worker until all other nodes have been taken. A node
// that is stranded while somebody sleeps then shows as a deadlock.
//
// And the decision that all tasks are asleep (all_asleep.hpp): it is never made while a node is
// left or a guard is held, and always when neither is.

#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/sched/all_asleep.hpp>
#include <weft/detail/sched/idle_protocol.hpp>
#include <weft/detail/sched/local_queue.hpp>
#include <weft/detail/sched/park_word.hpp>
#include <weft/detail/sched/parking_loop.hpp>

#include "explorer.hpp"

#include <utility>

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;
using weft::detail::sleep_kind;

namespace {

struct world;

enum class kind { quick, hog, spawns_two, spawns_three, yields, makes_guard };

struct node {
    layer::var<node*> next;
    layer::var<kind> what{kind::quick};
    layer::var<int> taken{0};
};

using queue = weft::detail::local_queue<layer, node, 2, std::uint8_t>;

// As lib/sched/global_queue.hpp.
class global_queue {
public:
    void push_batch(node* first, node* last, int count) {
        lock_.lock();
        node* previous = last_;
        (previous != nullptr ? previous->next : first_) = first;
        last_ = last;
        count_ = count_ + count;
        size_.store(count_, order::seq_cst);
        lock_.unlock();
    }
    // A share as Go's; returns the number of nodes from `taken` on.
    int pop_share(int processors, int limit, node*& taken) {
        lock_.lock();
        int count = count_ / processors + 1;
        if (count > limit) count = limit;
        if (count > count_) count = count_;
        taken = first_;
        for (int i = 0; i < count; ++i) first_ = first_->next;
        if (first_ == nullptr) last_ = nullptr;
        count_ = count_ - count;
        size_.store(count_, order::seq_cst);
        lock_.unlock();
        return count;
    }
    int size() const { return size_.load(order::seq_cst); }

private:
    weft::detail::spin_lock<layer> lock_;
    layer::var<node*> first_{nullptr};
    layer::var<node*> last_{nullptr};
    layer::var<int> count_{0};
    layer::atomic<int> size_{0};
};

// Nobody watches timers here: the role cannot be taken, and is not wanted.
struct no_sentinel {
    static constexpr std::uint32_t none = 0xffffffffU;
    bool take(std::uint32_t) const { return false; }
    void leave() const {}
    void watch_until(weft::detail::monotonic_time) const {}
    bool vacant() const { return false; }
    std::uint32_t holder_hint() const { return none; }
};

struct worker {
    struct link {
        layer::var<worker*> next{nullptr};
        layer::var<worker*> previous{nullptr};
        layer::var<bool> listed{false};
    };
    queue own{255};
    weft::detail::park_word<layer> word;
    world* all = nullptr;
    std::uint32_t number = 0;

    // For parking_loop.hpp.
    struct ready_list {};
    link parked;
    bool searching = false;
    std::uint32_t index() const { return number; }
    bool attend() const { return true; }
    node* look();
    bool has_own_work() const { return own.size() != 0; }
    weft::detail::monotonic_time earliest_timer() const { return weft::detail::no_deadline; }
    void sleep(weft::detail::monotonic_time, bool, ready_list&);
    void ready(ready_list&) const {}
    void back_from_sleep(bool) const {}
    void wake();

    void run();
    node* next();
    node* take_global(int limit);
    void execute(node* running);
    void spawn(int count, kind what);
    auto overflow();
};

struct world {
    static constexpr int max_nodes = 6;
    int processors;
    weft::detail::idle_protocol<layer, worker> idle;
    no_sentinel sentinel;
    global_queue global;
    worker workers[3];
    node nodes[max_nodes];
    // Nodes that exist; spawns take them from here. A model's bookkeeping, as is their end.
    model::shared<int> used{0};
    model::shared<int> taken{0};
    // Whoever is outside holds one of them until it has done its last act.
    weft::detail::guard_word<layer> guards;
    bool watches = false;
    model::shared<bool> reported{false};

    explicit world(int count) : processors(count), idle(static_cast<std::uint32_t>(count)) {
        for (std::uint32_t i = 0; i < 3; ++i) {
            workers[i].all = this;
            workers[i].number = i;
        }
        model::name(*this, "world");
        model::name(workers[0], "worker 0");
        model::name(workers[1], "worker 1");
        model::name(workers[2], "worker 2");
    }

    // For parking_loop.hpp.
    std::uint32_t worker_count() const { return static_cast<std::uint32_t>(processors); }
    worker& worker_at(std::uint32_t index) { return workers[index]; }
    bool anything_published() const {
        if (global.size() != 0) return true;
        for (int i = 0; i < processors; ++i) {
            if (!workers[i].own.empty()) return true;
        }
        return false;
    }
    bool unwatched() const { return false; }
    void count_wake() const {}
    bool all_asleep() { return weft::detail::all_asleep(*this) && !reported; }
    void report_all_asleep() {
        model::check(taken == used, "a deadlock is reported while a node is left");
        model::check(acts_left == 0, "a deadlock is reported while somebody outside may act");
        reported = true;
    }
    // For all_asleep.hpp.
    bool watches_for_sleep() const { return watches; }
    bool sleeps_for_good() const { return true; }
    model::shared<int> acts_left{0};
    model::shared<bool> guard_handed_on{false};

    // Outside: does something under a guard, and gives the guard back.
    template <class Act>
    void act_under_guard(Act act) {
        act();
        --acts_left;
        if (guards.remove()) weft::detail::reconsider(*this);
    }
    // Before the threads run.
    void expect_acts(int count) {
        watches = true;
        for (int i = 0; i < count; ++i) guards.add();
        acts_left = count;
    }

    node* fresh(kind what) {
        model::check(used < max_nodes, "the model has too few nodes");
        const int mine = used;
        ++used;
        nodes[mine].what = what;
        return &nodes[mine];
    }
    void inject(node* first, node* last, int count) {
        last->next = nullptr;
        global.push_batch(first, last, count);
        wake_if_needed();
    }
    void wake_if_needed() { weft::detail::wake_searcher(*this); }
    void check_end() const {
        model::check(taken == used, "a node is lost");
        model::check(idle.searching_hint() == 0, "the searching count is wrong");
        model::check(idle.parked_hint() == static_cast<std::uint32_t>(processors),
                     "the parked count is wrong");
        model::check(reported == watches, "nobody has noticed that all are asleep");
    }
};

auto worker::overflow() {
    return [this](node* first, node* last, std::size_t count) {
        all->global.push_batch(first, last, static_cast<int>(count));
    };
}

void worker::run() {
    // Sleeping for ever is right when all work is done; a hog does not sleep, it works.
    model::may_sleep_for_ever();
    for (;;) execute(next());
}

node* worker::next() {
    if (node* taken = own.pop_next()) return taken;
    if (node* taken = own.pop()) {
        if (all->idle.parked_hint() != 0 && own.ring_size() >= 2) all->wake_if_needed();
        return taken;
    }
    return weft::detail::find_work(*this, *all);
}

node* worker::look() {
    if (all->global.size() != 0) {
        if (node* taken = take_global(2)) return taken;
    }
    if (own.size() != 0) {
        if (node* taken = own.pop_next()) return taken;
        if (node* taken = own.pop()) return taken;
    }
    if (!searching) searching = all->idle.begin_search();
    if (!searching) return nullptr;
    const std::uint32_t count = all->worker_count();
    for (std::uint32_t i = 1; i < count; ++i) {
        queue& victim = all->workers[(number + i) % count].own;
        if (node* taken = victim.steal_into(own, false)) return taken;
        if (node* taken = victim.steal_next(victim.peek_next())) return taken;
    }
    return nullptr;
}

node* worker::take_global(int limit) {
    node* first = nullptr;
    const int count = all->global.pop_share(all->processors, limit, first);
    if (count == 0) return nullptr;
    node* more = first->next;
    for (int i = 1; i < count; ++i) {
        node* following = more->next;
        own.push_back(more, overflow());
        more = following;
    }
    // They were out of sight for a moment, in which a parking worker may have missed them; a
    // searcher makes up for that when it has stopped searching.
    if (count > 1 && !searching) {
        own.publish_barrier();
        all->wake_if_needed();
    }
    return first;
}

void worker::sleep(weft::detail::monotonic_time, bool, ready_list&) {
    if (word.prepare(sleep_kind::in_futex)) {
        layer::futex_wait(word.word(), static_cast<std::uint32_t>(sleep_kind::in_futex));
        word.finish();
    }
}

void worker::wake() {
    if (word.wake() == sleep_kind::in_futex) layer::futex_wake(word.word(), 1);
}

void worker::execute(node* running) {
    running->taken = running->taken + 1;
    if (running->what == kind::yields) {
        // It readies another one, and goes behind it as worker_thread::ready_back() does: alone in
        // the ring, without publication.
        running->what = kind::quick;
        running->taken = 0;
        spawn(1, kind::hog);
        own.push_back(running, overflow());
        return;
    }
    model::check(running->taken == 1, "a node is taken twice");
    ++all->taken;
    if (running->what == kind::makes_guard) {
        all->guards.add();
        ++all->acts_left;
        all->guard_handed_on = true;
        return;
    }
    if (running->what == kind::spawns_two) spawn(2, kind::quick);
    if (running->what == kind::spawns_three) spawn(3, kind::quick);
    if (running->what != kind::quick) {
        model::may_sleep_for_ever(false);
        model::block_until([this] { return all->taken == all->used; }, "a hog");
        model::may_sleep_for_ever();
    }
}

// As worker_thread::ready_next().
void worker::spawn(int count, kind what) {
    for (int i = 0; i < count; ++i) {
        own.push_next(all->fresh(what), overflow());
        all->wake_if_needed();
    }
}

// A branch that keeps its worker spawns two; the other worker parks, searches or is on its way.
void spawn_against_park() {
    world all(2);
    worker& first = all.workers[0];
    first.own.push_next(all.fresh(kind::spawns_two), first.overflow());
    model::run_threads(model::named_thread{"worker 0", [&] { first.run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }});
    all.check_end();
}

// What lies behind a hog in the ring.
void ring_against_park() {
    world all(2);
    worker& first = all.workers[0];
    first.own.push_back(all.fresh(kind::hog), first.overflow());
    model::run_threads(model::named_thread{"worker 0",
                                           [&] {
                                               node* hog = first.own.pop();
                                               if (hog != nullptr) {
                                                   first.own.push_back(all.fresh(kind::quick),
                                                                       first.overflow());
                                                   first.own.publish_barrier();
                                                   all.wake_if_needed();
                                                   first.execute(hog);
                                               }
                                               first.run();
                                           }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }});
    all.check_end();
}

// A branch readies a hog and yields: it lies in the ring, unpublished, while the hog runs.
void yield_behind_runnext() {
    world all(2);
    worker& first = all.workers[0];
    first.own.push_next(all.fresh(kind::yields), first.overflow());
    model::run_threads(model::named_thread{"worker 0", [&] { first.run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }});
    all.check_end();
}

// Two workers and a thread outside that injects a hog and something else.
void inject_against_park() {
    world all(2);
    model::run_threads(model::named_thread{"outside",
                                           [&] {
                                               node* hog = all.fresh(kind::hog);
                                               node* other = all.fresh(kind::quick);
                                               hog->next = other;
                                               all.inject(hog, other, 2);
                                           }},
                       model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }});
    all.check_end();
}

// One at a time.
void inject_twice() {
    world all(2);
    model::run_threads(model::named_thread{"outside",
                                           [&] {
                                               node* hog = all.fresh(kind::hog);
                                               all.inject(hog, hog, 1);
                                               node* other = all.fresh(kind::quick);
                                               all.inject(other, other, 1);
                                           }},
                       model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }});
    all.check_end();
}

// Three workers, two hogs, one node more: the wake-ups are a chain.
void chain() {
    world all(3);
    worker& first = all.workers[0];
    first.own.push_next(all.fresh(kind::spawns_two), first.overflow());
    node* hog = all.fresh(kind::hog);
    first.own.push_back(hog, first.overflow());
    model::run_threads(model::named_thread{"worker 0", [&] { first.run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"worker 2", [&] { all.workers[2].run(); }});
    all.check_end();
}

// A thread outside readies a branch under a guard, while the workers park.
void guard_against_park() {
    world all(2);
    all.expect_acts(1);
    model::run_threads(model::named_thread{"outside",
                                           [&] {
                                               all.act_under_guard([&] {
                                                   node* late = all.fresh(kind::quick);
                                                   all.inject(late, late, 1);
                                               });
                                           }},
                       model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }});
    all.check_end();
}

// A branch makes a guard for a thread outside, which uses it when the branch has ended; beside the
// last look of the other worker, which may have seen no guard before.
void guard_made_meanwhile() {
    world all(2);
    all.expect_acts(1);
    const auto ready_one = [&](kind what) {
        all.act_under_guard([&all, what] {
            node* late = all.fresh(what);
            all.inject(late, late, 1);
        });
    };
    model::run_threads(
        model::named_thread{"outside",
                            [&] {
                                ready_one(kind::makes_guard);
                                model::block_until([&] { return all.guard_handed_on == true; },
                                                   "a guard");
                                ready_one(kind::quick);
                            }},
        model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
        model::named_thread{"worker 1", [&] { all.workers[1].run(); }});
    all.check_end();
}

// Nothing comes of the guard, and of two only the last one counts.
void guards_without_effect() {
    world all(1);
    all.expect_acts(2);
    const auto outside = [&] { all.act_under_guard([] {}); };
    model::run_threads(model::named_thread{"outside 0", outside},
                       model::named_thread{"outside 1", outside},
                       model::named_thread{"worker 0", [&] { all.workers[0].run(); }});
    all.check_end();
}

// Nobody is outside: the last worker to park decides, after what the branches have spawned.
void spawn_then_asleep() {
    world all(2);
    all.expect_acts(0);
    worker& first = all.workers[0];
    first.own.push_next(all.fresh(kind::spawns_two), first.overflow());
    model::run_threads(model::named_thread{"worker 0", [&] { first.run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }});
    all.check_end();
}

const model::scenario scenarios[] = {
    {"spawn against park", spawn_against_park, {.stale_reads = 2, .reduce = true}},
    {"ring against park", ring_against_park, {.reduce = true}},
    {"yield behind runnext", yield_behind_runnext, {.stale_reads = 2, .reduce = true}},
    {"inject a batch against park",
     inject_against_park,
     {.stale_reads = 1, .reduce = true, .alike = 2}},
    {"inject twice against park", inject_twice, {.stale_reads = 1, .reduce = true, .alike = 2}},
    {"chain", chain, {.stale_reads = 0, .reduce = true}},
    {"guard against park", guard_against_park, {.stale_reads = 1, .reduce = true, .alike = 2}},
    {"guards without effect", guards_without_effect, {.stale_reads = 2, .reduce = true}},
    {"spawn, then all asleep", spawn_then_asleep, {.stale_reads = 1, .reduce = true}},
    {"guard made meanwhile",
     guard_made_meanwhile,
     {.preemptions = 3, .stale_reads = 0, .reduce = true, .alike = 2}},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "idle_protocol", scenarios);
}
