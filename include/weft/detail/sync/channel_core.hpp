// SPDX-License-Identifier: MIT
//
// What a channel decides: which value goes where, and who waits (Go's hchan).
//
// A channel has room for `capacity` values, and two lists of those who wait, senders while it is
// full and receivers while it is empty. One lock guards all of it. A value is moved with the lock
// free, since moving it is the user's code; so each step is made twice, once as a decision under
// the lock, and then by moving the value to the place that was decided on:
//
//     send    closed                  nothing moves, the value stays with its sender
//             a receiver waits        handed: it is off its list and ours; move the value into it,
//                                     complete it
//             room                    stored: the slot is ours; move the value into it
//             neither                 the sender waits, its value stays where it is
//     recv    values                  taken: the slot is ours; move the value out of it. If a
//                                     sender waits it is off its list and ours as well: move its
//                                     value into the slot that follows the last value, complete it
//             a sender waits          passed: move its value, complete it (capacity 0)
//             closed                  the end
//             none of these           the receiver waits
//     close                           everybody who waits is ours: complete each as closed. Values
//                                     in the channel stay, to be received
//
// Why no value is lost or doubled. A value is in one of three places: with its sender, in a slot,
// or with its receiver. Who may move it is decided under the lock, for each value once: a slot by
// the counts, a waiter by taking it off its list, which a canceller can do as well, under the same
// lock. So whoever is cancelled and was still on the list has neither given nor got anything;
// whoever was not is completed by the one who took it off, and completion beats cancellation
// (operation_word.hpp).
//
// Why the order is kept. Values are put into slots, and taken from them, in the order of the
// decisions; a receiver waits only while there is no value, and a sender only while there is no
// room, so nobody overtakes somebody who waits.
//
// A slot is decided about before it is filled or emptied, so the next one whom it falls to may come
// too early, and so may the one after. Each waits for the turn that was decided on, which the slot
// counts (channel_slot.hpp), as it would wait for the lock if values were moved under it: for one
// move of each value before.
//
// A waiter may stand in several lists (select). Then only the first one who claims it may have it:
// claim() is false for the others, and they look on. A node that could not be claimed is off its
// list, for its select is over; it is not touched after the lock is free (select_core.hpp).
//
// Rejected: moving values under the lock (a constructor of the user's could use the channel); a
// queue without a lock, such as a ring of sequence numbers (a handover to somebody who waits, a
// close, and a select over several channels each need more than one word to change at once, and a
// lock that nobody else wants costs one locked operation, as such a queue does).
#pragma once

