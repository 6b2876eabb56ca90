// SPDX-License-Identifier: MIT
//
// The end of a task as a case of a select: an event (select_core.hpp) that lies in the join word of
// the task (join_word.hpp) while the select waits.
//
//     select      finished already: it has happened. Otherwise publishes the case, tagged as a
//                 listener; too late: it happens now
//     finisher    exchanges the word, and finds the case: it is off its object, and happens
//     deserter    (the handle goes at the end of a runtime) the same
//     select      resumed: if the case has happened, or has let go, it is off already. Otherwise
//                 withdraws it, as a canceller withdraws a branch; that fails where somebody has
//                 just taken it, and then the select waits until that one has let go
//
// Why the handle stays usable. The case takes nothing from the task: after it has happened the word
// is `finished`, which a join finds at once, and after it was withdrawn the word is `running`. One
// party waits on a join word at a time, be it a join or a case.
//
// Why the select asks whether the case has let go before it touches the join word. A deserter gives
// the task up, so its control block may go; it lets go of the case first.
//
// Rejected: a child branch that awaits the handle (a frame, a trip through a queue, and a select
// that parks a second time until its losers have ended); a branch of its own for each case (the
// same without the frame).
#pragma once

#include <weft/detail/sched/join_word.hpp>
#include <weft/detail/sync/select_word.hpp>

#include <cstdint>

namespace weft::detail {

/// Waiter is that of the join word, Word is select_word or what a model makes of it.
template <class Layer, class Waiter, class Word = select_word<Layer>>
class select_join {
public:
    using join = join_word<Layer, Waiter>;

    /// The select, in its lines. False: the task has ended.
    bool publish(join& on, Waiter* self) noexcept {
        published_ = on.publish(self, join_kind::listener);
        return published_;
    }

    /// Whoever has taken it out of the join word. True: the caller completes the select. False: it
    /// touches nothing any more.
    bool happen(Word& of, std::uint32_t index) noexcept { return event_.happen(of, index); }

    /// The select, resumed, or about to be destroyed: nobody finds it when this returns.
    void leave(join& on, Waiter* self, const Word& of, std::uint32_t index) noexcept {
        if (!published_) return;
        published_ = false;
        if (of.winner() == select_word<Layer>::first_case + index || event_.has_let_go()) return;
        if (!on.withdraw(self, join_kind::listener)) event_.await_let_go();
    }

private:
    select_event<Layer> event_;
    bool published_ = false;
};

}  // namespace weft::detail
