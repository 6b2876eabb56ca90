// SPDX-License-Identifier: MIT

// Model of a worker that gives its processor up and gets it back, among others that steal from it,
// publish, park, and watch timers. The steps are weft's own (retirement.hpp, parking_loop.hpp);
// what a worker looks at is that of lib/sched/worker_thread.cpp in small: one steal pass over all
// victims, one timer for each heap, no I/O.
//
// What is checked: no node and no timer is lost, each is taken once, and none waits while a worker
// that has a processor is idle. A *hog* keeps its worker until all other nodes and all timers have
// been taken, so what waits for nobody shows as a deadlock. A worker that was asked runs at most
// what it has begun, and one that was recalled comes back, and counts before it runs anything. When
// nothing is left that could run, and somebody wants to know, one of them says so.
//
// The same for workers that run in the place of others: the watchdog, which starts one and lets it
// go again as watchdog::compensate() and look_at() do, beside whoever changes the number of
// processors and beside the end of the runtime. Who runs is counted and changed by weft's own steps
// (running_workers.hpp). In the end as many run as there are processors, and the first ones do.

#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/sched/all_asleep.hpp>
#include <weft/detail/sched/idle_protocol.hpp>
#include <weft/detail/sched/local_queue.hpp>
#include <weft/detail/sched/park_word.hpp>
#include <weft/detail/sched/retirement.hpp>
#include <weft/detail/sched/running_workers.hpp>
#include <weft/detail/sched/sentinel.hpp>

#include "explorer.hpp"

#include <mutex>
#include <utility>

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;
using weft::detail::sleep_kind;
using weft::detail::worker_state;
using role = weft::detail::sentinel_role<layer>;
using guard = std::lock_guard<weft::detail::spin_lock<layer>>;

namespace {

constexpr std::int64_t no_deadline = role::for_ever;
constexpr auto asleep = static_cast<std::uint32_t>(sleep_kind::in_futex);

// Bits of the attention word.
constexpr std::uint32_t asked_bit = 1;
constexpr std::uint32_t stopping_bit = 2;

struct world;

// A *long* one keeps its worker for as long as it likes, and makes another one ready before. One
// that *looks* asks whether all are parked, as the watchdog may at that moment.
enum class kind { quick, hog, spawns_two, long_run, looks };

struct node {
    layer::var<node*> next;
    layer::var<kind> what{kind::quick};
    layer::var<int> taken{0};
};

using queue = weft::detail::local_queue<layer, node, 2, std::uint8_t>;

// As lib/sched/global_queue.hpp.
class global_queue {
public:
    void push_back(node* first, node* last, int count) {
        const guard held(lock_);
        node* previous = last_;
        (previous != nullptr ? previous->next : first_) = first;
        last_ = last;
        add(count);
    }
    void push_front(node* first, node* last, int count) {
        const guard held(lock_);
        last->next = static_cast<node*>(first_);
        if (static_cast<node*>(first_) == nullptr) last_ = last;
        first_ = first;
        add(count);
    }
    node* pop() {
        const guard held(lock_);
        node* taken = first_;
        if (taken == nullptr) return nullptr;
        first_ = static_cast<node*>(taken->next);
        if (static_cast<node*>(first_) == nullptr) last_ = nullptr;
        add(-1);
        return taken;
    }
    int size() const { return size_.load(order::seq_cst); }

private:
    void add(int count) {
        count_ = count_ + count;
        size_.store(count_, order::seq_cst);
    }

    weft::detail::spin_lock<layer> lock_;
    layer::var<node*> first_{nullptr};
    layer::var<node*> last_{nullptr};
    layer::var<int> count_{0};
    layer::atomic<int> size_{0};
};

// As timer_heap, for one timer.
struct heap {
    weft::detail::spin_lock<layer> lock;
    layer::atomic<std::int64_t> earliest{no_deadline};

