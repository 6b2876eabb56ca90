// SPDX-License-Identifier: MIT
#include <weft/detail/time/timer_heap.hpp>

#include <weft/detail/base/assert.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

namespace weft::detail {

using guard = std::lock_guard<spin_lock<layer>>;

timer_heap::~timer_heap() = default;

// Memory for one chunk more. Others may have made room meanwhile, or used it; then the caller, who
// looks again under the lock, comes back.
void timer_heap::grow() {
    lock_.lock();
    const std::size_t chunks = chunks_.size();
    const bool table_full = chunks == chunks_.capacity();
    const bool too_many = size_ >= not_in_heap - 1;
    lock_.unlock();
    if (too_many) {
        throw std::bad_alloc();
    }
    auto added = std::make_unique_for_overwrite<chunk>();
    std::vector<std::unique_ptr<chunk>> table;
    if (table_full) {
        table.reserve(std::max<std::size_t>(8, 2 * chunks));
    }
    const guard held(lock_);
    if (has_room()) {
        return;
    }
    if (chunks_.size() == chunks_.capacity()) {
        if (table.capacity() <= chunks_.size()) {
            return;
        }
        for (auto& old : chunks_) {
            table.push_back(std::move(old));
        }
        chunks_.swap(table);
    }
    chunks_.push_back(std::move(added));
}

[[gnu::hot]]
void timer_heap::insert(timer& added, monotonic_time when) noexcept {
    // Release pairs with remove(), which may come by way of the heap that it was in before.
    added.heap_.store(this, std::memory_order_release);
    ++size_;
    sift_up(size_ - 1, {when, &added});
    if (added.place_ == 0) {
        publish_earliest();
    }
}

void timer_heap::add(timer& added, monotonic_time when) {
    for (;; grow()) {
        const guard held(lock_);
        if (has_room()) {
            insert(added, when);
            return;
        }
    }
}

// The last entries, since taking them leaves a heap behind without further ado.
std::size_t timer_heap::move_to(timer_heap& other, std::size_t limit) noexcept {
    WEFT_ASSERT(&other != this);
    std::unique_ptr<chunk> spare;  // At most one, since the limit is less than a chunk; freed last.
    limit = std::min(limit, chunk_size - 1);
    for (;;) {
        std::size_t moved = 0;
        {
            const guard held(lock_);
            if (size_ == 0) {
                return 0;
            }
            const guard other_held(other.lock_);
            while (moved < limit && size_ != 0 && other.has_room()) {
                const entry last = at(size_ - 1);
                if (auto freed = take_at(size_ - 1)) {
                    spare = std::move(freed);
                }
                other.insert(*last.item, last.when);
                ++moved;
            }
            publish_earliest();
        }
        if (moved != 0) {
            return moved;
        }
        try {
            other.grow();
        } catch (const std::bad_alloc&) {
            return 0;
        }
    }
}

[[gnu::hot]]
bool timer_heap::remove(timer& removed) noexcept {
    std::unique_ptr<chunk> spare;  // Freed after the lock.
    for (;;) {
        // Acquire pairs with insert(). Once set it is never null again, and heaps outlive timers.
        timer_heap* const heap = removed.heap_.load(std::memory_order_acquire);
        if (heap == nullptr) {
            return false;
        }
        const guard held(heap->lock_);
        // Relaxed: it changes under the lock of this heap only, if it names it.
        if (removed.heap_.load(std::memory_order_relaxed) != heap) {
            continue;  // It has moved meanwhile.
        }
        if (removed.place_ == not_in_heap) {
            return false;
        }
        const bool was_earliest = removed.place_ == 0;
        spare = heap->take_at(removed.place_);
        if (was_earliest) {
            heap->publish_earliest();
        }
        return true;
    }
}

[[gnu::hot]]
std::size_t timer_heap::collect_due(monotonic_time now, timer** due, std::size_t limit) noexcept {
    if (earliest_hint() > now) {
        return 0;
    }
    std::size_t count = 0;
    std::unique_ptr<chunk> spare;  // At most one chunk becomes spare for each 1024 removals.
    const guard held(lock_);
    while (count < limit && size_ != 0 && at(0).when <= now) {
        due[count++] = at(0).item;
        if (auto freed = take_at(0)) {
            spare = std::move(freed);
        }
    }
    publish_earliest();
    return count;
}

std::size_t timer_heap::size() noexcept {
    const guard held(lock_);
    return size_;
}

void timer_heap::publish_earliest() noexcept {
    earliest_.store(size_ == 0 ? no_deadline : at(0).when, std::memory_order_seq_cst);
}

void timer_heap::sift_up(std::size_t place, entry value) noexcept {
    while (place != 0) {
        const std::size_t parent = (place - 1) / arity;
        if (at(parent).when <= value.when) {
            break;
        }
        put(place, at(parent));
        place = parent;
    }
    put(place, value);
}

void timer_heap::sift_down(std::size_t place, entry value) noexcept {
    for (;;) {
        const std::size_t first = place * arity + 1;
        if (first >= size_) {
            break;
        }
        const std::size_t end = std::min(first + arity, size_);
        std::size_t least = first;
        for (std::size_t child = first + 1; child < end; ++child) {
            if (at(child).when < at(least).when) {
                least = child;
            }
        }
        if (at(least).when >= value.when) {
            break;
        }
        put(place, at(least));
        place = least;
    }
    put(place, value);
}

// Returns a chunk that is no longer needed, to be freed after the lock; one spare chunk is kept so
// that a heap at the border of a chunk does not allocate and free in turn.
std::unique_ptr<timer_heap::chunk> timer_heap::take_at(std::size_t place) noexcept {
    at(place).item->place_ = not_in_heap;
    --size_;
    const entry last = at(size_);
    if (place != size_) {
        if (place != 0 && last.when < at((place - 1) / arity).when) {
            sift_up(place, last);
        } else {
            sift_down(place, last);
        }
    }
    std::unique_ptr<chunk> spare;
    if (size_ + chunk_size < (chunks_.size() - 1) * chunk_size) {
        spare = std::move(chunks_.back());
        chunks_.pop_back();
    }
    return spare;
}

}  // namespace weft::detail
