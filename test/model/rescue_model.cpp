// SPDX-License-Identifier: MIT

// Model of the rescue: the owner of ring 0 is kept by a task, and nobody who waits there waits for
// it, whether it comes back meanwhile or not.

#include <weft/detail/netpoll/stranded_mark.hpp>

#include "poll_fixture.hpp"

namespace model = weft::model;
using weft::detail::suspend_outcome;
using weft::detail::wait_step;
using namespace weft::model;

namespace {

struct fixture {
    kernel_file file;
    side_of<2> reads;
    waiter branch;
    weft::detail::stranded_mark<layer> mark;  // Of ring 0.
    std::array<layer::atomic<unsigned>, 2> inboxes{0U, 0U};
    layer::atomic<unsigned> ended{0};
    layer::var<int> wanted;
    int received = 0;
    // Of both workers, so counted without order.
    layer::atomic<int> unreleased{0};

    explicit fixture(int messages) : wanted(messages) { file.overflows = false; }

    auto wait_at(unsigned here) {
        return reads.wait(&branch, static_cast<std::uint16_t>(here),
                          [this](std::uint16_t home) { return home == 0 && mark.stranded(); });
    }

    void arm(unsigned here, const weft::detail::wait_decision& decision) {
        if (decision.arms) {
            unreleased.fetch_add(1, order::relaxed);
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

    bool has_work(unsigned here) const {
        return inboxes[here].peek() != 0 || file.pending(here) || branch.runnable.peek() != 0 ||
               ended.peek() != 0;
    }

    // A turn of a poller. The owner of ring 0 is back with it.
    void reap(unsigned here) {
        if (here == 0) mark.back();
        if (inboxes[here].peek() != 0) {
            const unsigned requests = inboxes[here].exchange(0, order::acquire);
            for (unsigned i = 0; i < 2; ++i) {
                if ((requests & (1U << i)) == 0) continue;
                reads.record(i).requested = false;
                if (reads.take_cancel_request(reads.record(i))) {
                    unreleased.fetch_sub(1, order::relaxed);
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
            if (decision.released) unreleased.fetch_sub(1, order::relaxed);
        }
    }

    void work(unsigned here) {
        for (;;) {
            model::block_until([&] { return has_work(here); }, "worker without work");
            reap(here);
            if (branch.runnable.exchange(0, order::acquire) != 0) run(here);
            if (ended.peek() != 0) return;
        }
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
    auto worker(const char* name, unsigned here) {
        return model::named_thread{name, [this, here] { work(here); }};
    }
    auto operating_worker(const char* name, unsigned here) {
        return model::named_thread{name, [this, here] {
                                       run(here);
                                       work(here);
                                   }};
    }
    auto peer(int messages) {
        return model::named_thread{"peer", [this, messages] {
                                       for (int i = 0; i < messages; ++i) file.write();
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
