// SPDX-License-Identifier: MIT

// Model of the rescue: the owner of ring 0 is kept by a task, and nobody who waits there, or for a
// poll there to end, waits for it, whether it comes back meanwhile or not. The handler of the
// signal is a function that the owner's thread calls wherever the signal may come.

#include <weft/detail/netpoll/handed_list.hpp>
#include <weft/detail/netpoll/stranded_mark.hpp>

#include "two_rings.hpp"

#include <array>
#include <cstddef>

namespace model = weft::model;
using weft::detail::suspend_outcome;
using weft::detail::wait_step;
using namespace weft::model;

namespace {

// What the handler hands over: as handed_work. The count tells whoever blocks, without a step.
struct handed {
    weft::detail::handed_list<layer, waiter> list;
    int count = 0;

    void add(waiter& taken) {
        list.push(taken, [&taken](waiter* next) { taken.next = next; });
        ++count;
    }
    void finish() {
        waiter* each = list.take();
        if (each == nullptr) return;  // None, or none seen yet.
        count = 0;
        while (each != nullptr) {
            waiter* const next = each->next;
            complete(each);
            each = next;
        }
    }
};

// Of a descriptor: here only how many there are.
struct counted_references {
    layer::atomic<int>& of;
    void add() const { of.fetch_add(1, order::relaxed); }
    void drop() const { of.fetch_sub(1, order::relaxed); }
};

// The polls are counted by both workers, without order.
struct fixture : two_rings<fixture, side_of<2>, layer::atomic<int>> {
    weft::detail::stranded_mark<layer> mark;  // Of ring 0.
    weft::detail::arming_guard<layer> arming;
    handed left;
    layer::atomic<unsigned> signal{0};
    layer::var<int> wanted;
    int received = 0;
    bool always_kept = false;  // Then who runs on worker 1 knows that ring 0 is stranded.
    unsigned home = 0;

    explicit fixture(int messages) : wanted(messages) { file.overflows = false; }

    template <class References = no_references>
    auto wait_at(unsigned here, References references = {}) {
        return reads.wait(&branch, static_cast<std::uint16_t>(here), references,
                          [this](std::uint16_t at) { return at == 0 && mark.stranded(); });
    }
    void arm(unsigned here, const weft::detail::wait_decision& decision) {
        if (decision.arms) home = here;
        two_rings::arm(here, decision);
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
            model::check(!always_kept || home == 1, "it waits at a worker that is kept");
            if (branch.word.suspend() == suspend_outcome::suspended) return;
        }
    }

    // A turn of a poller. The owner of ring 0 is back with it, and leaves no signal behind.
    void reap(unsigned here) {
        if (here == 0) {
            signal.store(0, order::relaxed);
            mark.back();
            if (!left.list.empty()) left.finish();
        }
        two_rings::reap(here);
    }

    void work(unsigned here) {
        while (!take_turn(here)) {}
    }
    bool take_turn(unsigned here) {
        model::block_until([&] { return has_work(here) || (here == 0 && wants_owner()); },
                           "worker without work");
        reap(here);
        if (branch.runnable.exchange(0, order::acquire) != 0) run(here);
        return ended.peek() != 0;
    }

    // As ring_poller::serve_interrupted(), in a task.
    void serve_interrupted() {
        signal.store(0, order::relaxed);
        if (arming.held()) return;
        two_rings::reap(0, [this](waiter* found) {
            if (found != nullptr) left.add(*found);
        });
    }
    bool wants_owner() const {
        return signal.peek() != 0 || left.count != 0;
    }
    bool finds_something() const {
        return inboxes[0].peek() != 0 || file.pending(0) || left.count != 0;
    }

