// SPDX-License-Identifier: MIT

// Model of one direction of a descriptor: no readiness is lost and nobody is woken twice, whichever
// worker runs the operation, reaps the completion, or cancels.

#include "poll_fixture.hpp"

namespace model = weft::model;
using weft::detail::suspend_outcome;
using weft::detail::wait_step;
using namespace weft::model;

namespace {

// A reader that wants some messages, the rings of two workers, and a peer.
template <std::uint8_t MissesBeforeMove>
struct fixture {
    kernel_file file;
    side_of<MissesBeforeMove> reads;
    waiter branch;
    std::array<layer::atomic<unsigned>, 2> inboxes{0U, 0U};  // Bits of the records to be cancelled.
    layer::atomic<unsigned> ended{0};
    // The operation: touched by whoever runs it, and by a canceller that has to take it back.
    model::lifetime frame;
    layer::var<int> wanted;
    layer::var<bool> cancelled{false};
    int received = 0;
    int unreleased = 0;  // Polls.

    explicit fixture(int messages) : wanted(messages) {}

    void arm(unsigned here, const weft::detail::wait_decision& decision) {
        if (decision.arms) {
            ++unreleased;
            record& armed = reads.record(decision.armed.record);
            armed.listed = true;
            model::check(!armed.requested, "a record is armed while a request for it is under way");
            file.submit(decision.armed.record, here, decision.armed.multishot,
                        decision.armed.sequence);
        }
        if (decision.cancels_old) {
            reads.record(decision.old.record).requested = true;
            inboxes[decision.old.home].fetch_or(1U << decision.old.record, order::release);
        }
    }

    void end() {
        frame.destroy("operation");
        ended.store(1, order::release);
    }

    // The loop of an operation, on a worker; returns when it has ended or is parked.
    void run(unsigned here) {
        for (;;) {
            frame.touch("operation");
            if (cancelled || branch.word.stop_requested()) return end();
            reads.forget_readiness();
            if (file.read()) {
                ++received;
                wanted = wanted - 1;
                if (wanted == 0) return end();
                continue;
            }
            const auto decision = reads.wait(&branch, static_cast<std::uint16_t>(here));
            model::check(decision.step != wait_step::failed && decision.step != wait_step::closing,
                         "a wait is refused");
            if (decision.step == wait_step::ready) continue;
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

    bool has_work(unsigned here) const {
        return inboxes[here].peek() != 0 || file.pending(here) || branch.runnable.peek() != 0 ||
               ended.peek() != 0;
    }

    // What a worker does in a turn of its poller.
    void reap(unsigned here) {
        if (inboxes[here].peek() != 0) {
            const unsigned requests = inboxes[here].exchange(0, order::acquire);
            for (unsigned i = 0; i < 2; ++i) {
                if ((requests & (1U << i)) == 0) continue;
                reads.record(i).requested = false;
                if (reads.take_cancel_request(reads.record(i))) {
                    --unreleased;
                } else {
                    file.cancel(i, reads.record(i).sequence);
                }
            }
        }
        for (unsigned i = 0; i < 2; ++i) {
            if (!file.pending(here, i)) continue;
            const auto completion = file.reap(i);
            if (!completion.more) reads.record(i).listed = false;
            const auto decision = reads.completed(reads.record(i), completion);
            complete(decision.waiter);
            if (decision.released) --unreleased;
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
                const auto decision = reads.wait(&branch, static_cast<std::uint16_t>(here));
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

    // A worker: reaps, and runs the operation whenever it is the one to take it.
    void work(unsigned here) {
        for (;;) {
            model::block_until([&] { return has_work(here); }, "worker without work");
            reap(here);
            if (branch.runnable.exchange(0, order::acquire) != 0) run(here);
            if (ended.peek() != 0) return;
        }
    }

    auto worker(const char* name, unsigned here) {
        return model::named_thread{name, [this, here] { work(here); }};
    }
    auto peer(int messages) {
        return model::named_thread{"peer", [this, messages] {
                                       for (int i = 0; i < messages; ++i) file.write();
                                   }};
    }

    // The poll is armed at home 0, and an operation on worker 1 has missed it twice.
    void miss_twice() {
        for (unsigned here : {0U, 1U, 1U}) {
            arm(here, reads.wait(&branch, static_cast<std::uint16_t>(here)));
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
    all.arm(0, all.reads.wait(&all.branch, 0));
    model::check(all.reads.withdraw(&all.branch), "nobody took the waiter");
    all.file.write();
    all.reap(0);
    model::check(all.file.read(), "the message is there");
    all.reads.forget_readiness();
    all.arm(0, all.reads.wait(&all.branch, 0));
    model::check(all.reads.withdraw(&all.branch), "nobody took the waiter");
    all.branch.runnable.store(1, order::release);
    model::run_threads(all.worker("worker 0", 0), all.worker("worker 1", 1), all.peer(2));
    model::check(all.received == 2, "a message is lost");
    all.settle();
}

// A poll in the ring of worker 0 has an event, which it reaps while worker 1 has read the data
// already and is about to wait.
void ends_elsewhere() {
    fixture<2> all(2);
    all.arm(0, all.reads.wait(&all.branch, 0));
    model::check(all.reads.withdraw(&all.branch), "nobody took the waiter");
    all.file.write();
    model::run_threads(all.worker("worker 0", 0),
                       model::named_thread{"worker 1",
                                           [&] {
                                               all.run(1);
                                               all.work(1);
                                           }},
                       all.peer(1));
    model::check(all.received == 2, "a message is lost");
    all.settle();
}

// The poll moves from a worker that reaps to the one that runs the operation.
void move() {
    fixture<2> all(2);
    all.miss_twice();
    model::run_threads(all.worker("worker 0", 0),
                       model::named_thread{"worker 1",
                                           [&] {
                                               all.run(1);
                                               all.work(1);
                                           }},
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
                       model::named_thread{"worker 1",
                                           [&] {
                                               all.run(1);
                                               all.work(1);
                                           }},
                       all.peer(2));
    model::check(all.received == 2, "a message is lost");
    all.settle();
}

// The owner of the ring cancels every poll, because it retires or has lost completions.
void cancel_all() {
    fixture<2> all(1);
    all.arm(0, all.reads.wait(&all.branch, 0));
    model::check(all.reads.withdraw(&all.branch), "nobody took the waiter");
    model::run_threads(model::named_thread{"worker 0",
                                           [&] {
                                               all.file.cancel(0, all.reads.record(0).sequence);
                                               all.work(0);
                                           }},
                       model::named_thread{"worker 1",
                                           [&] {
                                               all.run(1);
                                               all.work(1);
                                           }},
                       all.peer(1));
    model::check(all.received == 1, "a message is lost");
    all.settle();
}

// A canceller, the completer and the parker itself: the operation ends once, and a message is read
// or still there.
void cancel() {
    fixture<2> all(1);
    all.branch.runnable.store(1, order::release);
    model::run_threads(all.worker("worker", 0), all.peer(1),
                       model::named_thread{"canceller", [&] {
                                               if (!all.branch.word.request_stop(false)) return;
                                               all.frame.touch("operation");
                                               all.cancelled = true;
                                               if (all.reads.withdraw(&all.branch)) {
                                                   all.branch.word.withdrawn();
                                               } else if (!all.branch.word.let_go()) {
                                                   return;
                                               }
                                               all.branch.runnable.exchange(1, order::release);
                                           }});
    model::check(all.received == 1 || all.file.read(), "a message is lost");
    all.settle();
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
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "poll_wait", scenarios);
}