    void add(std::int64_t when) {
        const guard held(lock);
        earliest.store(when, order::seq_cst);
    }
    bool collect() {
        if (earliest.load(order::relaxed) == no_deadline) return false;
        const guard held(lock);
        const bool found = earliest.load(order::relaxed) != no_deadline;
        earliest.store(no_deadline, order::seq_cst);
        return found;
    }
    void move_to(heap& other) {
        const guard held(lock);
        const std::int64_t when = earliest.load(order::relaxed);
        if (when == no_deadline) return;
        const guard other_held(other.lock);
        other.earliest.store(when, order::seq_cst);
        earliest.store(no_deadline, order::seq_cst);
    }
};

// The role, which the scenarios without timers do not fill, to be small.
struct optional_role : role {
    bool offered = false;
    bool take(std::uint32_t index) { return offered && role::take(index); }
    bool vacant() const { return offered && role::vacant(); }
    std::uint32_t to_be_woken(std::int64_t earliest) const {
        return offered ? role::to_be_woken(earliest) : role::none;
    }
    std::uint32_t holder_hint() const { return offered ? role::holder_hint() : role::none; }
};

struct worker {
    struct link {
        layer::var<worker*> next{nullptr};
        layer::var<worker*> previous{nullptr};
        layer::var<bool> listed{false};
    };
    queue own{255};
    heap timers;
    weft::detail::park_word<layer> word;
    layer::atomic<std::uint32_t> attention{0};
    bool fired = false;
    world* all = nullptr;
    std::uint32_t number = 0;

    // For parking_loop.hpp.
    struct ready_list {};
    link parked;
    bool searching = false;
    std::uint32_t index() const { return number; }
    bool attend();
    node* look();
    bool has_own_work() const { return own.size() != 0; }
    std::int64_t earliest_timer() const { return timers.earliest.load(order::seq_cst); }
    void sleep(std::int64_t deadline, bool is_sentinel, ready_list&);
    void ready(ready_list&) const {}
    void back_from_sleep(bool was_sentinel);
    // Whoever sleeps looks at the word itself, in block_until().
    void wake() { static_cast<void>(word.wake()); }

    // For retirement.hpp.
    weft::detail::state_word<layer> state;
    void give_work_up();
    void give_timers_up();
    bool may_return() {
        return state.recalled() || (attention.load(order::relaxed) & stopping_bit) != 0;
    }
    bool may_settle() const { return earliest_timer() == no_deadline; }
    void sleep_retired();

    // For running_workers.hpp.
    void tell_of_request() { attention.fetch_or(asked_bit, order::release); }

    void run();
    node* next();
    void execute(node* running);
    void collect(worker& from);
};

struct world {
    static constexpr int max_nodes = 6;
    std::uint32_t processors;
    weft::detail::idle_protocol<layer, worker> idle;
    optional_role sentinel;
    global_queue global;
    worker workers[3];
    node nodes[max_nodes];
    node timer_node;
    model::shared<int> used{0};
    model::shared<int> taken{0};
    model::shared<int> timers_left{0};
    // As in runtime_core: the lock of the controllers and what it guards, and the phase.
    weft::detail::spin_lock<layer> control;
    weft::detail::wanted_workers<layer> wanted;
    layer::atomic<bool> ending{false};
    bool ends = false;     // The scenario ends its workers.
    bool watches = false;  // The scenario asks whether all are asleep.
    model::shared<bool> reported{false};
    // The runs that a watchdog sees: begun, and over.
    model::shared<int> long_begun{0};
    model::shared<int> long_over{0};

