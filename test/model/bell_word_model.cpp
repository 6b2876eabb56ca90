// SPDX-License-Identifier: MIT

// Model of the bell that all pollers of an epoll set wait for: whoever is woken comes back, whoever
// read the bell, and nobody is kept from sleeping by a wake for somebody who does not wait.

#include <weft/detail/netpoll/bell_word.hpp>

#include "explorer.hpp"

#include <array>
#include <cstddef>

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;

namespace {

struct fixture {
    std::array<weft::detail::bell_word<layer>, 2> words;
    // The counter of the eventfd. It orders nothing for the program.
    layer::atomic<unsigned> bell{0};
    // Reasons to come back. Relaxed on purpose: the words have to order them.
    std::array<layer::atomic<int>, 2> reasons{};
    std::array<int, 2> seen{};

    void ring() { bell.fetch_add(1, order::relaxed); }

    void wake(std::size_t which) {
        reasons[which].fetch_add(1, order::relaxed);
        if (words[which].wake()) ring();
    }

    // As epoll_poller::wait(). `early`: something else may end the wait, a socket or a deadline.
    void wait(std::size_t which, bool early) {
        if (!words[which].enter()) return;
        if (early && model::choose(2) == 1) {
            words[which].leave();
            return;
        }
        model::block_until([this] { return bell.peek() != 0; }, "waiting for the bell");
        // Two may have been let go; the second one finds nothing to read.
        bell.exchange(0, order::relaxed);
        words[which].leave();
        for (auto& each : words) {
            if (each.expects_bell()) {
                ring();
                break;
            }
        }
    }

    // Waits until it has seen so many reasons. After a turn that brought none, another thread must
    // do something before the next one: if none will, this one would spin for ever.
    void serve(std::size_t which, int expected) {
        for (;; layer::pause()) {
            seen[which] += reasons[which].exchange(0, order::relaxed);
            if (seen[which] >= expected) return;
            wait(which, false);
        }
    }

    auto server(const char* name, std::size_t which, int expected) {
        return model::named_thread{name, [this, which, expected] { serve(which, expected); }};
    }
    auto waker(const char* name, std::size_t which) {
        return model::named_thread{name, [this, which] { wake(which); }};
    }
};

void one_waker() {
    fixture all;
    model::run_threads(all.server("poller", 0, 1), all.waker("waker", 0));
}

void two_wakers() {
    fixture all;
    model::run_threads(all.server("poller", 0, 2), all.waker("waker 1", 0),
                       all.waker("waker 2", 0));
}

// Either may read the bell of the other.
void two_pollers() {
    fixture all;
    model::run_threads(all.server("poller 1", 0, 1), all.server("poller 2", 1, 1),
                       all.waker("waker 1", 0), all.waker("waker 2", 1));
}

// The first poller is woken, comes back by itself perhaps, and then does something else for ever.
// The other one must sleep until it is woken, and not be woken more often than the bell was rung
// for either of them.
void a_late_wake() {
    fixture all;
    int turns = 0;
    model::run_threads(
        model::named_thread{"goes away", [&] { all.wait(0, true); }},
        model::named_thread{"stays",
                            [&] {
                                for (;; layer::pause()) {
                                    all.seen[1] += all.reasons[1].exchange(0, order::relaxed);
                                    if (all.seen[1] != 0) return;
                                    model::check(++turns < 6, "a wait returns again and again");
                                    all.wait(1, false);
                                }
                            }},
        model::named_thread{"waker", [&] {
                                all.wake(0);
                                all.wake(1);
                            }});
}

// What a waker wrote before its wake is visible to whom it woke, whatever else orders it.
void contents_are_visible() {
    fixture all;
    layer::var<int> message{0};
    model::run_threads(model::named_thread{"poller",
                                           [&] {
                                               all.wait(0, false);
                                               model::check(message == 1, "old message");
                                           }},
                       model::named_thread{"waker", [&] {
                                               message = 1;
                                               all.wake(0);
                                           }});
}

// A wake between two waits is kept for the second one, once, and rings no bell.
void notification_is_sticky() {
    fixture all;
    model::run_threads(model::named_thread{
        "poller", [&] {
            all.wake(0);
            all.wake(0);
            model::check(all.bell.peek() == 0, "the bell rings for nobody");
            model::check(!all.words[0].expects_bell(), "somebody expects it all the same");
            model::check(!all.words[0].enter(), "the notification is lost");
            model::check(all.words[0].enter(), "the notification came twice");
            all.wake(0);
            all.wake(0);
            model::check(all.bell.peek() == 1, "the bell was not rung once");
            model::check(all.words[0].expects_bell(), "nobody expects it");
            all.words[0].leave();
            model::check(!all.words[0].expects_bell(), "expected by one who has left");
        }});
}

const model::scenario scenarios[] = {
    {"one waker", one_waker},
    {"two wakers", two_wakers},
    {"two pollers", two_pollers},
    {"a late wake", a_late_wake},
    {"contents are visible", contents_are_visible},
    {"a notification is sticky", notification_is_sticky},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "bell_word", scenarios);
}
