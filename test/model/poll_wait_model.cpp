// SPDX-License-Identifier: MIT

// Model of one direction of a descriptor: no readiness is lost and nobody is woken twice, whichever
// worker runs the operation, reaps the completion, or cancels.

#include <weft/detail/netpoll/unverified_waits.hpp>

#include "two_rings.hpp"

#include <span>

namespace model = weft::model;
using weft::detail::suspend_outcome;
using weft::detail::wait_step;
using namespace weft::model;

namespace {

// A reader that wants some messages, the rings of two workers, and a peer.
template <std::uint8_t MissesBeforeMove>
struct fixture : two_rings<fixture<MissesBeforeMove>, side_of<MissesBeforeMove>, int> {
    using rings = two_rings<fixture<MissesBeforeMove>, side_of<MissesBeforeMove>, int>;
    using rings::arm, rings::branch, rings::ended, rings::file, rings::has_work, rings::inboxes;
    using rings::reads, rings::reap, rings::take_turn, rings::unreleased;

    // The operation: touched by whoever runs it, and by a canceller that has to take it back.
    model::lifetime frame;
    layer::var<int> wanted;
    layer::var<bool> cancelled{false};
    // The waits of each worker that are unverified, touched by that worker alone. One side needs
    // one place; a second one would show a wait that is noted twice.
    std::array<
        weft::detail::unverified_waits<weft::detail::std_layer, side_of<MissesBeforeMove>, 2>, 2>
        unverified;
    bool puts_off = false;   // Reads may be followed by such waits.
    bool is_stream = false;  // A read takes all there is, and the end is waited for.
    bool asks = true;
    int received = 0;

    explicit fixture(int messages) : wanted(messages) {}

    void end() {
        frame.destroy("operation");
        ended.store(1, order::release);
    }

    // What a worker does when the watchdog says so.
    void verify(unsigned here) {
        const auto ask = [this](auto due) {
            for (auto& each : due) each.readable = file.readable();
        };
        const auto wake = [](waiter& taken) { complete(&taken); };
        if (model::choose(2) == 0) {
            unverified[here].verify(true, ask, wake);
        } else {
            for (int i = 0; i < 2; ++i) unverified[here].verify(false, ask, wake);
        }
    }

    // True: it has got something, and wants more or has ended.
    bool read() {
        if (!is_stream) {
            if (!file.read()) return false;
            wanted = wanted - 1;
        } else {
            const auto got = file.drain();
            if (got == kernel_file::drained::nothing) return false;
            if (got == kernel_file::drained::end) wanted = 0;
        }
        ++received;
        if (puts_off) reads.short_read();
        return true;
    }

    // The loop of an operation, on a worker; returns when it has ended or is parked.
    void run(unsigned here) {
        for (;;) {
            frame.touch("operation");
            if (cancelled || branch.word.stop_requested()) return end();
            const bool verified =
                !reads.take_emptied(static_cast<std::uint16_t>(here)) || !unverified[here].admits();
            if (verified) {
                reads.forget_readiness();
                if (read()) {
                    if (wanted == 0) return end();
                    continue;
                }
            }
            const auto decision = wait_at(reads, branch, here);
            model::check(decision.step != wait_step::failed && decision.step != wait_step::closing,
                         "a wait is refused");
            if (decision.step == wait_step::ready) continue;
            if (!verified) unverified[here].note(reads, decision.number, 0);
            arm(here, decision);
            switch (branch.word.suspend()) {
            case suspend_outcome::suspended: return;
            case suspend_outcome::completed: continue;
            case suspend_outcome::stopped:
                cancelled = true;
                if (reads.withdraw(&branch)) {
                    branch.word.withdrawn();
                } else if (!branch.word.let_go()) {
                    return;
                }
                continue;
            }
        }
    }

    // At the end, with nobody else about: everything that was asked for has been done.
    void settle() {
        for (int i = 0; i < 4; ++i) {
            reap(0);
            reap(1);
        }
        branch.runnable.exchange(0, order::acquire);
        // From `idle`, and only from there, a completion is found by the next suspension.
        model::check(!branch.word.complete(), "the branch is completed twice, or still parked");
        model::check(branch.word.suspend() == suspend_outcome::completed, "the word is not idle");
        branch.word.adopt_flags(0);
        while (file.read()) {}
        // A poll can be moved from any ring to the other.
        reads.forget_readiness();
        for (unsigned here : {0U, 1U}) {
            bool moved = false;
            for (int i = 0; i <= MissesBeforeMove; ++i) {
                const auto decision = wait_at(reads, branch, here);
                model::check(decision.step == wait_step::wait, "a wait is refused");
                arm(here, decision);
                model::check(reads.withdraw(&branch), "nobody took the waiter");
                moved = moved || decision.cancels_old;
            }
            model::check(here == 0 || moved, "a poll cannot move");
            for (int i = 0; i < 4; ++i) {
                reap(0);
                reap(1);
            }
            model::check(unreleased == 1, "polls are released too often or too seldom");
        }
    }

