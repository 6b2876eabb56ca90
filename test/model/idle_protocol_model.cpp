// SPDX-License-Identifier: MIT

// Model of searching, parking and waking, together with the local queues and the wake words that it
// is made for. The workers' loop is that of lib/sched/worker_thread.cpp in small: one steal pass
// over all victims, no timers, no I/O.
//
// What is checked is promise 2 of the design: no runnable branch waits while a worker is idle. Some
// nodes are *hogs*: whoever runs one keeps its worker until all other nodes have been taken. A node
// that is stranded while somebody sleeps then shows as a deadlock.

#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/sched/idle_protocol.hpp>
#include <weft/detail/sched/local_queue.hpp>
#include <weft/detail/sched/park_word.hpp>

#include "explorer.hpp"

#include <utility>

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;
using weft::detail::sleep_kind;

namespace {

struct world;

enum class kind { quick, hog, spawns_two, spawns_three };

struct node {
    layer::var<node*> next;
    kind what = kind::quick;
    int taken = 0;
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

struct worker {
    struct link {
        layer::var<worker*> next{nullptr};
        layer::var<worker*> previous{nullptr};
        layer::var<bool> listed{false};
    };
    link parked;
    queue own{255};
    weft::detail::park_word<layer> word;
    bool searching = false;

    world* all = nullptr;
    int index = 0;

    void run();
    node* next();
    node* find_work();
    node* find_published();
    node* take_global(int limit);
    bool anything_published();
    void search_succeeded();
    void sleep();
    void execute(node* running);
    void spawn(int count);
    auto overflow();
};

struct world {
    static constexpr int max_nodes = 6;
    int processors;
    weft::detail::idle_protocol<layer, worker> idle;
    global_queue global;
    worker workers[3];
    node nodes[max_nodes];
    // Nodes that exist; spawns take them from here. Plain: a model's bookkeeping.
    int used = 0;
    int taken = 0;
    int hogs = 0;

    explicit world(int count) : processors(count), idle(static_cast<std::uint32_t>(count)) {
        for (int i = 0; i < 3; ++i) {
            workers[i].all = this;
            workers[i].index = i;
        }
        model::name(*this, "world");
        model::name(workers[0], "worker 0");
        model::name(workers[1], "worker 1");
        model::name(workers[2], "worker 2");
    }
    node* fresh(kind what) {
        model::check(used < max_nodes, "the model has too few nodes");
        if (what == kind::hog) ++hogs;
        nodes[used].what = what;
        return &nodes[used++];
    }
    void inject(node* first, node* last, int count) {
        last->next = nullptr;
        global.push_batch(first, last, count);
        wake_if_needed();
    }
    void wake_if_needed() {
        if (!idle.wake_wanted()) return;
        if (worker* chosen = idle.wake_one(nullptr)) {
            if (chosen->word.wake() == sleep_kind::in_futex) {
                layer::futex_wake(chosen->word.word(), 1);
            }
        }
    }
    void check_end() const {
        model::check(taken == used, "a node is lost");
        model::check(idle.searching_hint() == 0, "the searching count is wrong");
        model::check(idle.parked_hint() == static_cast<std::uint32_t>(processors),
                     "the parked count is wrong");
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
    return find_work();
}

node* worker::find_work() {
    for (;;) {
        if (node* taken = find_published()) {
            if (searching) search_succeeded();
            return taken;
        }
        all->idle.park(*this, std::exchange(searching, false));
        if (anything_published()) {
            all->idle.unpark(*this, true);
            searching = true;
            continue;
        }
        sleep();
    }
}

node* worker::find_published() {
    if (all->global.size() != 0) {
        if (node* taken = take_global(2)) return taken;
    }
    if (own.size() != 0) {
        if (node* taken = own.pop_next()) return taken;
        if (node* taken = own.pop()) return taken;
    }
    if (!searching) searching = all->idle.begin_search();
    if (!searching) return nullptr;
    for (int i = 1; i < all->processors; ++i) {
        queue& victim = all->workers[(index + i) % all->processors].own;
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

bool worker::anything_published() {
    if (all->global.size() != 0) return true;
    for (int i = 0; i < all->processors; ++i) {
        if (!all->workers[i].own.empty()) return true;
    }
    return false;
}

void worker::search_succeeded() {
    searching = false;
    if (!all->idle.end_search()) return;
    if (own.size() != 0 || anything_published()) all->wake_if_needed();
}

void worker::sleep() {
    if (word.prepare(sleep_kind::in_futex)) {
        layer::futex_wait(word.word(), static_cast<std::uint32_t>(sleep_kind::in_futex));
        word.finish();
    }
    all->idle.unpark(*this, true);
    searching = true;
}

void worker::execute(node* running) {
    model::check(++running->taken == 1, "a node is taken twice");
    ++all->taken;
    if (running->what == kind::spawns_two) spawn(2);
    if (running->what == kind::spawns_three) spawn(3);
    if (running->what != kind::quick) {
        model::may_sleep_for_ever(false);
        model::block_until([this] { return all->taken == all->used; }, "a hog");
        model::may_sleep_for_ever();
    }
}

// As worker_thread::ready_next().
void worker::spawn(int count) {
    for (int i = 0; i < count; ++i) {
        own.push_next(all->fresh(kind::quick), overflow());
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

// Two workers and a thread outside that injects a hog and something else.
void inject_against_park() {
    world all(2);
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"outside", [&] {
                                               node* hog = all.fresh(kind::hog);
                                               node* other = all.fresh(kind::quick);
                                               hog->next = other;
                                               all.inject(hog, other, 2);
                                           }});
    all.check_end();
}

// One at a time.
void inject_twice() {
    world all(2);
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"outside", [&] {
                                               node* hog = all.fresh(kind::hog);
                                               all.inject(hog, hog, 1);
                                               node* other = all.fresh(kind::quick);
                                               all.inject(other, other, 1);
                                           }});
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

const model::scenario scenarios[] = {
    {"spawn against park", spawn_against_park, {.stale_reads = 2}},
    {"ring against park", ring_against_park},
    {"inject a batch against park", inject_against_park, {.stale_reads = 1}},
    {"inject twice against park", inject_twice, {.stale_reads = 1}},
    {"chain", chain, {.stale_reads = 0}},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "idle_protocol", scenarios);
}