    explicit world(std::uint32_t count) : processors(count), idle(count) {
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
    std::uint32_t worker_count() const { return processors; }
    worker& worker_at(std::uint32_t index) { return workers[index]; }
    bool anything_published() const {
        if (global.size() != 0) return true;
        for (std::uint32_t i = 0; i < processors; ++i) {
            if (!workers[i].own.empty()) return true;
        }
        return false;
    }
    bool unwatched() const { return false; }
    void count_wake() const {}
    bool all_asleep() { return watches && weft::detail::all_asleep(*this) && !reported; }
    void report_all_asleep() {
        model::check(taken == used, "all are said to be asleep while a node is left");
        reported = true;
    }
    void reconsider_sleep() { weft::detail::reconsider(*this); }

    // For all_asleep.hpp: nobody outside holds a guard, no task waits for anything outside.
    struct {
        bool any() const { return false; }
    } guards;
    bool watches_for_sleep() const { return watches; }
    bool sleeps_for_good() const { return true; }

    node* fresh(kind what) {
        model::check(used < max_nodes, "the model has too few nodes");
        const int mine = used;
        ++used;
        nodes[mine].what = what;
        return &nodes[mine];
    }
    void inject(node* added) {
        added->next = nullptr;
        global.push_back(added, added, 1);
        weft::detail::wake_searcher(*this);
    }
    void ask(worker& asked) { weft::detail::ask_worker(asked); }
    void recall(worker& recalled) { weft::detail::recall_worker(recalled, *this); }
    void add_timer(worker& on, std::int64_t when) {
        ++timers_left;
        on.timers.add(when);
        weft::detail::tell_sentinel(on, *this);
    }
    void hog() {
        model::may_sleep_for_ever(false);
        model::block_until([this] { return taken == used && timers_left == 0; }, "a hog");
        model::may_sleep_for_ever();
    }
    // As runtime_core::set_processors(), for workers that have been made.
    void set_processors(std::uint32_t count) {
        const guard held(control);
        wanted.set_processors(count);
        weft::detail::adjust_running(*this, wanted.all());
    }
    // As runtime_core::start_compensating_worker(), in the same way.
    bool start_compensating_worker() {
        const guard held(control);
        if (ending.load(order::seq_cst) || !wanted.may_compensate()) return false;
        wanted.compensate();
        weft::detail::adjust_running(*this, wanted.all());
        return true;
    }
    void retire_compensating_worker() {
        const guard held(control);
        wanted.end_compensation();
        weft::detail::adjust_running(*this, wanted.all());
    }
    // Begins with so many processors; the other workers have run before and are on their way out.
    void begin_with(std::uint32_t count) {
        wanted.set_processors(count);
        weft::detail::adjust_running(*this, count);
    }
    // The watchdog: sees that the first worker is kept by one run, and later that it is over.
    void compensate() {
        model::block_until([this] { return long_begun != 0; }, "nobody is kept");
        const bool started = start_compensating_worker();
        model::block_until([this] { return long_over != 0; }, "a worker is kept");
        if (started) retire_compensating_worker();
    }
    // As runtime_core::begin_stop().
    void stop() {
        ending.store(true, order::seq_cst);
        for (std::uint32_t i = 0; i < processors; ++i) {
            workers[i].attention.fetch_or(stopping_bit, order::release);
            workers[i].wake();
        }
    }
    void check_running() const {
        model::check(wanted.compensating() == 0, "a worker runs in the place of nobody");
        for (std::uint32_t i = 0; i < processors; ++i) {
            const bool runs = workers[i].state.running();
            model::check(runs == (i < wanted.processors()), "the wrong workers run");
        }
        check_end(wanted.processors());
    }
    void check_end(std::uint32_t running) const {
        model::check(taken == used, "a node is lost");
        model::check(timers_left == 0, "a timer is lost");
        model::check(idle.searching_hint() == 0, "the searching count is wrong");
        model::check(idle.parked_hint() == running, "the parked count is wrong");
        model::check(idle.all_parked(), "the count of processors is wrong");
    }
};

auto overflow_of(worker& from) {
    return [&from](node* first, node* last, std::size_t count) {
        from.all->global.push_back(first, last, static_cast<int>(count));
    };
}

void worker::run() {
    // Sleeping for ever is right when all work is done, unless the end of the runtime wakes all; a
    // hog does not sleep, it works.
    model::may_sleep_for_ever(!all->ends);
    while (node* found = next()) execute(found);
}

bool worker::attend() {
    while (attention.load(order::relaxed) != 0) {
        const std::uint32_t seen = attention.exchange(0, order::acquire);
        if ((seen & stopping_bit) != 0) {
            attention.fetch_or(stopping_bit, order::release);
            return false;
        }
        weft::detail::retire_if_asked(*this, *all);
    }
    return true;
}

node* worker::next() {
    if (!attend()) return nullptr;
    if (node* taken = own.pop_next()) return taken;
    if (node* taken = own.pop()) {
        if (all->idle.parked_hint() != 0 && own.ring_size() >= 2) {
            weft::detail::wake_searcher(*all);
        }
        return taken;
    }
    return weft::detail::find_work(*this, *all);
}

node* worker::look() {
    if (std::exchange(fired, false)) return &all->timer_node;
    if (all->global.size() != 0) {
        if (node* taken = all->global.pop()) return taken;
    }
    if (own.size() != 0) {
        if (node* taken = own.pop_next()) return taken;
        if (node* taken = own.pop()) return taken;
    }
    if (!searching) searching = all->idle.begin_search();
    if (!searching) return nullptr;
    for (std::uint32_t i = 1; i < all->processors; ++i) {
        worker& victim = all->workers[(number + i) % all->processors];
        if (victim.state.state() == worker_state::retired) continue;
        if (node* taken = victim.own.steal_into(own, false)) return taken;
        if (node* taken = victim.own.steal_next(victim.own.peek_next())) return taken;
    }
    return nullptr;
}

void worker::sleep(std::int64_t deadline, bool, ready_list&) {
    if (!word.prepare(sleep_kind::in_futex)) return;
    // It may wake up by its deadline at any moment.
    model::may_sleep_for_ever(deadline == no_deadline && !all->ends);
    model::block_until([&] { return deadline != no_deadline || word.word().peek() != asleep; },
                       "sleep");
    model::may_sleep_for_ever(!all->ends);
    word.finish();
}

void worker::collect(worker& from) {
    if (!from.timers.collect()) return;
    --all->timers_left;
    fired = true;
}

void worker::back_from_sleep(bool was_sentinel) {
    if (!was_sentinel) {
        collect(*this);
        return;
    }
    for (std::uint32_t i = 0; i < all->processors; ++i) collect(all->workers[i]);
}

// As worker_thread::give_work_up().
void worker::give_work_up() {
    node* first = nullptr;
    node* last = nullptr;
    int count = 0;
    const auto add = [&](node* moved) {
        moved->next = nullptr;
        if (last != nullptr) {
            last->next = moved;
        } else {
            first = moved;
        }
        last = moved;
        ++count;
    };
    if (node* taken = own.pop_next()) add(taken);
    while (node* taken = own.pop()) add(taken);
    if (count != 0) all->global.push_front(first, last, count);
}

void worker::give_timers_up() {
    timers.move_to(all->workers[0].timers);
    // What it has collected already is a branch that it would run next.
    if (std::exchange(fired, false)) {
        node* readied = all->fresh(kind::quick);
        readied->next = nullptr;
        all->global.push_front(readied, readied, 1);
        weft::detail::wake_searcher(*all);
    }
}

void worker::sleep_retired() {
    model::check(own.size() == 0, "a retired worker has work");
    if (!word.prepare(sleep_kind::in_futex)) return;
    model::block_until([&] { return word.word().peek() != asleep; }, "without a processor");
    word.finish();
}

void worker::execute(node* running) {
    const worker_state now = state.state();
    model::check(now == worker_state::running || now == worker_state::asked,
                 "a worker without a processor runs something");
    if (running == &all->timer_node) return;
    running->taken = running->taken + 1;
    model::check(running->taken == 1, "a node is taken twice");
    if (running->what == kind::looks) {
        model::check(!all->idle.all_parked(), "all are parked although a worker runs something");
    }
    ++all->taken;
    if (running->what == kind::spawns_two) {
        for (int i = 0; i < 2; ++i) {
            own.push_next(all->fresh(kind::quick), overflow_of(*this));
            weft::detail::wake_searcher(*all);
        }
    }
    if (running->what == kind::hog) all->hog();
    if (running->what == kind::long_run) {
        own.push_next(all->fresh(kind::quick), overflow_of(*this));
        weft::detail::wake_searcher(*all);
        ++all->long_begun;
        if (!all->ends && model::choose(2) != 0) all->hog();
        ++all->long_over;
    }
}

// ---- scenarios

// A worker with three nodes is asked; the other one parks, searches or steals from it.
void queue_against_park() {
    world all(2);
    worker& leaver = all.workers[1];
    for (int i = 0; i < 3; ++i) leaver.own.push_next(all.fresh(kind::quick), overflow_of(leaver));
    all.ask(leaver);
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { leaver.run(); }});
    all.check_end(1);
}

