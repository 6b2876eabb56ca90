// SPDX-License-Identifier: MIT
#pragma once

// One direction of a descriptor and two workers with a ring each, as the models of waiting and of
// the rescue have them.

#include "poll_fixture.hpp"

#include <array>
#include <type_traits>

namespace weft::model {

/// `Model` derives from this, and has
///
///     run(here)     the loop of the operation, on worker `here`, until it has ended or is parked
///     work(here)    what a worker does, turn after turn (take_turn())
///
/// `Count` is an int where one thread at a time counts, else an atomic.
template <class Model, class Side, class Count>
struct two_rings {
    kernel_file file;
    Side reads;
    waiter branch;
    std::array<layer::atomic<unsigned>, 2> inboxes{0U, 0U};  // Bits of the records to be cancelled.
    layer::atomic<unsigned> ended{0};
    Count unreleased{0};  // Polls.

    void arm(unsigned here, const weft::detail::wait_decision& decision) {
        if (decision.arms) {
            count(1);
            record& armed = reads.record(decision.armed.record);
            armed.listed = true;
            check(!armed.requested, "a record is armed while a request for it is under way");
            file.submit(decision.armed.record, here, decision.armed.multishot,
                        decision.armed.sequence);
        }
        if (decision.cancels_old) {
            reads.record(decision.old.record).requested = true;
            inboxes[decision.old.home].fetch_or(1U << decision.old.record, order::release);
        }
    }

    bool has_work(unsigned here) const {
        return inboxes[here].peek() != 0 || file.pending(here) || branch.runnable.peek() != 0 ||
               ended.peek() != 0;
    }

    // What a worker does in a turn of its poller. `found` gets the waiters.
    void reap(unsigned here) {
        reap(here, [](waiter* found) { complete(found); });
    }
    template <class Found>
    void reap(unsigned here, Found&& found) {
        if (inboxes[here].peek() != 0) {
            const unsigned requests = inboxes[here].exchange(0, order::acquire);
            for (unsigned i = 0; i < 2; ++i) {
                if ((requests & (1U << i)) == 0) continue;
                reads.record(i).requested = false;
                if (reads.take_cancel_request(reads.record(i))) {
                    count(-1);
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
            found(decision.waiter);
            if (decision.released) count(-1);
        }
    }

    // A worker that has work, or waits for it: reaps, and runs the operation whenever it is the one
    // to take it. True: the operation has ended.
    bool take_turn(unsigned here) {
        block_until([&] { return has_work(here); }, "worker without work");
        self().reap(here);
        if (branch.runnable.exchange(0, order::acquire) != 0) self().run(here);
        return ended.peek() != 0;
    }

    auto worker(const char* name, unsigned here) {
        return named_thread{name, [this, here] { self().work(here); }};
    }
    // A worker that runs the operation first, and then works.
    auto operating_worker(const char* name, unsigned here) {
        return named_thread{name, [this, here] {
                                self().run(here);
                                self().work(here);
                            }};
    }
    auto peer(int messages) {
        return named_thread{"peer", [this, messages] {
                                for (int i = 0; i < messages; ++i) file.write();
                            }};
    }

private:
    Model& self() noexcept { return static_cast<Model&>(*this); }

    void count(int change) {
        if constexpr (std::is_same_v<Count, int>) {
            unreleased += change;
        } else {
            unreleased.fetch_add(change, order::relaxed);
        }
    }
};

}  // namespace weft::model
