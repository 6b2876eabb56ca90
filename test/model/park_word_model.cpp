// SPDX-License-Identifier: MIT

// Model of a worker's wake word: reasons are left, the worker is woken, and sleeps only when it has
// seen every reason. The kernel's part (futex, eventfd) is the explorer's.

#include <weft/detail/sched/park_word.hpp>

#include "explorer.hpp"

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;
using weft::detail::sleep_kind;

namespace {

struct worker {
    weft::detail::park_word<layer> word;
    // The counter of an eventfd.
    int signals = 0;
    // A reason for the worker to come back: set by a waker, cleared by the worker. Relaxed on
    // purpose: the word has to order it.
    layer::atomic<int> reasons{0};
    int seen = 0;

    void wake() {
        switch (word.wake()) {
        case sleep_kind::in_futex: layer::futex_wake(word.word(), 1); break;
        case sleep_kind::in_poller: ++signals; break;
        case sleep_kind::awake:
        case sleep_kind::notified: break;
        }
    }

    void look() { seen += reasons.exchange(0, order::relaxed); }

    // As worker_thread::sleep().
    void sleep(sleep_kind kind) {
        if (!word.prepare(kind)) return;
        if (kind == sleep_kind::in_futex) {
            layer::futex_wait(word.word(), static_cast<std::uint32_t>(kind));
        } else {
            model::block_until([&] { return signals > 0; }, "eventfd");
            signals = 0;
        }
        word.finish();
    }

    void serve(sleep_kind kind, int expected) {
        for (look(); seen < expected; look()) sleep(kind);
    }
};

void give_reason(worker& to) {
    to.reasons.fetch_add(1, order::relaxed);
    to.wake();
}

template <sleep_kind Kind, int Wakers>
void wakers_against_sleep() {
    worker one;
    const auto waker = [&] { give_reason(one); };
    const auto sleeper = [&] { one.serve(Kind, Wakers); };
    if constexpr (Wakers == 1) {
        model::run_threads(model::named_thread{"worker", sleeper},
                           model::named_thread{"waker", waker});
    } else {
        model::run_threads(model::named_thread{"worker", sleeper},
                           model::named_thread{"waker 1", waker},
                           model::named_thread{"waker 2", waker});
    }
    model::check(one.seen == Wakers, "a reason is lost");
}

// What a waker wrote before its wake is visible to the worker, whatever else orders it: the worker
// knows that a waker was there from the word alone.
template <sleep_kind Kind>
void contents_are_visible() {
    worker one;
    layer::var<int> message{0};
    model::run_threads(
        model::named_thread{"worker",
                            [&] {
                                if (one.word.prepare(Kind)) {
                                    if (Kind == sleep_kind::in_futex) {
                                        layer::futex_wait(one.word.word(),
                                                          static_cast<std::uint32_t>(Kind));
                                    } else {
                                        model::block_until([&] { return one.signals > 0; });
                                    }
                                    one.word.finish();
                                }
                                model::check(message == 1, "old message");
                            }},
        model::named_thread{"waker", [&] {
                                message = 1;
                                one.wake();
                            }});
}

// A wake between two sleeps is kept for the second one, once.
void notification_is_sticky() {
    worker one;
    model::run_threads(model::named_thread{
        "worker", [&] {
            one.wake();
            one.wake();
            model::check(!one.word.prepare(sleep_kind::in_futex), "the notification is lost");
            model::check(one.word.prepare(sleep_kind::in_futex), "the notification came twice");
            model::check(!one.word.finish(), "not notified");
        }});
}

// Two sleeps of different kinds, two wakers.
void futex_then_poller() {
    worker one;
    model::run_threads(model::named_thread{"worker",
                                           [&] {
                                               one.serve(sleep_kind::in_futex, 1);
                                               one.serve(sleep_kind::in_poller, 2);
                                           }},
                       model::named_thread{"waker", [&] {
                                               give_reason(one);
                                               give_reason(one);
                                           }});
    model::check(one.seen == 2, "a reason is lost");
}

const model::scenario scenarios[] = {
    {"futex, one waker", wakers_against_sleep<sleep_kind::in_futex, 1>},
    {"futex, two wakers", wakers_against_sleep<sleep_kind::in_futex, 2>},
    {"poller, one waker", wakers_against_sleep<sleep_kind::in_poller, 1>},
    {"poller, two wakers", wakers_against_sleep<sleep_kind::in_poller, 2>},
    {"contents are visible (futex)", contents_are_visible<sleep_kind::in_futex>},
    {"contents are visible (poller)", contents_are_visible<sleep_kind::in_poller>},
    {"a notification is sticky", notification_is_sticky},
    {"futex, then poller", futex_then_poller},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "park_word", scenarios);
}
