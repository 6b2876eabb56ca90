// SPDX-License-Identifier: MIT
//
// Whether a ring is *stranded*: a task keeps its owner, and others look after those who wait there.
//
//     party             steps, in this order
//     rescuer           strand(); make the owner take a turn in its signal handler
//                       (handed_list.hpp)
//     operation         forget readiness; system call; EAGAIN; read the mark of the ring in which
//                       the poll is; publish in the wait word; leave that ring if it is stranded
//     owner, back       back(); take a turn
//
// A poll in a stranded ring tells of its events once for each signal, so a reader that stayed there
// would wait a millisecond for each message. So whoever would wait there arms a poll on its own
// ring, and has the old one cancelled. Nobody has to: a turn in the handler is a turn, and serves
// those who stay as well. The mark is therefore a hint, and relaxed. Set too long, it makes polls
// leave that need not; missed, it costs a wait for the next signal. For the handler, on the owner's
// own thread, it tells that somebody looks after what it finds.
#pragma once

#include <atomic>

namespace weft::detail {

template <class Layer>
class stranded_mark {
public:
    constexpr stranded_mark() noexcept = default;

    /// Rescuer, before it sends its signal. Relaxed: see above; the signal orders it for the
    /// handler.
    void strand() noexcept { mark_.store(true, std::memory_order_relaxed); }

    /// Owner, before it takes completions. Relaxed: a rescuer that sets it again is harmless.
    void back() noexcept {
        if (stranded()) [[unlikely]] { mark_.store(false, std::memory_order_relaxed); }
    }

    /// Anybody. Relaxed: see above.
    bool stranded() const noexcept { return mark_.load(std::memory_order_relaxed); }

private:
    typename Layer::template atomic<bool> mark_{false};
};

}  // namespace weft::detail
