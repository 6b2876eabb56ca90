// SPDX-License-Identifier: MIT
//
// The timers of one processor: a 4-ary heap in chunks.
//
// The owner adds, and so does a worker that gives its processor up (retirement.hpp): it moves what
// it has to the heap of another one. Anybody may take a timer out (a canceller) or collect those
// that are due (the owner, a thief, the sentinel). All of this is done under the heap's lock, and
// nothing else: what a timer does is done by the collector afterwards, and memory is allocated
// before. A timer knows its heap and its place there, so taking it out costs O(log n) and leaves no
// dead entry behind. Which heap that is changes under the locks of both; whoever takes a timer out
// reads it, locks that heap, and reads it again.
//
// Who locks two heaps locks the one that timers leave first. Timers only move to the heap of a
// processor that is never given up, so there is no circle.
//
// The earliest time is also an atomic, stored under the lock whenever it changes, so that busy and
// parking workers compare without the lock (see sentinel.hpp for the order).
//
// The entries lie in chunks of equal size instead of one vector, so that growing never copies a
// heap of a million entries while others wait for the lock, and shrinking returns memory.
//
// Source: the 4-ary heap of Go's time.go. Rejected: a pairing heap (no allocation, but the first
// removal after n insertions of rising times takes n steps under the lock); a hierarchical wheel
// (coarse, or many levels; precision here is a nanosecond); lazy deletion as in Go (dead entries
// need a cleaner).
#pragma once

#include <weft/detail/base/clock.hpp>
#include <weft/detail/base/layer.hpp>
#include <weft/detail/base/spin_lock.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace weft::detail {

class branch_list;
class timer_heap;

/// Something that happens at a point in time. It lies in a frame and is in at most one heap.
class timer {
public:
    /// Called once by whoever collected the timer as due, without a lock. Branches that become
    /// runnable are appended to `readied`. The object may be gone when this returns. It is one of a
    /// batch, and whoever takes another one of that batch back may wait for it
    /// (deadline_scope.hpp): so it neither blocks nor calls code of the user, such as the log.
    virtual void fire(branch_list& readied) noexcept = 0;

protected:
    timer() noexcept = default;
    /// Only of a timer that is in no heap and was in none.
    timer(const timer&) noexcept {}
    timer& operator=(const timer&) = delete;
    ~timer() = default;

private:
    friend class timer_heap;
    layer::atomic<timer_heap*> heap_{nullptr};  ///< Written under the lock of the heap it names.
    std::uint32_t place_ = 0;  ///< Under the heap's lock; not_in_heap once it was taken.
};

class timer_heap {
public:
    timer_heap() = default;
    timer_heap(const timer_heap&) = delete;
    timer_heap& operator=(const timer_heap&) = delete;
    ~timer_heap();

    /// Owner: adds a timer. The caller then compares earliest() with the sentinel's deadline.
    /// Throws std::bad_alloc, and has then changed nothing.
    void add(timer& added, monotonic_time when);

    /// Owner: moves up to `limit` timers to another heap, in no particular order. When this has
    /// moved any, the caller then compares the other heap's earliest() with the sentinel's
    /// deadline. Returns how many. 0: nothing is here, or there is no memory for it.
    std::size_t move_to(timer_heap& other, std::size_t limit) noexcept;

    /// Any thread: takes a timer that was added out of its heap. False: it was collected, and
    /// fire() is about to be called, is running, or has run.
    static bool remove(timer& removed) noexcept;

    /// Any thread: collects timers that are due at `now`, earliest first, at most `limit`.
    std::size_t collect_due(monotonic_time now, timer** due, std::size_t limit) noexcept;

    /// The earliest time, or no_deadline. seq_cst: pairs with the sentinel, see sentinel.hpp.
    monotonic_time earliest() const noexcept { return earliest_.load(std::memory_order_seq_cst); }

    /// The same as a hint, for whoever looks often: the owner between two branches, thieves.
    /// Relaxed: who misses that it has become earlier looks again, and parks only after earliest().
    monotonic_time earliest_hint() const noexcept {
        return earliest_.load(std::memory_order_relaxed);
    }

    std::size_t size() noexcept;

private:
    struct entry {
        monotonic_time when;
        timer* item;
    };
    static constexpr std::uint32_t not_in_heap = 0xffffffffU;
    static constexpr std::size_t chunk_size = 1024;
    static constexpr std::size_t arity = 4;
    struct chunk {
        entry entries[chunk_size];
    };

    entry& at(std::size_t place) noexcept {
        return chunks_[place / chunk_size]->entries[place % chunk_size];
    }
    void put(std::size_t place, const entry& value) noexcept {
        at(place) = value;
        value.item->place_ = static_cast<std::uint32_t>(place);
    }
    bool has_room() const noexcept { return size_ < chunks_.size() * chunk_size; }
    void grow();
    void insert(timer& added, monotonic_time when) noexcept;
    void sift_up(std::size_t place, entry value) noexcept;
    void sift_down(std::size_t place, entry value) noexcept;
    std::unique_ptr<chunk> take_at(std::size_t place) noexcept;
    void publish_earliest() noexcept;

    spin_lock<layer> lock_;
    layer::atomic<monotonic_time> earliest_{no_deadline};
    std::size_t size_ = 0;
    // The table grows outside the lock, by whoever needs room, and is exchanged under it.
    std::vector<std::unique_ptr<chunk>> chunks_;
};

}  // namespace weft::detail
