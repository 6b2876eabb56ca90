// SPDX-License-Identifier: MIT
#include <weft/detail/time/timer_heap.hpp>

#include <weft/detail/base/assert.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

namespace weft::detail {

using guard = std::lock_guard<spin_lock<layer>>;

timer_heap::~timer_heap() = default;

// Only the owner adds and so needs room; a removal beside it can only make more room.
void timer_heap::reserve_one() {
    lock_.lock();
    const std::size_t chunks = chunks_.size();
    const std::size_t size = size_;
    const bool room = size < chunks * chunk_size;
    const bool table_full = chunks == chunks_.capacity();
    lock_.unlock();
    if (room) {
        return;
    }
    if (size >= not_in_heap - 1) {
        throw std::bad_alloc();
    }
    auto added = std::make_unique_for_overwrite<chunk>();
    std::vector<std::unique_ptr<chunk>> table;
    if (table_full) {
        table.reserve(std::max<std::size_t>(8, 2 * chunks));
    }
    const guard held(lock_);
    if (table_full) {
        // Others may have shrunk the heap meanwhile, never grown it: the new table has room.
        for (auto& old : chunks_) {
            table.push_back(std::move(old));
        }
        chunks_.swap(table);
    }
    chunks_.push_back(std::move(added));
}

void timer_heap::add(timer& added, monotonic_time when) {
    reserve_one();
    const guard held(lock_);
    WEFT_ASSERT(size_ < chunks_.size() * chunk_size);
    added.heap_ = this;
    ++size_;
    sift_up(size_ - 1, {when, &added});
    if (added.place_ == 0) {
        publish_earliest();
    }
}

bool timer_heap::remove(timer& removed) noexcept {
    // Stable while the timer may be removed: it is set by add() and never changed.
    timer_heap* heap = removed.heap_;
    if (heap == nullptr) {
        return false;
    }
    std::unique_ptr<chunk> spare;  // Freed after the lock.
    const guard held(heap->lock_);
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
