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
//   * Before it looks for work elsewhere or sleeps: for all that are noted. So nobody sleeps over
//     an unverified wait, and no timer is needed.
//   * While it is busy: every 1024 turns of its loop, for what has waited for 1024 turns or more.
//   * Nothing is noted when the worker has nothing else to do, since it would ask at once; nor when
//     a processor is idle, since what is owed here this worker alone can pay, and it may be about
//     to run something long. Nor when the list is full, or when the last question of this
//     descriptor found something. Then the operation makes its call, as if this did not exist.
// So a wait is unverified for a bounded number of turns of its worker, whatever the kernel does.
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
// Who touches it: the owner.
//
// Rejected: entries that an event takes out of the list, since events of a shared epoll set are
// taken by any worker. A check after a time, since a worker that sleeps would have to wake up for
// it; to ask when there is nothing else to do is both earlier and cheaper. To nudge without asking:
// each would be a trip through the run queue and the very call that was put off.
#pragma once

#include <weft/detail/base/assert.hpp>

#include <array>
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

template <class Side, std::size_t Capacity>
class unverified_waits {
public:
    using entry = unverified_wait<Side>;
    static constexpr std::size_t capacity = Capacity;

    bool empty() const noexcept { return count_ == 0; }

    /// May one more be noted? False: make the call now.
    bool admits() noexcept {
        if (count_ < Capacity) return true;
        if (refused_ != 0) {
            --refused_;
            return false;
        }
        drop_ended();
        refused_ = Capacity / 4;  // Where all last, not to look at them each time.
        return count_ < Capacity;
    }

    /// Notes a wait that the owner has just published.
    void note(Side& side, std::uint32_t number, int fd) noexcept {
        WEFT_ASSERT(count_ < Capacity);
        entries_[count_++] = {.side = &side, .number = number, .fd = fd};
    }

    /// Asks for all, or for what was noted before the last call. `ask` gets a span of entries, and
    /// sets `readable` in those that are, or in all where it cannot tell; `wake` gets each waiter
    /// that is to try again.
    template <class Ask, class Wake>
    void verify(bool all, Ask&& ask, Wake&& wake) noexcept {
        drop_ended();
        const std::span due(entries_.data(), all ? count_ : old_);
        if (!due.empty()) ask(due);
        for (const entry& each : due) {
            if (!each.readable || !each.side->waits(each.number)) continue;
            if (auto* const taken = each.side->nudge()) wake(*taken);
        }
        for (std::size_t i = due.size(); i < count_; ++i) entries_[i - due.size()] = entries_[i];
        count_ -= due.size();
        old_ = count_;
    }

private:
    void drop_ended() noexcept {
        std::size_t kept = 0;
        std::size_t kept_old = 0;
        for (std::size_t i = 0; i < count_; ++i) {
            const entry each = entries_[i];
            if (!each.side->waits(each.number)) continue;
            if (i < old_) ++kept_old;
            entries_[kept++] = each;
        }
        count_ = kept;
        old_ = kept_old;
    }

    std::size_t count_ = 0;
    std::size_t old_ = 0;      ///< Those before were noted before the last call of verify().
    std::size_t refused_ = 0;  ///< A full list: so many more are refused without looking.
    std::array<entry, Capacity> entries_;
};

}  // namespace weft::detail
