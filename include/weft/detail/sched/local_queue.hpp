// SPDX-License-Identifier: MIT
#pragma once

// The run queue of one processor: Go's ring of 256 with `runnext` in front of it.
//
// One thread at a time is the *owner*: it alone puts nodes in. Any thread may be a *thief* that
// takes nodes out; the owner takes them out in the same way, by moving the head.
//
//     word      who writes it                         what it says
//     next_     owner: a node; anybody: back to null  the node that goes before all others
//     tail_     owner                                 slots below it are filled
//     head_     owner and thieves, upwards, by CAS    slots below it are free to be filled again
//     slots_    owner, between tail_ and head_ + Capacity
//
// A node is in exactly one place, and leaves it by one successful read-modify-write: of next_, or
// of head_. Indices only grow and wrap around; positions are taken modulo Capacity, lengths modulo
// the width of Index, so all is well while Index is wider than Capacity. (A thief that sleeps
// while exactly 2^32 nodes pass could take a wrong one, as in Go.)
//
// Why a thief never returns a wrong node. It reads head_, then tail_, then the slots, and then
// moves head_ by compare-and-swap. The owner fills a slot again only after head_ has passed it, so
// if the compare-and-swap succeeds, no slot that was read can have been filled again before that.
// The copies of a failed attempt lie in the thief's own ring above its tail, where nobody looks.
//
// Two orders cannot be checked by the model, which never moves a load behind a later store
// (test/model/explorer.hpp): the release with which head_ is moved, which keeps the thief's reads
// of the slots before it, and the acquire with which the owner reads head_, which keeps its writes
// of the slots behind it. They are named constants below, with a static_assert.
//
// Publication for the parking protocol (idle_protocol.hpp). Whoever puts a node in and then asks
// whether a worker must be woken needs a sequentially consistent write of the word that a parking
// worker reads in empty(), before its read of the counts:
//   - push_next() publishes by its exchange of next_. If a node is kicked out, it is the tail that
//     is published last, and it is exchanged as well: a thief may meanwhile take the new node and
//     find the ring empty, and would otherwise leave the kicked node to nobody.
//   - push_back() and push_batch() store the tail with release only, because several of them often
//     need one publication: publish_barrier() afterwards.
// The barrier exchanges the tail for itself. Sequential consistency is a promise about accesses of
// one word; an exchange of some other word would be enough for x86, and not for the standard. An
// addition of zero will not do either: clang turns it into mfence and a load, four times the cost.
//
// Rejected: a Chase-Lev deque (LIFO for the owner starves old nodes; FIFO is asked for); a list
// with a lock (two locked operations for each node and thieves that stop the owner); taking all of
// the victim's ring (nodes would bounce between two thieves).

#include <weft/detail/base/assert.hpp>
#include <weft/detail/base/layer.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace weft::detail {

/// See the essay above. `Node` has a member `next` that holds a Node*; it is used while a node is
/// in a batch, and belongs to whoever holds the node. Nodes are not owned: a queue that dies must
/// be empty, or its nodes live elsewhere.
template <class Layer, class Node, unsigned Capacity = 256, class Index = std::uint32_t>
class local_queue {
    static_assert((Capacity & (Capacity - 1)) == 0 && Capacity >= 2);
    static_assert(std::is_unsigned_v<Index> && Index(-1) / 4 >= Capacity);

public:
    static constexpr unsigned capacity = Capacity;
    /// How many nodes an overflow takes from the ring, and the most that one theft takes.
    static constexpr unsigned half = Capacity / 2;

    local_queue() = default;
    /// A queue whose indices start at `first`: for tests of the wrap-around.
    explicit local_queue(Index first) : head_(first), tail_(first) {}
    local_queue(const local_queue&) = delete;
    local_queue& operator=(const local_queue&) = delete;

    /// Owner: `node` goes before all others; the node that was there is kicked to the ring's tail,
    /// with push_back()'s overflow. A publication, see the essay.
    template <class Overflow>
    [[gnu::hot]]
    void push_next(Node* node, Overflow&& overflow) {
        // Release publishes the node to steal_next(); seq_cst orders it before the caller's load of
        // the counts, against empty() of a worker that parks.
        Node* kicked = next_.exchange(node, std::memory_order_seq_cst);
        if (kicked == nullptr) return;
        if (append(kicked, overflow)) publish_barrier();
    }

    /// Owner: `node` goes behind all others. If the ring is full, the older half of it and `node`,
    /// in order and linked through `next`, leave the queue: `overflow(first, last, count)` gets
    /// them. No publication: call publish_barrier() before the counts are read.
    template <class Overflow>
    [[gnu::hot]]
    void push_back(Node* node, Overflow&& overflow) {
        append(node, overflow);
    }