// It is asked while it runs something that spawns.
void asked_while_it_runs() {
    world all(2);
    worker& leaver = all.workers[1];
    leaver.own.push_next(all.fresh(kind::spawns_two), overflow_of(leaver));
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { leaver.run(); }},
                       model::named_thread{"controller", [&] { all.ask(leaver); }});
    all.check_end(1);
}

// A publisher may choose the worker that is asked, and find it searching.
void publish_against_retirement() {
    world all(2);
    model::run_threads(
        model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
        model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
        model::named_thread{"controller", [&] { all.ask(all.workers[1]); }},
        model::named_thread{"outside", [&] { all.inject(all.fresh(kind::quick)); }});
    all.check_end(1);
}

// Asked and recalled; then there is more than one worker can do.
void recall() {
    world all(2);
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"controller", [&] {
                                               all.ask(all.workers[1]);
                                               all.recall(all.workers[1]);
                                               all.inject(all.fresh(kind::hog));
                                               all.inject(all.fresh(kind::quick));
                                           }});
    all.check_end(2);
}

// Recalled, and asked again.
void asked_again() {
    world all(2);
    all.workers[1].own.push_next(all.fresh(kind::quick), overflow_of(all.workers[1]));
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"controller", [&] {
                                               all.ask(all.workers[1]);
                                               all.recall(all.workers[1]);
                                               all.ask(all.workers[1]);
                                           }});
    all.check_end(1);
}

