// SPDX-License-Identifier: MIT
//
// The unverified waits of one worker: operations that wait for readiness although no system call
// has told them EAGAIN, and for which the kernel is still to be asked.
//
// Why there are such waits. A read that gets less than it asked for has emptied the socket, as a
// rule, and whatever comes later is an event of the armed poll. To ask once more before waiting
// costs a third system call for each small request, a twentieth of an echo. But a short transfer is
// not EAGAIN: sockets of other kinds stop at the end of a record, TCP stops at an urgent mark, and
// anything may stand between weft and the kernel. So the question is not left out. It is put off,
// in the hope that an event makes it superfluous, and then put for many descriptors with one call:
//
//     wait that began                      ends, or becomes one that began with EAGAIN
//     with EAGAIN                          by an event
//     unverified, noted in this list       by an event; or by poll(2), which its worker calls for
//                                          all that are due. Where that says "not readable", the
//                                          kernel has been asked after the wait was published.
//                                          Otherwise the worker *nudges*: it takes the waiter, as a
//                                          canceller would, and readies it, so that it tries again
//
// When the worker asks.
//   * The watchdog sees that something is noted, every few milliseconds while anything runs, and
//     has the worker ask for what was noted before it did so the last time. It wakes one that
//     sleeps, which asks for all. While something is noted the watchdog does not rest
//     (rest_word.hpp).
//   * Before it looks for work elsewhere or sleeps: for all, where other workers have processors,
//     also those that only run in the place of one that is kept. Only a worker that is alone may
//     sleep over such a wait; when a second one begins, it is woken and asks (set_processors.cpp).
//     So an echo of one processor, which sleeps after each request on an idle machine, is spared
//     the third call as well, and nobody idles beside a question that only a worker may put that a
//     branch has come to keep after its sleep.
// So a wait is unverified for two looks of the watchdog, or as long as one branch keeps its worker,
// whatever the kernel does. A look may be late: the watchdog starts threads.
//
// When nothing is noted, and the operation makes its call as if this did not exist:
//   * when the watchdog rests, or the system has refused it;
//   * when a processor is idle, since what is owed here this worker alone can pay, and it may be
//     about to run something long;
//   * when the list is full, or when a question of this descriptor found something a short while
//     ago. How long that counts grows where it happens again soon, so that what is no plain stream
//     costs what it cost without this.
//
// Why nothing is lost. Two things have to be shown.
//   * An entry that is dropped as ended owes nothing. The owner has published each wait itself that
//     is noted here, so by coherence it reads its own number and its own waiter, or something
//     later. Something later means that the wait was ended by an event, a closer or a canceller;
//     what waits there now has been asked since, or is noted by whoever let it wait.
//   * An entry that is dropped as not readable owes nothing. It carries the number of the file. As
//     long as the wait lasts, its operation holds a reference, so that number is the descriptor's,
//     and the answer is true. If the wait has ended beside it, the number may belong to another
//     file, and the answer does not matter: "not readable" drops an entry that owes nothing, and
//     "readable" meets no waiter, or gives a later one a false wake-up, which costs one call.
//
// Who touches it: the owner. Anybody may ask whether it is empty. A worker that has noted something
// and then parked is seen to have done so by whoever sees it parked: the count of the list is
// written before the worker changes the count of parked ones.
//
// Rejected: entries that an event takes out of the list, since events of a shared epoll set are
// taken by any worker. A worker alone that asks before it sleeps: that is the very call that was
// put off.
// A worker that limits its sleep: a timer of the kernel for each sleep costs as much. To nudge
// without asking: each would be a trip through the run queue and the very call that was put off.
#pragma once

#include <weft/detail/base/assert.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::detail {

/// `Side` is a poll_side; sides are type-stable.
template <class Side>
struct unverified_wait {
    Side* side = nullptr;
    std::uint32_t number = 0;
    int fd = -1;
    bool readable = false;  ///< The answer.
};

template <class Layer, class Side, std::size_t Capacity>
class unverified_waits {
public:
    using entry = unverified_wait<Side>;
    static constexpr std::size_t capacity = Capacity;

    /// Any thread. Relaxed: see above what orders it for those who have to know.
    bool empty() const noexcept { return count() == 0; }

    /// Owner, like all that follows: may one more be noted? False: make the call now.
    bool admits() noexcept {
        if (count() < Capacity) return true;
        if (refused_ != 0) {
            --refused_;
            return false;
        }
        drop_ended();
        refused_ = Capacity / 4;  // Where all last, not to look at them each time.
        return count() < Capacity;
    }

    /// Notes a wait that the owner has just published. A side has one wait at a time, so the last
    /// entry, if it is of the same side, has ended: a connection that is alone fills one entry.
    void note(Side& side, std::uint32_t number, int fd) noexcept {
        std::size_t at = count();
        if (at != 0 && entries_[at - 1].side == &side) {
            --at;
            old_ = std::min(old_, at);
        }
        WEFT_ASSERT(at < Capacity);
        entries_[at] = {.side = &side, .number = number, .fd = fd};
        set_count(at + 1);
    }

    /// Asks for all, or for what was noted before the last call. `ask` gets a span of entries, and
    /// sets `readable` in those that are, or in all where it cannot tell; `wake` gets each waiter
    /// that is to try again.
    template <class Ask, class Wake>
    void verify(bool all, Ask&& ask, Wake&& wake) noexcept {
        drop_ended();
        const std::size_t noted = count();
        const std::span due(entries_.data(), all ? noted : old_);
        if (!due.empty()) ask(due);
        for (const entry& each : due) {
            if (!each.readable || !each.side->waits(each.number)) continue;
            if (auto* const taken = each.side->nudge()) wake(*taken);
        }
        for (std::size_t i = due.size(); i < noted; ++i) entries_[i - due.size()] = entries_[i];
        old_ = noted - due.size();
        set_count(old_);
    }

private:
    std::size_t count() const noexcept { return count_.load(std::memory_order_relaxed); }
    void set_count(std::size_t count) noexcept { count_.store(count, std::memory_order_relaxed); }

    void drop_ended() noexcept {
        const std::size_t noted = count();
        std::size_t kept = 0;
        std::size_t kept_old = 0;
        for (std::size_t i = 0; i < noted; ++i) {
            const entry each = entries_[i];
            if (!each.side->waits(each.number)) continue;
            if (i < old_) ++kept_old;
            entries_[kept++] = each;
        }
        set_count(kept);
        old_ = kept_old;
    }

    /// Written by the owner. Relaxed, all of its operations: see empty().
    typename Layer::template atomic<std::size_t> count_{0};
    std::size_t old_ = 0;      ///< Those before were noted before the last call of verify().
    std::size_t refused_ = 0;  ///< A full list: so many more are refused without looking.
    std::array<entry, Capacity> entries_;
};

}  // namespace weft::detail
