// SPDX-License-Identifier: MIT
#pragma once

// The workers of retirement_model.cpp, and what they share. Their steps are weft's own
// (retirement.hpp, parking_loop.hpp); what a worker looks at is that of lib/sched/worker_thread.cpp
// in small: one steal pass over all victims, one timer for each heap, at most one poll in each
// ring, which ends when it is cancelled. Who runs is counted and changed by weft's own steps too
// (running_workers.hpp).

#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/sched/all_asleep.hpp>
#include <weft/detail/sched/idle_protocol.hpp>
#include <weft/detail/sched/local_queue.hpp>
#include <weft/detail/sched/park_word.hpp>
#include <weft/detail/sched/retirement.hpp>
#include <weft/detail/sched/running_workers.hpp>
#include <weft/detail/sched/sentinel.hpp>

#include "explorer.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

namespace weft::model {

using layer = model_layer;
using order = std::memory_order;
using weft::detail::sleep_kind;
using weft::detail::worker_state;
using role = weft::detail::sentinel_role<layer>;
using guard = std::lock_guard<weft::detail::spin_lock<layer>>;

constexpr std::int64_t no_deadline = role::for_ever;
constexpr std::uint32_t asleep_as(sleep_kind kind) {
    return static_cast<std::uint32_t>(kind);
}

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

// The state of a worker, and what the one recall of the scenario has brought with it.
class told_word : public weft::detail::state_word<layer> {
public:
    // The scenario has one recall at most, before which the controller writes.
    void expect_one_recall() { watches_ = true; }
    void before_recall() {
        if (watches_) brought_ = 1;
    }
    // The second request is one that came after the recall.
    bool begin() {
        const bool begun = state_word::begin();
        if (begun) ++begun_;
        if (begun && begun_ == 2) read();
        return begun;
    }
    bool recalled() const {
        const bool found = state_word::recalled();
        if (found) read();
        return found;
    }

private:
    void read() const {
        if (watches_) check(brought_ == 1, "what a recall brings has not come with it");
    }

    bool watches_ = false;
    int begun_ = 0;
    layer::var<int> brought_{0};
};

// One poll in a ring. The owner arms, cancels and takes it; between the last two the kernel ends
// it.
class modelled_poll {
public:
    void arm(node* waiter) {
        waiter_ = waiter;
        step_.store(armed, order::relaxed);
    }
    bool in_flight() const { return waiter_ != nullptr; }
    void cancel() {
        if (waiter_ != nullptr) step_.store(cancelled, order::release);
    }
    // The kernel, which is not told of the owner's end.
    void end_when_cancelled() {
        may_sleep_for_ever();
        block_until([this] { return step_.peek() == cancelled; }, "the kernel");
        step_.store(ended, order::release);
    }
    bool has_ended() const { return step_.peek() == ended; }
    // Whoever waited for it; null as long as it has not ended.
    node* take() {
        if (waiter_ == nullptr || step_.load(order::acquire) != ended) return nullptr;
        step_.store(none, order::relaxed);
        return std::exchange(waiter_, nullptr);
    }

private:
    static constexpr std::uint32_t none = 0, armed = 1, cancelled = 2, ended = 3;

    layer::atomic<std::uint32_t> step_{none};
    node* waiter_ = nullptr;
};

struct worker {
    struct link {
        layer::var<worker*> next{nullptr};
        layer::var<worker*> previous{nullptr};
        layer::var<bool> listed{false};
    };
    queue own{255};
    heap timers;
    modelled_poll poll;
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
    told_word state;
    void give_work_up();
    void give_timers_up();
    bool may_return() {
        return state.recalled() || (attention.load(order::relaxed) & stopping_bit) != 0;
    }
    bool may_settle() const { return !poll.in_flight() && earliest_timer() == no_deadline; }
    void sleep_retired();
    bool sleep_until(bool may_wake_up, const char* why);

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
    shared<int> used{0};
    shared<int> taken{0};
    shared<int> timers_left{0};
    // As in runtime_core: the lock of the controllers and what it guards, and the phase.
    weft::detail::spin_lock<layer> control;
    weft::detail::wanted_workers<layer> wanted;
    layer::atomic<bool> ending{false};
    bool ends = false;     // The scenario ends its workers.
    bool watches = false;  // The scenario asks whether all are asleep.
    shared<bool> reported{false};
    // The runs that a watchdog sees: begun, and over.
    shared<int> long_begun{0};
    shared<int> long_over{0};