// A worker that has settled is recalled, and runs something that looks whether all are parked. It
// may notice before it is woken, and find what a publisher has not told of yet.
void counted_before_it_runs() {
    world all(2);
    worker& away = all.workers[1];
    away.state.ask();
    model::check(away.state.begin() && away.state.settle(), "a worker does not settle");
    all.idle.remove_processor();
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1",
                                           [&] {
                                               while (!away.may_return()) away.sleep_retired();
                                               away.run();
                                           }},
                       model::named_thread{"controller", [&] {
                                               node* added = all.fresh(kind::looks);
                                               added->next = nullptr;
                                               all.global.push_back(added, added, 1);
                                               all.recall(away);
                                               weft::detail::wake_searcher(all);
                                           }});
    all.check_end(2);
}

// Both find nothing, and one of them is asked meanwhile, and perhaps recalled: somebody says so.
void asleep_while_one_is_asked() {
    world all(2);
    all.watches = true;
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"controller", [&] {
                                               all.ask(all.workers[1]);
                                               if (model::choose(2) != 0) return;
                                               all.recall(all.workers[1]);
                                           }});
    model::check(all.reported, "all are asleep, and nobody says so");
    all.check_end(all.workers[1].state.running() ? 2 : 1);
}

// The worker that leaves has a timer; worker 0 is busy, and worker 2 has to watch.
void timer_of_the_leaver() {
    world all(3);
    all.sentinel.offered = true;
    all.add_timer(all.workers[1], 5);
    all.ask(all.workers[1]);
    model::run_threads(model::named_thread{"busy", [&] { all.hog(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"worker 2", [&] { all.workers[2].run(); }});
    model::check(all.timers_left == 0, "a timer is lost");
}

// The same with worker 0 alone, which is busy and looks at nothing but its own heap.
void timer_while_all_are_busy() {
    world all(2);
    all.sentinel.offered = true;
    all.add_timer(all.workers[1], 5);
    all.ask(all.workers[1]);
    model::run_threads(
        model::named_thread{"worker 0",
                            [&] {
                                heap& own = all.workers[0].timers;
                                while (all.timers_left != 0) {
                                    model::block_until(
                                        [&] { return own.earliest.peek() != no_deadline; }, "work");
                                    all.workers[0].collect(all.workers[0]);
                                }
                            }},
        model::named_thread{"worker 1", [&] { all.workers[1].run(); }});
    model::check(all.timers_left == 0, "a timer is lost");
}

// The sentinel is asked; a timer of a busy worker needs another one.
void sentinel_leaves() {
    world all(3);
    all.sentinel.offered = true;
    all.add_timer(all.workers[2], 5);
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"busy", [&] {
                                               all.ask(all.workers[1]);
                                               all.hog();
                                           }});
    model::check(all.timers_left == 0, "a timer is lost");
}

