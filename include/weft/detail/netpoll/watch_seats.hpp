// SPDX-License-Identifier: MIT
//
// The seats in front of a shared epoll set: which of the parked workers wait in it.
//
// Whoever takes an event out of the set leaves its seat and runs a branch, perhaps for long. If it
// was the only one there, another worker has to be woken to watch the set, for every event, which
// costs more than most requests. So there are two seats. While one of the two is busy the other one
// goes on waiting, and nobody has to be woken; a third worker is, when both have left. The kernel
// wakes the one that came last, so with little to do it is always the same one, and the other one
// sleeps. More than two would serve no event sooner, and each call by the common bell
// (bell_word.hpp) may wake everybody who sits there.
//
//     who parks           makes itself known as parked (idle_protocol.hpp), then takes a seat if
//                         one is free; otherwise it sleeps elsewhere
//     who stops looking   leaves its seat before; then, about to run a branch, if nobody sits, but
//     for work            somebody is parked and nobody searches, it wakes one, which looks for
//                         work itself and parks in the end
//
// Why the set is not left alone while somebody is parked. Let worker B be parked without a seat:
// when it asked, both were taken. Whoever sat there leaves its seat before it comes off the list of
// parked workers, and looks after that; B is on the list before it asks. Both changes of the list
// are read-modify-writes of one word, so they have an order. If the last one to leave comes off the
// list first, its leaving happened before B asked, and B would have found the seat. So it comes off
// the list after B has parked; it looks after that, finds nobody sitting (or somebody who has sat
// down since), and finds B parked: it wakes somebody, unless somebody searches. Who searches parks
// in the end, and sits down, or looks.
//
// So the word itself needs no order beyond its own, and everything here is relaxed. A look that
// finds an older count than the newest one finds one that is not older than the looker's own
// leaving; if somebody has sat down since, it wakes one for nothing.
//
// A failed attempt to sit down must not change the count for a moment, as an addition that is taken
// back would: somebody who leaves could take it for a watcher.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::detail {

template <class Layer, std::uint32_t Seats = 2>
class watch_seats {
public:
    /// A worker that is on the list of parked workers. False: all are taken. Relaxed: see above.
    bool sit_down() noexcept {
        std::uint32_t taken = taken_.load(std::memory_order_relaxed);
        while (taken < Seats) {
            if (taken_.compare_exchange_weak(taken, taken + 1, std::memory_order_relaxed,
                                             std::memory_order_relaxed)) {
                return true;
            }
        }
        return false;
    }

    /// Whoever sits there, before it comes off the list. Relaxed: see above.
    void leave() noexcept { taken_.fetch_sub(1, std::memory_order_relaxed); }

    /// The look, of a worker that is off the list. Relaxed: see above.
    bool nobody_sits() const noexcept { return taken_.load(std::memory_order_relaxed) == 0; }

private:
    typename Layer::template atomic<std::uint32_t> taken_{0};
};

}  // namespace weft::detail