    // As the watchdog.
    auto rescuer() {
        return model::named_thread{
            "rescuer", [this] {
                for (;;) {
                    model::block_until([this] { return finds_something() || ended.peek() != 0; },
                                       "nothing to rescue");
                    if (ended.peek() != 0) return;
                    mark.strand();
                    signal.store(1, order::relaxed);
                    model::block_until([this] { return signal.peek() == 0 || ended.peek() != 0; },
                                       "no answer to the signal");
                    left.finish();
                }
            }};
    }
    // The owner runs a task, and is interrupted at most so often.
    void be_kept(unsigned times) {
        for (unsigned i = 0; i < times && ended.peek() == 0; ++i) {
            model::block_until([this] { return signal.peek() != 0 || ended.peek() != 0; },
                               "the task goes on");
            if (signal.peek() != 0) serve_interrupted();
        }
    }
    auto kept_worker() {
        return model::named_thread{"kept worker", [this] {
                                       while (ended.peek() == 0) be_kept(1);
                                   }};
    }
    auto returning_worker() {
        return model::named_thread{"worker 0", [this] {
                                       be_kept(model::choose(2));
                                       work(0);
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
        model::check(left.list.empty(), "something is left that was handed over");
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

// A multishot poll goes on after its first event; a second one adds nothing but time.
constexpr int messages_for(bool multishot) {
    return multishot ? 1 : 2;
}

// The owner does not come back before everything is received.
template <bool Multishot>
void kept() {
    constexpr int messages = messages_for(Multishot);
    fixture all(messages);
    all.wait_in_ring_zero(Multishot);
    all.always_kept = true;
    model::run_threads(all.rescuer(), all.kept_worker(), all.worker("worker 1", 1),
                       all.peer(messages));
    all.always_kept = false;
    all.settle(messages);
}

// Whoever is about to wait in a ring that is stranded does so in its own.
void leaves() {
    fixture all(1);
    all.arm(0, all.wait_at(0));
    model::check(all.reads.withdraw(&all.branch), "nobody took the waiter");
    all.mark.strand();
    all.always_kept = true;
    model::run_threads(all.operating_worker("worker 1", 1), all.peer(1));
    all.always_kept = false;
    all.settle(1);
}

// The owner comes back at any time, and may itself run the operation.
template <bool Multishot>
void comes_back() {
    constexpr int messages = messages_for(Multishot);
    fixture all(messages);
    all.wait_in_ring_zero(Multishot);
    model::run_threads(all.rescuer(), all.returning_worker(), all.worker("worker 1", 1),
                       all.peer(messages));
    all.settle(messages);
}

// An operation that runs on another worker meets the poll of a ring that becomes stranded.
void waits_while_it_strands() {
    fixture all(1);
    all.arm(0, all.wait_at(0));
    model::check(all.reads.withdraw(&all.branch), "nobody took the waiter");
    model::run_threads(all.rescuer(), all.kept_worker(), all.operating_worker("worker 1", 1),
                       all.peer(1));
    all.settle(1);
}

// A descriptor is closed while the task that keeps the owner is about to wait for it there, and
// keeps it again afterwards. The close ends meanwhile: `unreleased` counts the references.
void closes_while_it_arms() {
    fixture all(1);
    const auto arms = [&] {
        all.unreleased.fetch_add(1, order::relaxed);  // Of the operation.
        all.arming.begin();
        const auto decision = all.wait_at(0, counted_references{all.unreleased});
        // A step, so that anything may happen before.
        if (all.signal.load(order::relaxed) != 0) all.serve_interrupted();
        if (decision.arms) {
            all.file.submit(decision.armed.record, 0, decision.armed.multishot,
                            decision.armed.sequence);
        }
        all.arming.end();
        // Where it is not there any more, whoever has it completes it.
        if (decision.step == wait_step::closing) all.reads.withdraw(&all.branch);
        all.unreleased.fetch_sub(1, order::relaxed);
    };
    const auto close = [&] {
        const auto decision = all.reads.close();
        complete(decision.waiter);
        if (decision.cancels) {
            all.inboxes[decision.poll.home].fetch_or(1U << decision.poll.record, order::release);
        }
    };
    layer::atomic<int> under_way{2};
    model::run_threads(all.rescuer(), model::named_thread{"kept worker", [&] {
                           arms();
                           under_way.fetch_sub(1, order::relaxed);
                           while (all.ended.peek() == 0) all.be_kept(1);
                       }},
                       model::named_thread{"closer", [&] {
                           close();
                           under_way.fetch_sub(1, order::relaxed);
                           model::block_until([&] {
                               return under_way.peek() == 0 && all.unreleased.peek() == 0;
                           }, "the close does not end");
                           all.ended.store(1, order::release);
                       }});
    model::check(all.file.idle(), "a poll is left");
}

// Two are handed over while the rescuer takes what there is, and the owner comes back.
void hands_over() {
    handed left;
    std::array<waiter, 2> waiting;
    std::array<int, 2> times{};
    const auto finish = [&] {
        for (waiter* each = left.list.take(); each != nullptr; each = each->next) {
            ++times[static_cast<std::size_t>(each - waiting.data())];
        }
    };
    model::run_threads(model::named_thread{"owner", [&] {
                           for (waiter& each : waiting) left.add(each);
                           if (!left.list.empty()) finish();
                       }},
                       model::named_thread{"rescuer", finish});
    model::check(times[0] == 1 && times[1] == 1, "a waiter is lost or completed twice");
}

const model::scenario scenarios[] = {
    {"hands over", hands_over},
    {"closes while it arms", closes_while_it_arms},
    {"leaves", leaves},
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