// The only worker is kept, for as long as what it has made ready waits, or shorter. Another one
// runs in its place, and goes when it is back.
void in_the_place_of_another() {
    world all(2);
    all.begin_with(1);
    all.workers[0].own.push_next(all.fresh(kind::long_run), overflow_of(all.workers[0]));
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"watchdog", [&] { all.compensate(); }});
    all.check_running();
}

// The number of processors is raised and lowered meanwhile.
void number_changes_meanwhile() {
    world all(3);
    all.begin_with(1);
    all.workers[0].own.push_next(all.fresh(kind::long_run), overflow_of(all.workers[0]));
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"worker 2", [&] { all.workers[2].run(); }},
                       model::named_thread{"watchdog", [&] { all.compensate(); }},
                       model::named_thread{"controller", [&] {
                                               all.set_processors(2);
                                               all.set_processors(1);
                                           }});
    all.check_running();
}

// The number is lowered below that of the workers in the place of others, and one more is refused.
void fewer_than_compensating() {
    world all(3);
    all.begin_with(2);
    model::check(all.start_compensating_worker(), "a worker is refused");
    all.set_processors(1);
    model::check(all.workers[1].state.running() && !all.workers[2].state.running(),
                 "the first workers go before the last ones");
    model::check(!all.start_compensating_worker(), "there are more than processors");
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"worker 2", [&] { all.workers[2].run(); }},
                       model::named_thread{"watchdog", [&] { all.retire_compensating_worker(); }},
                       model::named_thread{"outside", [&] { all.inject(all.fresh(kind::quick)); }});
    all.check_running();
}

// The runtime ends meanwhile: all workers end their loops, whatever is asked of them.
void end_meanwhile() {
    world all(2);
    all.ends = true;
    all.begin_with(1);
    all.workers[0].own.push_next(all.fresh(kind::long_run), overflow_of(all.workers[0]));
    model::run_threads(model::named_thread{"worker 0", [&] { all.workers[0].run(); }},
                       model::named_thread{"worker 1", [&] { all.workers[1].run(); }},
                       model::named_thread{"watchdog", [&] { all.compensate(); }},
                       model::named_thread{"end", [&] {
                                               model::block_until(
                                                   [&] { return all.long_begun != 0; }, "begin");
                                               all.stop();
                                           }});
}

const model::scenario scenarios[] = {
    {"a queue against park", queue_against_park, {.stale_reads = 1, .reduce = true}},
    {"asked while it runs", asked_while_it_runs, {.stale_reads = 0, .reduce = true}},
    {"publish against retirement", publish_against_retirement, {.stale_reads = 0, .reduce = true}},
    {"recall", recall, {.stale_reads = 0, .reduce = true}},
    {"asked again", asked_again, {.stale_reads = 0, .reduce = true}},
    {"counted before it runs", counted_before_it_runs, {.stale_reads = 0, .reduce = true}},
    {"asleep while one is asked", asleep_while_one_is_asked, {.stale_reads = 0, .reduce = true}},
    {"a timer of the leaver", timer_of_the_leaver, {.stale_reads = 0, .reduce = true}},
    {"a timer while all are busy", timer_while_all_are_busy, {.stale_reads = 0, .reduce = true}},
    {"the sentinel leaves", sentinel_leaves, {.stale_reads = 0, .reduce = true}},
    {"in the place of another", in_the_place_of_another, {.stale_reads = 0, .reduce = true}},
    {"the number changes meanwhile", number_changes_meanwhile,
     {.preemptions = 1, .stale_reads = 0, .reduce = true}},
    {"fewer than compensating", fewer_than_compensating,
     {.preemptions = 1, .stale_reads = 0, .reduce = true}},
    {"the end meanwhile", end_meanwhile, {.stale_reads = 0, .reduce = true}},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "retirement", scenarios);
}