    void work(unsigned here) {
        do {
            if (puts_off && asks && !has_work(here)) verify(here);
        } while (!take_turn(here));
    }

    // A multishot poll is armed at home 0.
    void arm_multishot() {
        arm(0, wait_at(reads, branch, 0));
        model::check(reads.withdraw(&branch), "nobody took the waiter");
        file.write();
        reap(0);
        model::check(file.read(), "the message is there");
        reads.forget_readiness();
        arm(0, wait_at(reads, branch, 0));
        model::check(reads.withdraw(&branch), "nobody took the waiter");
    }

    auto canceller() {
        return model::named_thread{"canceller", [this] {
                                       if (!branch.word.request_stop(false)) return;
                                       frame.touch("operation");
                                       cancelled = true;
                                       if (reads.withdraw(&branch)) {
                                           branch.word.withdrawn();
                                       } else if (!branch.word.let_go()) {
                                           return;
                                       }
                                       branch.runnable.exchange(1, order::release);
                                   }};
    }

    // The poll is armed at home 0, and an operation on worker 1 has missed it twice.
    void miss_twice() {
        for (unsigned here : {0U, 1U, 1U}) {
            arm(here, wait_at(reads, branch, here));
            model::check(reads.withdraw(&branch), "nobody took the waiter");
        }
    }
};

// The worker that waits is the one that reaps.
void one_worker() {
    fixture<2> all(3);
    all.branch.runnable.store(1, order::release);
    model::run_threads(all.worker("worker", 0), all.peer(3));
    model::check(all.received == 3, "a message is lost");
    all.settle();
}

// Each wake-up may go to either worker, so polls are armed here and there.
void two_workers() {
    fixture<2> all(3);
    all.branch.runnable.store(1, order::release);
    model::run_threads(all.worker("worker 0", 0), all.worker("worker 1", 1), all.peer(3));
    model::check(all.received == 3, "a message is lost");
    all.settle();
}

// A multishot poll, at home with worker 0, that moves at once or after some time.
template <std::uint8_t MissesBeforeMove>
void multishot() {
    fixture<MissesBeforeMove> all(2);
    all.arm_multishot();
    all.branch.runnable.store(1, order::release);
    model::run_threads(all.worker("worker 0", 0), all.worker("worker 1", 1), all.peer(2));
    model::check(all.received == 2, "a message is lost");
    all.settle();
}

// A poll in the ring of worker 0 has an event, which it reaps while worker 1 has read the data
// already and is about to wait.
void ends_elsewhere() {
    fixture<2> all(2);
    all.arm(0, wait_at(all.reads, all.branch, 0));
    model::check(all.reads.withdraw(&all.branch), "nobody took the waiter");
    all.file.write();
    model::run_threads(all.worker("worker 0", 0),
                       all.operating_worker("worker 1", 1),
                       all.peer(1));
    model::check(all.received == 2, "a message is lost");
    all.settle();
}

// The poll moves from a worker that reaps to the one that runs the operation.
void move() {
    fixture<2> all(2);
    all.miss_twice();
    model::run_threads(all.worker("worker 0", 0),
                       all.operating_worker("worker 1", 1),
                       all.peer(2));
    model::check(all.received == 2, "a message is lost");
    all.settle();
}

// The owner gives the poll up, because nobody seems to use its events, while the operation waits.
void give_up() {
    fixture<2> all(2);
    all.miss_twice();
    auto& record = all.reads.record(0);
    model::run_threads(model::named_thread{"worker 0",
                                           [&] {
                                               if (all.reads.give_up(record))
                                                   all.file.cancel(0, record.sequence);
                                               all.work(0);
                                           }},
                       all.operating_worker("worker 1", 1),
                       all.peer(2));
    model::check(all.received == 2, "a message is lost");
    all.settle();
}

// The owner of the ring cancels every poll, because it retires or has lost completions.
void cancel_all() {
    fixture<2> all(1);
    all.arm(0, wait_at(all.reads, all.branch, 0));
    model::check(all.reads.withdraw(&all.branch), "nobody took the waiter");
    model::run_threads(model::named_thread{"worker 0",
                                           [&] {
                                               all.file.cancel(0, all.reads.record(0).sequence);
                                               all.work(0);
                                           }},
                       all.operating_worker("worker 1", 1),
                       all.peer(1));
    model::check(all.received == 1, "a message is lost");
    all.settle();
}

// A canceller, the completer and the parker itself: the operation ends once, and a message is read
// or still there.
void cancel() {
    fixture<2> all(1);
    all.branch.runnable.store(1, order::release);
    model::run_threads(all.worker("worker", 0), all.peer(1), all.canceller());
    model::check(all.received == 1 || all.file.read(), "a message is lost");
    all.settle();
}

// Each read is followed by a wait without EAGAIN, though more messages may be there: nothing but
// the question of the worker tells of them.
void unverified() {
    fixture<2> all(3);
    all.puts_off = true;
    all.arm_multishot();
    all.branch.runnable.store(1, order::release);
    model::run_threads(all.worker("worker", 0), all.peer(3));
    model::check(all.received == 3, "a message is lost");
    all.settle();
}

// The same where two workers run the operation, and each of them has waits of its own.
void unverified_on_two() {
    fixture<2> all(2);
    all.puts_off = true;
    all.arm_multishot();
    all.branch.runnable.store(1, order::release);
    model::run_threads(all.worker("worker 0", 0), all.worker("worker 1", 1), all.peer(2));
    model::check(all.received == 2, "a message is lost");
    all.settle();
}

// An unverified wait is stopped beside the question.
void unverified_cancel() {
    fixture<2> all(2);
    all.puts_off = true;
    all.arm_multishot();
    all.branch.runnable.store(1, order::release);
    model::run_threads(all.worker("worker", 0), all.peer(2), all.canceller());
    while (all.file.read()) ++all.received;
    model::check(all.received == 2, "a message is lost");
    all.settle();
}

// A stream of bytes whose reads take all there is: its end is found although nobody ever asks.
void stream_without_questions() {
    fixture<2> all(1);
    all.puts_off = true;
    all.is_stream = true;
    all.asks = false;
    all.arm_multishot();
    all.branch.runnable.store(1, order::release);
    model::run_threads(all.worker("worker", 0), model::named_thread{"peer", [&] {
                                                                        all.file.write();
                                                                        all.file.finish();
                                                                    }});
    model::check(all.ended.peek() != 0, "the end is lost");
}

// The same in an epoll set, whose events another worker takes.
void stream_in_a_set() {
    fixture<2> all(1);
    all.file.overflows = false;
    all.puts_off = true;
    all.is_stream = true;
    all.arm_multishot();
    all.branch.runnable.store(1, order::release);
    const auto ended = [&] { return all.ended.peek() != 0; };
    model::run_threads(
        model::named_thread{"reaper",
                            [&] {
                                while (!ended()) {
                                    model::block_until(
                                        [&] { return all.file.pending(0) || ended(); },
                                        "reaper without work");
                                    if (!all.file.pending(0)) continue;
                                    complete(all.reads.notify(all.file.reap(0).hung_up));
                                }
                            }},
        model::named_thread{"worker",
                            [&] {
                                while (!ended()) {
                                    model::block_until(
                                        [&] { return all.branch.runnable.peek() != 0 || ended(); },
                                        "worker without work");
                                    if (all.branch.runnable.exchange(0, order::acquire) != 0)
                                        all.run(0);
                                }
                            }},
        model::named_thread{"peer", [&] {
                                all.file.write();
                                all.file.finish();
                            }});
    model::check(ended(), "the end is lost");
}

constexpr model::scenario scenarios[] = {
    {"one worker", one_worker},
    {"two workers", two_workers},
    {"multishot", multishot<2>},
    {"multishot, moving at once", multishot<0>},
    {"ends elsewhere", ends_elsewhere},
    {"move", move},
    {"give up", give_up},
    {"cancel all", cancel_all},
    {"cancel", cancel},
    {"unverified", unverified},
    {"unverified on two workers", unverified_on_two},
    {"unverified, cancelled", unverified_cancel},
    {"a stream without questions", stream_without_questions},
    {"a stream in a set", stream_in_a_set},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "poll_wait", scenarios);
}
