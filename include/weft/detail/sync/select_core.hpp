// SPDX-License-Identifier: MIT
//
// How one task waits at several channels, and is served by one of them (Go's selectgo).
//
// A select has a case for each channel that it would send to or receive from, and for each event
// that it would wait for: something that happens once, such as a point in time. It locks all of its
// channels, in the order of their addresses and each once, and looks at the cases in random order:
// the first that need not wait is made, and that is all. Where all would have to wait, it is put in
// line at each of them, and the locks are let go. Then it asks to be told of the events, and
// sleeps, once.
//
//     select     locks all; a case can be made: it is decided on; unlocks; moves the value
//                                     none can: in line at all of them; unlocks; waits for the
//                                     events; parks
//     peer       holds the lock of one channel, takes the case off its line, and claims the select:
//                  claimed: the value is moved, the case is the winner, the select is completed
//                  not claimed: its select is over; it lets go of it, and looks on at the next in
//                  line
//     event      has been taken off the object that knows it (a timer heap, the join word of a
//                task, the list of a stop token); claims the select:
//                  claimed: completes the select
//                  not claimed: lets go of it
//     canceller  claims the select as well, for no case
//     select     resumed: takes the other cases off their lines, under the lock of each, and the
//                  events off their objects; of one that is not there any more and that has not
//                  won, it waits until it has let go
//
// A case that has to be tried again and again, such as the readiness of a descriptor, claims as an
// event does, from a branch of its own: select_sides.hpp.
//
// Why one case is made. The claim is a compare-and-swap of one word from `nobody`, so it succeeds
// once: for a peer, or for a canceller. While the select looks and lines up, nobody can find it: it
// stands in no line before it holds all locks, and holds them until it stands in all of them. So it
// needs no claim of its own to take a case that is ready, and never has to give one back.
//
// Why no value is lost. A peer moves a value only after it has claimed, and a claimed select is
// completed by who claimed it. A case that was taken off its line and not claimed has moved
// nothing.
//
// Why nobody sleeps beside what it waits for. Under all locks no case could be made, and from then
// on it stands in line: what changes at a channel finds it there. A peer that takes a case of a
// select that is over looks on, so nobody behind it is forgotten.
//
// Why nothing touches a select that has returned. Peers claim under the lock that it takes to leave
// its lines, but for a case that was taken off its line: whoever has claimed it completes the
// select as his last touch, and whoever has not says so with his. For such a case the select must
// not ask for the lock, since the channel may have been closed and destroyed meanwhile: nobody
// stood in line there any more. An event is not found on its object while it comes here without a
// lock; its last touch is to say so, and the select waits for that, as the end of a deadline does
// (deadline_scope.hpp).
//
// Why it does not deadlock. Whoever holds several of these locks has taken them in one order;
// everybody else holds one, and waits for none with it. Completing and moving is done without any.
//
// Rejected: to line up at one channel after the other (a peer may claim the select in the middle,
// while it has found another case that could be made, and claimed a peer for that: one of the two
// claims would have to be given back, and whoever has dropped a case meanwhile forgets it).
#pragma once

#include <weft/detail/base/assert.hpp>
#include <weft/detail/sync/channel_core.hpp>
#include <weft/detail/sync/select_word.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace weft::detail {

/// One case. `Waiter` is what stands in line. Without a channel it is an event.
template <class Layer, class Waiter>
struct select_case {
    channel_core<Layer, Waiter>* on = nullptr;
    Waiter* waiter = nullptr;
    std::uint32_t index = 0;  ///< Which case of the select it is; they are looked at in any order.
    bool sends = false;
    bool happened = false;  ///< The event.
};

/// What a select has decided.
template <class Waiter>
struct select_decision {
    static constexpr std::uint32_t none = static_cast<std::uint32_t>(-1);

    std::uint32_t chosen = none;  ///< The case that is made; none: it stands in line, or need not.
    send_decision<Waiter> sent{send_step::waits};
    receive_decision<Waiter> received{receive_step::waits};
};

/// The locks of the channels of a select, each once, in the order of their addresses.
template <class Layer, class Waiter>
class select_locks {
public:
    using one_case = select_case<Layer, Waiter>;

    /// `order` has room for `count` pointers, and is used until the end.
    select_locks(const one_case* cases, channel_core<Layer, Waiter>** order,
                 std::size_t count) noexcept
        : order_(order) {
        for (std::size_t i = 0; i < count; ++i) {
            if (cases[i].on != nullptr) order[count_++] = cases[i].on;
        }
        std::sort(order, order + count_, std::less<>());
        count_ = static_cast<std::size_t>(std::unique(order, order + count_) - order);
        for (std::size_t i = 0; i < count_; ++i) order_[i]->lock().lock();
    }
    select_locks(const select_locks&) = delete;
    select_locks& operator=(const select_locks&) = delete;
    ~select_locks() {
        for (std::size_t i = count_; i != 0; --i) order_[i - 1]->lock().unlock();
    }

private:
    channel_core<Layer, Waiter>** order_;
    std::size_t count_ = 0;
};

/// Decides, looking at the cases in the order in which they lie, a random one; lines up if nothing
/// can be done now and `waits` says so. The caller makes the chosen case, as it would make a single
/// send or receive.
template <class Layer, class Waiter>
select_decision<Waiter> select_or_line_up(const select_case<Layer, Waiter>* cases,
                                          channel_core<Layer, Waiter>** order, std::size_t count,
                                          bool waits) noexcept {
    const select_locks<Layer, Waiter> held(cases, order, count);
    for (std::size_t i = 0; i < count; ++i) {
        const auto& each = cases[i];
        select_decision<Waiter> decided{each.index};
        if (each.on == nullptr) {
            if (each.happened) return decided;
        } else if (each.sends) {
            decided.sent = each.on->send_locked(nullptr);
            if (decided.sent.step != send_step::waits) return decided;
        } else {
            decided.received = each.on->receive_locked(nullptr);
            if (decided.received.step != receive_step::waits) return decided;
        }
    }
    for (std::size_t i = 0; waits && i < count; ++i) {
        if (cases[i].on == nullptr) continue;
        cases[i].sends ? cases[i].on->line_up_sender(*cases[i].waiter)
                       : cases[i].on->line_up_receiver(*cases[i].waiter);
    }
    return {};
}

/// The select, resumed: no peer finds it any more when this returns. Of a case that was taken off
/// its line the channel may be gone, so nothing asks for its lock: `winner` is what has claimed the
/// select, and the others say that they have let go.
template <class Layer, class Waiter>
void leave_lines(const select_case<Layer, Waiter>* cases, std::size_t count,
                 std::uint32_t winner) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        if (cases[i].on == nullptr || cases[i].waiter->orphaned ||
            winner == select_word<Layer>::first_case + cases[i].index ||
            cases[i].waiter->taken.has_let_go()) {
            continue;
        }
        cases[i].sends ? cases[i].on->withdraw_sender(*cases[i].waiter)
                       : cases[i].on->withdraw_receiver(*cases[i].waiter);
    }
}

}  // namespace weft::detail
