// SPDX-License-Identifier: MIT

// Model of the seats in front of a shared epoll set, with the parking of workers around them: an
// event is taken by a parked worker while there is one. The loop is weft's own (parking_loop.hpp);
// the set, branches and the sleep itself are stand-ins.
//
// Whoever takes an event keeps its worker until all events have been taken, so an event that nobody
// waits for while somebody is parked shows as a deadlock.

#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/netpoll/watch_seats.hpp>
#include <weft/detail/sched/idle_protocol.hpp>
#include <weft/detail/sched/park_word.hpp>
#include <weft/detail/sched/parking_loop.hpp>

#include "explorer.hpp"

#include <cstdint>
#include <utility>

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;
using weft::detail::sleep_kind;

namespace {

struct branch;

// No timers: the role of the sentinel cannot be taken, and is not wanted.
struct no_sentinel {
    static constexpr std::uint32_t none = 0xffffffffU;
    bool take(std::uint32_t) const { return false; }
    void leave() const {}
    void watch_until(weft::detail::monotonic_time) const {}
    bool vacant() const { return false; }
    std::uint32_t holder_hint() const { return none; }
};

template <std::uint32_t Seats>
struct world {
    struct worker {
        struct link {
            layer::var<worker*> next{nullptr};
            layer::var<worker*> previous{nullptr};
            layer::var<bool> listed{false};
        };
        weft::detail::park_word<layer> word;
        bool has_event = false;  // Taken from the set, to be run.
        world* all = nullptr;
        std::uint32_t number = 0;

        // For parking_loop.hpp.
        struct ready_list {};
        link parked;
        bool searching = false;
        std::uint32_t index() const { return number; }
        bool attend() const { return true; }
        branch* look() {
            if (!searching) searching = all->idle.begin_search();
            const bool found = std::exchange(has_event, false) || all->take_work();
            return found ? reinterpret_cast<branch*>(this) : nullptr;
        }
        bool has_own_work() const { return false; }
        std::int64_t earliest_timer() const { return weft::detail::no_deadline; }
        void sleep(std::int64_t, bool, ready_list&);
        void ready(ready_list&) const {}
        void back_from_sleep(bool) const {}
        // Whoever sleeps looks at the word itself, in block_until().
        void wake() { static_cast<void>(word.wake()); }

        void run() {
            model::may_sleep_for_ever();
            for (;;) {
                weft::detail::find_work(*this, *all);
                all->hog();
            }
        }
    };

    std::uint32_t processors;
    weft::detail::idle_protocol<layer, worker> idle;
    no_sentinel sentinel;
    weft::detail::watch_seats<layer, Seats> seats;
    worker workers[4];
    layer::atomic<int> work{0};         // In the global queue: published with seq_cst.
    layer::atomic<unsigned> events{0};  // Ready in the set.
    model::shared<int> left;            // Events and work not taken yet.
    model::shared<std::uint32_t> hogs{0};

    world(std::uint32_t count, int to_come) : processors(count), idle(count), left(to_come) {
        for (std::uint32_t i = 0; i < 4; ++i) {
            workers[i].all = this;
            workers[i].number = i;
        }
        model::name(*this, "world");
    }

    // For parking_loop.hpp.
    std::uint32_t worker_count() const { return processors; }
    worker& worker_at(std::uint32_t index) { return workers[index]; }
    bool anything_published() const { return work.load(order::seq_cst) != 0; }
    bool unwatched() const { return seats.nobody_sits(); }
    void count_wake() const {}
    bool all_asleep() const { return false; }
    void report_all_asleep() const {}

    bool take_work() {
        int found = work.load(order::seq_cst);
        while (found > 0) {
            if (work.compare_exchange_weak(found, found - 1, order::seq_cst, order::seq_cst)) {
                --left;
                return true;
            }
        }
        return false;
    }
    void add_work() {
        work.fetch_add(1, order::seq_cst);
        weft::detail::wake_searcher(*this);
    }
    // The running branch keeps its worker until nothing is left, or nobody is idle.
    void hog() {
        ++hogs;
        model::may_sleep_for_ever(false);
        model::block_until([this] { return left == 0 || hogs == processors; }, "a hog");
        model::may_sleep_for_ever();
        --hogs;
    }
    auto idler(const char* name, std::uint32_t index) {
        return model::named_thread{name, [this, index] { workers[index].run(); }};
    }
    // The kernel makes descriptors ready. Nothing is ordered by that.
    auto kernel(unsigned count) {
        return model::named_thread{"kernel", [this, count] {
                                       for (unsigned i = 0; i < count; ++i) {
                                           events.fetch_add(1, order::relaxed);
                                       }
                                   }};
    }
};

// The set gives each event to one of those who wait there.
template <std::uint32_t Seats>
void world<Seats>::worker::sleep(std::int64_t, bool, ready_list&) {
    const bool seated = all->seats.sit_down();
    const auto kind = seated ? sleep_kind::in_poller : sleep_kind::in_futex;
    if (word.prepare(kind)) {
        const auto asleep = static_cast<std::uint32_t>(kind);
        model::block_until(
            [&] {
                return word.word().peek() != asleep || (seated && all->events.peek() != 0);
            },
            "sleep");
        unsigned ready = all->events.peek();
        if (seated && ready != 0 &&
            all->events.compare_exchange_strong(ready, ready - 1, order::relaxed)) {
            has_event = true;
            --all->left;
        }
        word.finish();
    }
    if (seated) all->seats.leave();
}

// One seat: whoever leaves it wakes the other one.
void one_seat() {
    world<1> all(2, 2);
    model::run_threads(all.kernel(2), all.idler("idle 0", 0), all.idler("idle 1", 1));
    model::check(all.left == 0, "an event is lost");
}

// Two seats and three workers: the third one is woken when both have left.
void two_seats() {
    world<2> all(3, 3);
    model::run_threads(all.kernel(3), all.idler("idle 0", 0), all.idler("idle 1", 1),
                       all.idler("idle 2", 2));
    model::check(all.left == 0, "an event is lost");
}

// Work comes beside the event and takes away who would have watched.
void work_and_event() {
    world<1> all(3, 2);
    model::run_threads(model::named_thread{"busy",
                                           [&] {
                                               all.add_work();
                                               all.events.fetch_add(1, order::relaxed);
                                               all.hog();
                                           }},
                       all.idler("idle 1", 1), all.idler("idle 2", 2));
    model::check(all.left == 0, "an event is lost");
}

const model::scenario scenarios[] = {
    {"one seat", one_seat, {.stale_reads = 2, .reduce = true, .alike = 2}},
    {"two seats", two_seats, {.stale_reads = 0, .reduce = true, .alike = 3}},
    {"work and an event", work_and_event, {.stale_reads = 1, .reduce = true, .alike = 2}},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "watch_seats", scenarios);
}
