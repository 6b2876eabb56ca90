// SPDX-License-Identifier: MIT
//
// A case of a select that has to be tried on a worker, again and again: the readiness of a
// descriptor, which is asked for with a system call, waits for its turn, and is woken up falsely.
//
// Such a case has a branch of its own, its *side*, and waits by the ordinary operation
// (io_operation.hpp), which the select starts in its lines. A side has no frame: workers take it
// from their queues as any branch that repeats its operation, and when that has ended there is
// nothing to resume. So nothing that wakes a branch up has to know of selects.
//
//     side        its operation has ended, on the worker that ran it: claims the select, counts
//                 itself off, and completes the select if it has won, or is the last one
//     select      resumed for the first time: leaves its lines, and withdraws its sides:
//                   parked          it takes the operation off its object, as a canceller does,
//                                   and counts the side off itself
//                   being completed whoever does that readies the side; or both let go, and who
//                                   comes second owns the side (operation_word.hpp)
//                   queued, runs    it sees the stop, or ends without, and counts itself off
//                 Then it counts itself off. Last: it goes on. Otherwise it parks once more, and
//                 the last side completes it
//
// Why nothing touches a select that has returned. Each side is counted, and so is the select, which
// goes on when all are counted off. Counting itself off is the last touch of a side that neither
// won nor is the last. One that has won completes the select afterwards: but then the select has
// not been resumed, or it would have been completed by somebody else who has claimed it. For the
// same reason a side that has won is never the last one. One that is the last completes a select
// that waits for nothing else, parked or about to park.
//
// Why it does not deadlock. A side that was stopped ends when a worker runs it. The select does not
// keep its worker meanwhile: that is why it parks, and does not wait as for an event, whose last
// touch is a matter of a few instructions on a thread that runs.
//
// Why a stop leaves the second wait alone. The word of the select is claimed, so its unlink() says
// no, and the canceller lets go beside the last side, as with a join of children (child_join.hpp).
//
// Rejected: readiness that claims the select straight from the wait word, by a tag as in
// select_join.hpp (who has been woken up falsely would have to give the claim back, and the turn of
// a descriptor is handed to operations); a child branch with a frame (memory, and nothing to run in
// it); sides on the heap that the select leaves behind (they would keep the turn of their
// descriptor beyond its end).
#pragma once

#include <weft/detail/branch/child_join.hpp>
#include <weft/detail/sync/select_word.hpp>

#include <cstddef>
#include <cstdint>

namespace weft::detail {

template <class Layer>
class select_sides {
public:
    /// The select, before it starts its sides.
    void begin(std::size_t sides) noexcept { left_.begin(sides + 1); }

    /// A side, when its operation has ended: its last touch, unless the result is true. Then the
    /// caller completes the select. Word is select_word, or what a model makes of it.
    template <class Word>
    [[nodiscard]] bool ended(Word& of, std::uint32_t index) noexcept {
        const bool won = of.claim(select_word<Layer>::first_case + index);
        return left_.count_down() || won;
    }

    /// The select, resumed: stops a side that it has started and that has not won. `unlink()` takes
    /// its operation off its object. True: the side is the caller's, which calls withdrawn().
    /// False: it counts itself off, or has done so.
    template <class SideWord, class Unlink>
    [[nodiscard]] static bool withdraw(SideWord& side, Unlink&& unlink) noexcept {
        if (!side.request_stop(false)) return false;
        if (!unlink()) return side.let_go();
        side.withdrawn();
        return true;
    }

    /// The select, for a side that is its own again, or was not started.
    void withdrawn() noexcept { static_cast<void>(left_.count_down()); }

    /// The select, when it has withdrawn its sides. True: it goes on. False: it parks, and the last
    /// side completes it.
    [[nodiscard]] bool leave() noexcept { return left_.count_down(); }

private:
    child_join<Layer> left_;
};

}  // namespace weft::detail