    explicit world(std::uint32_t count) : processors(count), idle(count) {
        for (std::uint32_t i = 0; i < 3; ++i) {
            workers[i].all = this;
            workers[i].number = i;
        }
        name(*this, "world");
        name(workers[0], "worker 0");
        name(workers[1], "worker 1");
        name(workers[2], "worker 2");
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
        check(taken == used, "all are said to be asleep while a node is left");
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
        check(used < max_nodes, "the model has too few nodes");
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
    void recall(worker& recalled) {
        recalled.state.before_recall();
        weft::detail::recall_worker(recalled, *this);
    }
    void add_timer(worker& on, std::int64_t when) {
        ++timers_left;
        on.timers.add(when);
        weft::detail::tell_sentinel(on, *this);
    }
    void hog() {
        may_sleep_for_ever(false);
        block_until([this] { return taken == used && timers_left == 0; }, "a hog");
        may_sleep_for_ever();
    }
    // As runtime_core::set_processors(), for workers that have been made.
    void set_processors(std::uint32_t count) {
        const guard held(control);
        wanted.set_processors(count);
        weft::detail::adjust_running(*this, wanted.all());
    }
    // As runtime_core::start_compensating_worker(), in the same way. That and the next one try
    // again later where these wait for the lock.
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
        block_until([this] { return long_begun != 0; }, "nobody is kept");
        const bool started = start_compensating_worker();
        block_until([this] { return long_over != 0; }, "a worker is kept");
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
        check(wanted.compensating() == 0, "a worker runs in the place of nobody");
        for (std::uint32_t i = 0; i < processors; ++i) {
            const bool runs = workers[i].state.running();
            check(runs == (i < wanted.processors()), "the wrong workers run");
        }
        check_end(wanted.processors());
    }
    void check_end(std::uint32_t running) const {
        check(taken == used, "a node is lost");
        check(timers_left == 0, "a timer is lost");
        check(idle.searching_hint() == 0, "the searching count is wrong");
        check(idle.parked_hint() == running, "the parked count is wrong");
        check(idle.all_parked(), "the count of processors is wrong");
    }
};

inline auto overflow_of(worker& from) {
    return [&from](node* first, node* last, std::size_t count) {
        from.all->global.push_back(first, last, static_cast<int>(count));
    };
}

inline void worker::run() {
    // Sleeping for ever is right when all work is done, unless the end of the runtime wakes all; a
    // hog does not sleep, it works.
    may_sleep_for_ever(!all->ends);
    while (node* found = next()) execute(found);
}

inline bool worker::attend() {
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

inline node* worker::next() {
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

inline node* worker::look() {
    if (std::exchange(fired, false)) return &all->timer_node;
    if (all->global.size() != 0) {
        if (node* taken = all->global.pop()) return taken;
    }
    if (own.size() != 0) {
        if (node* taken = own.pop_next()) return taken;
        if (node* taken = own.pop()) return taken;
    }
    if (node* taken = poll.take()) return taken;
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

// In its ring if there is a poll, which ends the sleep when it ends.
inline bool worker::sleep_until(bool may_wake_up, const char* why) {
    const auto kind = poll.in_flight() ? sleep_kind::in_poller : sleep_kind::in_futex;
    if (!word.prepare(kind)) return false;
    block_until(
        [&] {
            return may_wake_up || word.word().peek() != asleep_as(kind) ||
                   (kind == sleep_kind::in_poller && poll.has_ended());
        },
        why);
    word.finish();
    return true;
}

inline void worker::sleep(std::int64_t deadline, bool, ready_list&) {
    // It may wake up by its deadline at any moment.
    may_sleep_for_ever(deadline == no_deadline && !all->ends);
    sleep_until(deadline != no_deadline, "sleep");
    may_sleep_for_ever(!all->ends);
}

inline void worker::collect(worker& from) {
    if (!from.timers.collect()) return;
    --all->timers_left;
    fired = true;
}

inline void worker::back_from_sleep(bool was_sentinel) {
    if (!was_sentinel) {
        collect(*this);
        return;
    }
    for (std::uint32_t i = 0; i < all->processors; ++i) collect(all->workers[i]);
}

// As worker_thread::give_work_up().
inline void worker::give_work_up() {
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
    poll.cancel();
    if (count != 0) all->global.push_front(first, last, count);
}

inline void worker::give_timers_up() {
    timers.move_to(all->workers[0].timers);
    // What it has collected already is a branch that it would run next.
    if (std::exchange(fired, false)) {
        node* readied = all->fresh(kind::quick);
        readied->next = nullptr;
        all->global.push_front(readied, readied, 1);
        weft::detail::wake_searcher(*all);
    }
}

inline void worker::sleep_retired() {
    check(own.size() == 0, "a retired worker has work");
    sleep_until(false, "without a processor");
    if (node* readied = poll.take()) all->inject(readied);
}

inline void worker::execute(node* running) {
    const worker_state now = state.state();
    check(now == worker_state::running || now == worker_state::asked,
          "a worker without a processor runs something");
    if (running == &all->timer_node) return;
    running->taken = running->taken + 1;
    check(running->taken == 1, "a node is taken twice");
    if (running->what == kind::looks) {
        check(!all->idle.all_parked(), "all are parked although a worker runs something");
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
        if (!all->ends && choose(2) != 0) all->hog();
        ++all->long_over;
    }
}

}  // namespace weft::model
