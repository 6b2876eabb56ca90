// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/branch/branch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace weft::detail {

/// The queue behind all processors: unbounded, first in, first out, guarded by one lock on purpose.
/// What comes here comes in batches (an overflowing ring, completions found by another worker) or
/// from outside; what leaves leaves in batches, and whoever looks reads the size first. What a
/// processor had that was given up comes in front, as in Go: it has waited longer.
class global_queue {
public:
    /// Any thread. The store of the size is the publication of idle_protocol.hpp: seq_cst, and
    /// followed by the load of the counts in wake_one().
    void push_back(branch* added) noexcept {
        const std::lock_guard held(lock_);
        items_.push_back(added);
        size_.store(items_.size(), std::memory_order_seq_cst);
    }

    /// Any thread, as local_queue::meet_owner(): the lock decides who comes first.
    void meet_pushers() noexcept {
        lock_.lock();
        lock_.unlock();
    }

    /// Any thread: `count` branches, linked through next from `first` to `last`, in order.
    void push_batch(branch* first, branch* last, std::size_t count) noexcept {
        const std::lock_guard held(lock_);
        items_.append(first, last, count);
        size_.store(items_.size(), std::memory_order_seq_cst);
    }

    /// Any thread: all of `moved`, in order, before everything else. As push_back().
    void push_front(branch_list& moved) noexcept {
        const std::lock_guard held(lock_);
        items_.prepend(moved);
        size_.store(items_.size(), std::memory_order_seq_cst);
    }

    /// Moves the first branches to `taken`: Go's share, min(size / processors + 1, limit, size).
    void pop_share(std::size_t processors, std::size_t limit, branch_list& taken) noexcept {
        const std::lock_guard held(lock_);
        const std::size_t count = std::min({items_.size() / processors + 1, limit, items_.size()});
        for (std::size_t left = count; left != 0; --left) { taken.push_back(items_.pop_front()); }
        // Relaxed, and without a locked operation: the lock has one writer at a time.
        taken_.store(taken_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
        // seq_cst: who rechecks and finds nothing also sees what this worker did before.
        size_.store(items_.size(), std::memory_order_seq_cst);
    }

    /// seq_cst: pairs with the stores above in the recheck of a parking worker. Elsewhere it is a
    /// hint.
    std::size_t size() const noexcept { return size_.load(std::memory_order_seq_cst); }

    /// How many branches it has given away. Relaxed: a hint about its progress, for the watchdog.
    std::uint64_t taken() const noexcept { return taken_.load(std::memory_order_relaxed); }

private:
    spin_lock<layer> lock_;
    branch_list items_;
    layer::atomic<std::size_t> size_{0};
    layer::atomic<std::uint64_t> taken_{0};
};

}  // namespace weft::detail