#include <weft/detail/base/assert.hpp>
#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/sync/wait_list.hpp>

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace weft::detail {

enum class send_step : std::uint8_t { closed, handed, stored, waits };
enum class receive_step : std::uint8_t { ended, taken, passed, waits };

/// A slot, and which use of it: the first value in it has round 0, the next one 1.
struct slot_turn {
    std::size_t slot = 0;
    std::uint32_t round = 0;

    slot_turn after(std::size_t capacity) const noexcept {
        return slot + 1 == capacity ? slot_turn{0, round + 1} : slot_turn{slot + 1, round};
    }
};

template <class Waiter>
struct send_decision {
    send_step step;
    Waiter* receiver = nullptr;  ///< handed: the caller's.
    slot_turn to = {};           ///< stored: the caller's to fill.
};

template <class Waiter>
struct receive_decision {
    receive_step step;
    Waiter* sender = nullptr;  ///< passed, and taken if one waited: the caller's.
    slot_turn from = {};       ///< taken: the caller's to empty.
    slot_turn to = {};         ///< taken, with a sender: the caller's to fill afterwards.
};

/// Waiter is derived from wait_links<Layer, Waiter> and has claim(), see above.
template <class Layer, class Waiter>
class channel_core {
public:
    explicit channel_core(std::size_t capacity) noexcept : capacity_(capacity) {}

    /// `self` waits if there is no room; null: it does not, and the step says `waits` all the same.
    send_decision<Waiter> send(Waiter* self) noexcept {
        const std::lock_guard held(lock_);
        return send_locked(self);
    }

    /// The same for a receiver.
    receive_decision<Waiter> receive(Waiter* self) noexcept {
        const std::lock_guard held(lock_);
        return receive_locked(self);
    }

    /// For a select, which decides about several channels at once: see select_core.hpp.
    spin_lock<Layer>& lock() noexcept { return lock_; }

    /// Whoever holds the lock.
    send_decision<Waiter> send_locked(Waiter* self) noexcept {
        if (closed_) return {send_step::closed};
        if (Waiter* const receiver = claim_first(receivers_)) return {send_step::handed, receiver};
        if (count_ < capacity_) return {send_step::stored, nullptr, add_value()};
        if (self != nullptr) senders_.push_back(*self);
        return {send_step::waits};
    }

    /// Whoever holds the lock.
    receive_decision<Waiter> receive_locked(Waiter* self) noexcept {
        if (count_ != 0) {
            const slot_turn from = remove_value();
            Waiter* const sender = claim_first(senders_);
            const slot_turn to = sender != nullptr ? add_value() : slot_turn();
            return {receive_step::taken, sender, from, to};
        }
        if (Waiter* const sender = claim_first(senders_)) return {receive_step::passed, sender};
        if (closed_) return {receive_step::ended};
        if (self != nullptr) receivers_.push_back(*self);
        return {receive_step::waits};
    }

    /// Whoever holds the lock, and has found that it has to wait.
    void line_up_sender(Waiter& waiting) noexcept { senders_.push_back(waiting); }
    void line_up_receiver(Waiter& waiting) noexcept { receivers_.push_back(waiting); }

    struct waiters {
        Waiter* senders = nullptr;
        Waiter* receivers = nullptr;
    };

    /// False: it was closed before. The caller completes all of `gone`, linked through `next`.
    bool close(waiters& gone) noexcept {
        const std::lock_guard held(lock_);
        if (closed_) return false;
        close_locked(gone);
        return true;
    }

    /// The same for a channel that is destroyed: nobody comes back to it, not even a select that is
    /// over and would leave its lines.
    void end(waiters& gone) noexcept {
        const std::lock_guard held(lock_);
        senders_.orphan_all();
        receivers_.orphan_all();
        close_locked(gone);
    }

    /// A canceller. False: somebody has taken it off, and will complete it.
    bool withdraw_sender(Waiter& waiting) noexcept {
        const std::lock_guard held(lock_);
        return senders_.remove(waiting);
    }
    bool withdraw_receiver(Waiter& waiting) noexcept {
        const std::lock_guard held(lock_);
        return receivers_.remove(waiting);
    }

    std::size_t capacity() const noexcept { return capacity_; }
    std::size_t size() const noexcept {
        const std::lock_guard held(lock_);
        return count_;
    }
    bool closed() const noexcept {
        const std::lock_guard held(lock_);
        return closed_;
    }

private:
    void close_locked(waiters& gone) noexcept {
        closed_ = true;
        gone = {claim_all(senders_), claim_all(receivers_)};
    }

    static Waiter* claim_first(wait_list<Layer, Waiter>& list) noexcept {
        while (Waiter* const first = list.pop_front()) {
            if (first->claim()) return first;
        }
        return nullptr;
    }

    // Under the lock as well, since a select that is over looks after its other cases under it.
    static Waiter* claim_all(wait_list<Layer, Waiter>& list) noexcept {
        wait_list<Layer, Waiter> claimed;
        while (Waiter* const first = claim_first(list)) claimed.push_back(*first);
        return claimed.take_all();
    }

    slot_turn add_value() noexcept {
        WEFT_ASSERT(count_ < capacity_);
        count_ = count_ + 1;
        const slot_turn added = tail_;
        tail_ = added.after(capacity_);
        return added;
    }

    slot_turn remove_value() noexcept {
        count_ = count_ - 1;
        const slot_turn removed = head_;
        head_ = removed.after(capacity_);
        return removed;
    }

    template <class T>
    using var = typename Layer::template var<T>;

    mutable spin_lock<Layer> lock_;
    var<bool> closed_{false};
    const std::size_t capacity_;
    var<std::size_t> count_{0};  ///< Values in slots, including those that are just being moved.
    var<slot_turn> head_{};      ///< Of the value that is received next.
    var<slot_turn> tail_{};      ///< Of the value that is sent next.
    wait_list<Layer, Waiter> senders_;
    wait_list<Layer, Waiter> receivers_;
};

}  // namespace weft::detail