    /// Owner: moves nodes from the front of a chain of `count` nodes to the ring, in order, as many
    /// as there is room for; `first` then is the first one that stays. Returns how many were
    /// moved. No publication, as push_back().
    std::size_t push_batch(Node*& first, std::size_t count) {
        const Index head = head_.load(owner_reads_head);
        // Relaxed: only the owner writes the tail.
        const Index tail = tail_.load(std::memory_order_relaxed);
        const std::size_t room = Capacity - static_cast<Index>(tail - head);
        const std::size_t moved = count < room ? count : room;
        for (std::size_t i = 0; i < moved; ++i) {
            Node* node = first;
            first = node->next;
            slot(static_cast<Index>(tail + i)).store(node, std::memory_order_relaxed);
        }
        // Release pairs with the thieves' acquire of the tail: slots and nodes are visible.
        tail_.store(static_cast<Index>(tail + moved), std::memory_order_release);
        return moved;
    }

    /// Owner: makes what push_back() or push_batch() put in visible to every worker that parks
    /// after the caller's next seq_cst load. One locked operation.
    void publish_barrier() {
        tail_.exchange(tail_.load(std::memory_order_relaxed), std::memory_order_seq_cst);
    }

    /// Owner: takes the node that goes before all others, or returns null.
    Node* pop_next() {
        // Relaxed: only the owner makes it other than null; thieves are met by the exchange.
        if (next_.load(std::memory_order_relaxed) == nullptr) return nullptr;
        // Release: whoever sees the null in empty() also sees the tail that we stored before. No
        // acquire, since the owner put the node in itself. Null if a thief was faster.
        return next_.exchange(nullptr, std::memory_order_release);
    }

    /// Owner: takes the oldest node of the ring, or returns null.
    [[gnu::hot]]
    Node* pop() {
        Index head = head_.load(std::memory_order_relaxed);
        for (;;) {
            // Relaxed: only the owner writes the tail and the slots; a head that is out of date
            // makes the compare-and-swap fail.
            if (head == tail_.load(std::memory_order_relaxed)) return nullptr;
            Node* node = slot(head).load(std::memory_order_relaxed);
            if (head_.compare_exchange_weak(head, static_cast<Index>(head + 1), moves_head,
                                            std::memory_order_relaxed)) {
                return node;
            }
        }
    }

    /// Thief, owner of the ring `own` with room for half a ring: takes half of this ring, rounded
    /// up, oldest first. The last of them is returned, the others are put into `own` in order,
    /// without publication. If the ring is empty and `take_next` is set, the node before all others
    /// is taken. Returns null if there was nothing.
    Node* steal_into(local_queue& own, bool take_next) {
        const Index own_tail = own.tail_.load(std::memory_order_relaxed);
        const Index own_head = own.head_.load(owner_reads_head);
        WEFT_ASSERT(static_cast<Index>(own_tail - own_head) <= half);
        static_cast<void>(own_head);
        Index count = copy_half(own, own_tail);
        if (count == 0) return take_next ? steal_next(peek_next()) : nullptr;
        --count;
        // Relaxed: this thread has written it.
        Node* node = own.slot(static_cast<Index>(own_tail + count)).load(std::memory_order_relaxed);
        if (count != 0) {
            // Release, as in append(): what we acquired from the victim is handed on.
            own.tail_.store(static_cast<Index>(own_tail + count), std::memory_order_release);
        }
        return node;
    }

    /// Any thread: meets the owner's push_next() in the modification order of next_. What the owner
    /// did before a push_next() that comes first is visible afterwards; an owner whose push_next()
    /// comes second sees what this thread did before. For whoever changes something that the owner
    /// looks at after each push, and then looks at what was pushed; it is rare, so the owner pays
    /// nothing.
    void meet_owner() {
        Node* seen = next_.load(std::memory_order_relaxed);
        // Acquire and release pair with the exchange in push_next(), in both directions.
        while (!next_.compare_exchange_weak(seen, seen, std::memory_order_acq_rel,
                                            std::memory_order_relaxed)) {
        }
    }

    /// Thief: the node before all others, for steal_next() a little later. It must not be touched.
    /// Relaxed: only its address is used.
    Node* peek_next() const { return next_.load(std::memory_order_relaxed); }

    /// Thief: takes `expected` if it still (or again) is the node before all others, else returns
    /// null. Acquire pairs with the exchange in push_next(): the node's contents are visible.
    Node* steal_next(Node* expected) {
        if (expected == nullptr) return nullptr;
        const bool taken = next_.compare_exchange_strong(
            expected, nullptr, std::memory_order_acquire, std::memory_order_relaxed);
        return taken ? expected : nullptr;
    }

