// SPDX-License-Identifier: MIT

// Model of the rescue: the owner of ring 0 is kept by a task, and nobody who waits there waits for
// it, whether it comes back meanwhile or not.

#include <weft/detail/netpoll/stranded_mark.hpp>

#include "two_rings.hpp"

namespace model = weft::model;
using weft::detail::suspend_outcome;
using weft::detail::wait_step;
using namespace weft::model;

namespace {

// The polls are counted by both workers, without order.
struct fixture : two_rings<fixture, side_of<2>, layer::atomic<int>> {
    weft::detail::stranded_mark<layer> mark;  // Of ring 0.
    layer::var<int> wanted;
    int received = 0;

    explicit fixture(int messages) : wanted(messages) { file.overflows = false; }

    auto wait_at(unsigned here) {
        return reads.wait(&branch, static_cast<std::uint16_t>(here), no_references{},
                          [this](std::uint16_t home) { return home == 0 && mark.stranded(); });
    }

    // The loop of the operation, on a worker, until it has ended or is parked.
    void run(unsigned here) {
        for (;;) {
            reads.forget_readiness();
            if (file.read()) {
                ++received;
                wanted = wanted - 1;
                if (wanted != 0) continue;
                ended.store(1, order::release);
                return;
            }
            const auto decision = wait_at(here);
            if (decision.step == wait_step::ready) continue;
            model::check(decision.step == wait_step::wait, "a wait is refused");
            arm(here, decision);
            if (branch.word.suspend() == suspend_outcome::suspended) return;
        }
    }

    // A turn of a poller. The owner of ring 0 is back with it.
    void reap(unsigned here) {
        if (here == 0) mark.back();
        two_rings::reap(here);
    }

    void work(unsigned here) {
        while (!take_turn(here)) {}
    }

    // As the watchdog: looks at what the kernel has told ring 0, and leaves it there.
    void look() {
        for (unsigned i = 0; i < 2; ++i) {
            if (file.look(0, i)) complete(reads.notify());
        }
    }
    auto rescuer() {
        return model::named_thread{
            "rescuer", [this] {
                for (;;) {
                    model::block_until([this] { return file.unseen(0) || ended.peek() != 0; },
                                       "nothing to rescue");
                    if (ended.peek() != 0) return;
                    mark.strand();
                    look();
                }
            }};
    }
    // The operation waits in ring 0. True for a multishot poll.
    void wait_in_ring_zero(bool multishot) {
        arm(0, wait_at(0));
        if (multishot) {
            model::check(reads.withdraw(&branch), "nobody took the waiter");
            file.write();
            reap(0);
            model::check(file.read(), "the message is there");
            reads.forget_readiness();
            arm(0, wait_at(0));
        }
        model::check(branch.word.suspend() == suspend_outcome::suspended, "it does not wait");
    }

    // Nobody else is about, and the owner is back.
    void settle(int messages) {
        model::check(received == messages, "a message is lost");
        for (int i = 0; i < 4; ++i) {
            reap(0);
            reap(1);
        }
        model::check(!mark.stranded(), "the ring stays stranded");
        branch.runnable.exchange(0, order::acquire);
        while (file.read()) {}
        reads.forget_readiness();
        const auto decision = wait_at(0);
        model::check(decision.step == wait_step::wait, "a wait is refused");
        arm(0, decision);
        model::check(reads.withdraw(&branch), "nobody took the waiter");
        for (int i = 0; i < 4; ++i) {
            reap(0);
            reap(1);
        }
        model::check(unreleased.peek() == 1, "polls are released too often or too seldom");
    }
};

// The owner does not come back before everything is received.
template <bool Multishot>
void kept() {
    fixture all(2);
    all.wait_in_ring_zero(Multishot);
    model::run_threads(all.rescuer(), all.worker("worker 1", 1), all.peer(2));
    all.settle(2);
}

// The owner comes back at any time, and may itself run the operation.
template <bool Multishot>
void comes_back() {
    // A multishot poll goes on after its first event; a second one adds nothing but time.
    constexpr int messages = Multishot ? 1 : 2;
    fixture all(messages);
    all.wait_in_ring_zero(Multishot);
    model::run_threads(all.rescuer(), all.worker("worker 0", 0), all.worker("worker 1", 1),
                       all.peer(messages));
    all.settle(messages);
}

// An operation that runs on another worker meets the poll of a ring that becomes stranded.
void waits_while_it_strands() {
    fixture all(2);
    all.arm(0, all.wait_at(0));
    model::check(all.reads.withdraw(&all.branch), "nobody took the waiter");
    model::run_threads(all.rescuer(), all.operating_worker("worker 1", 1), all.peer(2));
    all.settle(2);
}

const model::scenario scenarios[] = {
    {"kept, one-shot", kept<false>},
    {"kept, multishot", kept<true>},
    {"comes back, one-shot", comes_back<false>},
    {"comes back, multishot", comes_back<true>},
    {"waits while it strands", waits_while_it_strands},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "rescue", scenarios);
}
