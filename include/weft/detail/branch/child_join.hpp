// SPDX-License-Identifier: MIT
//
// The join of children: a branch waits until all that it has forked have ended.
//
//     left      meaning                                        changed by
//     n         so many children have not ended                child: count_down()
//     0         all have ended                                 nobody
//
// The parent publishes the join by queueing the children, and parks as on any other operation, in
// its own operation word. A child that has ended leaves its scope, then counts down; whoever
// comes last completes the parent's word, and readies it if the parent has parked by then. So there
// is one completer, and the word orders it against the parent that still parks, and against a stop:
//
// A stop does not end the wait, since the children lie in the parent's frame. Its canceller finds
// that the operation cannot be taken off, and lets go; then the last child lets go as well, and
// readies. What the stop does end is the children, which are in the same scope or inside it.
//
// Why nothing is touched too late. The join lies in the parent's frame, which stays until the
// parent goes on, and that is after the word was completed, which is the last touch of the last
// child. For the others the countdown is the last touch. A child leaves its scope before it counts
// down, and the scope is the parent's innermost one or lies in the parent's frame, so it is there.
//
// What children did is seen by the parent: each countdown releases, and the last one, which all
// others come before in the order of the counter, acquires; it hands that on through the word.
//
// Rejected: a share for the parent in the counter, dropped when it parks (one more locked
// operation; the word does the same); a lock (nothing but the count is to be decided).
#pragma once

#include <atomic>
#include <cstddef>

namespace weft::detail {

template <class Layer>
class child_join {
public:
    /// The parent, before it queues the children, which publishes this: hence relaxed.
    void begin(std::size_t children) noexcept { left_.store(children, std::memory_order_relaxed); }

    /// A child has left its scope. True: all have ended; the caller completes the parent, and
    /// touches nothing of this object. False: it touches nothing at all.
    [[nodiscard]] bool count_down() noexcept {
        // Release: what this child did, for who comes last. Acquire: takes over what the others
        // did, through the read-modify-writes in between.
        return left_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    }

private:
    typename Layer::template atomic<std::size_t> left_{0};
};

/// The end of a child, as the essay orders it: leaves `scope`, counts down, completes the parent,
/// which `complete(parent)` may ready.
template <class Layer, class Scope, class Branch, class Complete>
void end_child(Scope& scope, typename Scope::member& member, child_join<Layer>& join,
               Branch& parent, Complete&& complete) noexcept {
    scope.leave(member);
    if (join.count_down()) { complete(parent); }
}

}  // namespace weft::detail