    /// Any thread: is there nothing in ring and next? Never true while a node is in the queue that
    /// was published before; a node that is being kicked from next to the ring is found as well.
    ///
    /// seq_cst: this is the recheck of a worker that parks; the loads pair with the exchanges of
    /// push_next() and publish_barrier(). The tail is read again because the owner may have kicked
    /// a node to the ring after the first look at the tail, and emptied next_ before we read it.
    bool empty() const {
        for (;;) {
            const Index head = head_.load(std::memory_order_seq_cst);
            const Index tail = tail_.load(std::memory_order_seq_cst);
            const bool none_next = next_.load(std::memory_order_seq_cst) == nullptr;
            if (tail == tail_.load(std::memory_order_seq_cst)) return head == tail && none_next;
            Layer::pause();
        }
    }

    /// Any thread: nodes in the ring, without next. Exact for an owner that no thief disturbs, a
    /// hint for everybody else. Relaxed: nothing may be concluded from it.
    std::size_t ring_size() const {
        const Index head = head_.load(std::memory_order_relaxed);
        const Index length = static_cast<Index>(tail_.load(std::memory_order_relaxed) - head);
        return length <= Capacity ? length : 0;
    }

    /// The same with next. Relaxed: as above.
    std::size_t size() const {
        const bool has_next = next_.load(std::memory_order_relaxed) != nullptr;
        return ring_size() + (has_next ? 1 : 0);
    }

private:
    using slot_type = typename Layer::template atomic<Node*>;

    // Keeps the reads of slots before the move of the head; with it the head hands on the tail
    // that the mover saw, so that who acquires the head finds no older tail.
    static constexpr std::memory_order moves_head = std::memory_order_release;
    // Pairs with moves_head: keeps the writes of slots behind the read of the head.
    static constexpr std::memory_order owner_reads_head = std::memory_order_acquire;
    static_assert(moves_head == std::memory_order_release &&
                      owner_reads_head == std::memory_order_acquire,
                  "a thief could read a slot that the owner fills again; no model would tell");

    slot_type& slot(Index index) { return slots_[index % Capacity]; }

    // True: the node is in the ring. False: it went to `overflow`.
    template <class Overflow>
    bool append(Node* node, Overflow& overflow) {
        // Relaxed: only the owner writes the tail.
        const Index tail = tail_.load(std::memory_order_relaxed);
        for (;;) {
            Index head = head_.load(owner_reads_head);
            if (static_cast<Index>(tail - head) < Capacity) {
                // Relaxed: a thief trusts the slot only below the tail that it has acquired.
                slot(tail).store(node, std::memory_order_relaxed);
                // Release pairs with the thieves' acquire of the tail: slot and node are visible.
                tail_.store(static_cast<Index>(tail + 1), std::memory_order_release);
                return true;
            }
            // A failure means that a thief has made room.
            if (head_.compare_exchange_strong(head, static_cast<Index>(head + half), moves_head,
                                              std::memory_order_relaxed)) {
                send_away(head, node, overflow);
                return false;
            }
        }
    }

    // Links the half ring from `head` on, which is ours already, and `node` behind it.
    template <class Overflow>
    void send_away(Index head, Node* node, Overflow& overflow) {
        // Relaxed, here and below: only the owner writes slots.
        Node* const first = slot(head).load(std::memory_order_relaxed);
        Node* last = first;
        for (unsigned i = 1; i < half; ++i) {
            Node* following = slot(static_cast<Index>(head + i)).load(std::memory_order_relaxed);
            last->next = following;
            last = following;
        }
        last->next = node;
        node->next = nullptr;
        overflow(first, node, std::size_t{half + 1});
    }

    // Copies half of this ring above the tail of `own` and takes it. Returns how many. Each retry
    // means that another consumer or the owner has got on.
    Index copy_half(local_queue& own, Index own_tail) {
        for (;;) {
            // Acquire pairs with moves_head: the tail read next is not older than this head.
            Index head = head_.load(std::memory_order_acquire);
            // Acquire pairs with the release of the tail: slots and nodes below it are visible.
            const Index tail = tail_.load(std::memory_order_acquire);
            const Index length = static_cast<Index>(tail - head);
            const Index count = static_cast<Index>(length - length / 2);
            if (count == 0) return 0;
            if (count > half) {
                // Head and tail do not belong together: the head has moved between the two reads.
                Layer::pause();
                continue;
            }
            for (Index i = 0; i < count; ++i) {
                // Relaxed: see the essay.
                Node* node = slot(static_cast<Index>(head + i)).load(std::memory_order_relaxed);
                own.slot(static_cast<Index>(own_tail + i)).store(node, std::memory_order_relaxed);
            }
            if (head_.compare_exchange_strong(head, static_cast<Index>(head + count), moves_head,
                                              std::memory_order_relaxed)) {
                return count;
            }
        }
    }

    // The head is written by thieves, the rest of the first lines mostly by the owner.
    alignas(64) typename Layer::template atomic<Index> head_{0};
    alignas(64) typename Layer::template atomic<Index> tail_{0};
    typename Layer::template atomic<Node*> next_{nullptr};
    alignas(64) std::array<slot_type, Capacity> slots_{};
};

}  // namespace weft::detail
