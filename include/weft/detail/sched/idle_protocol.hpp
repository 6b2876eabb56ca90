// SPDX-License-Identifier: MIT
//
// Searching, parking and waking: the heart of the scheduler, and its whole wake-up policy.
//
// A worker without work is *searching* (it looks into the queues of the others), *parked* (it
// sleeps and is on the list here), or on its way between the two. Both are counted in one word:
// searching in the lower half, parked in the upper half. Three rules keep every worker busy without
// waking one for each task:
//
//   publish   Whoever makes a branch runnable wakes a parked worker only if nobody searches. The
//             one that searches will find the branch.
//   chain     A searcher that finds work stops searching. If it was the last one and work is left
//             while somebody is parked, it wakes one more before it runs what it found.
//   recheck   A worker parks in one step: searching - 1, parked + 1, on the list. Then it looks at
//             everything again, and goes back to search if anything is there.
//
// Why no wake-up is lost. Let W be a publication (a sequentially consistent read-modify-write, see
// local_queue::publish_barrier; the global queue and the timer heaps store their size or earliest
// time with that order), followed by the load of the counts in wake_one(). Let R be the change of
// the counts when a worker leaves the searching state or parks, followed by the recheck's loads.
// All four are sequentially consistent, so they have one order. If R comes first, the load after W
// sees the worker parked, or one searcher fewer; if W comes first, the loads after R see the work.
// One of the two acts. By induction over the searchers: work that was published while somebody
// searched is seen by the recheck of the last searcher at the latest, wherever it ends.
//
// A plain release store as publication is not enough: it may be delayed past the load of the counts
// (store buffering), and the branch then waits while a processor sleeps. The model of this file
// finds that mutant within a few executions.
//
// Limit. At most about half of the busy workers search: begin_search() refuses while
// 2 * searching >= processors - parked, as Go does. The check races with other searchers, which may
// exceed the limit by a few; that costs a little time and no correctness, since every parker
// rechecks, whether it searched or not. That recheck is also what makes Go's `needspinning`
// superfluous here: a worker keeps its processor until it has looked again.
//
// Rejected designs: one global queue (does not scale); handing a branch to a particular thread when
// it is readied (it gives up locality and wakes a thread for every branch); waking a worker for
// each ready branch (a wake costs more than many branches; woken workers would find nothing). The
// list is guarded by a lock on purpose: it is only taken around a sleep or a wake, which cost a
// thousand times more than the lock.
#pragma once

#include <weft/detail/base/spin_lock.hpp>

#include <atomic>
#include <cstdint>

namespace weft::detail {

/// Link of a worker in the list of parked workers. Guarded by the protocol's lock.
template <class Worker>
struct parked_link {
    Worker* next = nullptr;
    Worker* previous = nullptr;
    bool listed = false;
};

/// See the essay above. Worker has a member `parked_link<Worker> parked`.
template <class Layer, class Worker>
class idle_protocol {
public:
    explicit idle_protocol(std::uint32_t processors) noexcept : processors_(processors) {}

    /// Before any worker runs: there are only so many after all.
    void limit_processors(std::uint32_t processors) noexcept {
        processors_.store(processors, std::memory_order_relaxed);
    }

    /// A worker has given its processor up; it is not on the list. seq_cst: pairs with
    /// all_parked(), which sees what it did before; if the last one to park has missed it, the
    /// worker asks again.
    void remove_processor() noexcept { processors_.fetch_sub(1, std::memory_order_seq_cst); }
    /// Before a worker gets a processor. seq_cst: pairs with all_parked(); whoever misses it has
    /// said that it rests before the worker asks whether it does.
    void add_processor() noexcept { processors_.fetch_add(1, std::memory_order_seq_cst); }

    /// A worker without work asks to become a searcher. Relaxed loads: the limit is a heuristic,
    /// and the two numbers need not fit together while the number of processors changes.
    /// The increment is seq_cst, since publishers that see it rely on this worker's later R.
    bool begin_search() noexcept {
        const std::uint32_t counts = counts_.load(std::memory_order_relaxed);
        const std::uint32_t processors = processors_.load(std::memory_order_relaxed);
        if (2 * searching(counts) + parked_count(counts) >= processors) {
            return false;
        }
        counts_.fetch_add(one_searching, std::memory_order_seq_cst);
        return true;
    }

    /// A searcher found work. True: it was the last one and somebody is parked; the caller looks
    /// whether work is left anywhere, and calls wake_one() if so. This is an R of the essay.
    [[nodiscard]] bool end_search() noexcept {
        const std::uint32_t before = counts_.fetch_sub(one_searching, std::memory_order_seq_cst);
        return searching(before) == 1 && parked_count(before) != 0;
    }

    /// After a publication: takes a parked worker off the list, which then counts as a searcher,
    /// unless somebody searches or nobody is parked. The caller wakes it. `last_choice` is taken
    /// only if no other is parked (the sentinel). The first load is the one after W.
    [[nodiscard]] Worker* wake_one(Worker* last_choice) noexcept {
        if (!wake_wanted()) {
            return nullptr;
        }
        lock_.lock();
        Worker* chosen = nullptr;
        // Again under the lock, so that of two publishers one wakes and the other sees a searcher.
        if (wake_wanted()) {
            chosen = first_;
            if (chosen == last_choice && chosen->parked.next != nullptr) {
                chosen = chosen->parked.next;
            }
            remove(*chosen);
            // seq_cst: from here on publishers see a searcher, as after begin_search().
            counts_.fetch_add(one_searching - one_parked, std::memory_order_seq_cst);
        }
        lock_.unlock();
        return chosen;
    }

    /// A worker parks; it rechecks everything before it sleeps. This is an R of the essay.
    [[gnu::hot]]
    void park(Worker& worker, bool was_searching) noexcept {
        lock_.lock();
        worker.parked.listed = true;
        worker.parked.previous = nullptr;
        worker.parked.next = first_;
        if (first_ != nullptr) {
            first_->parked.previous = &worker;
        }
        first_ = &worker;
        counts_.fetch_add(one_parked - (was_searching ? one_searching : 0U),
                          std::memory_order_seq_cst);
        lock_.unlock();
    }

    /// A parked worker leaves by itself: its recheck found work (it goes on as a searcher), or it
    /// brings work from its poller. True: it took itself off the list. False: a waker had done so;
    /// the worker counts as a searcher already. seq_cst: as begin_search().
    [[gnu::hot]]
    bool unpark(Worker& worker, bool becomes_searching) noexcept {
        lock_.lock();
        const bool listed = worker.parked.listed;
        if (listed) {
            remove(worker);
            counts_.fetch_add((becomes_searching ? one_searching : 0U) - one_parked,
                              std::memory_order_seq_cst);
        }
        lock_.unlock();
        return listed;
    }

    /// Is a wake-up due for published work? This load pairs with R, see the essay.
    bool wake_wanted() const noexcept {
        const std::uint32_t counts = counts_.load(std::memory_order_seq_cst);
        return searching(counts) == 0 && parked_count(counts) != 0;
    }

    /// Is anybody parked? seq_cst: pairs with park(), see sentinel.hpp.
    bool anybody_parked() const noexcept {
        return parked_count(counts_.load(std::memory_order_seq_cst)) != 0;
    }

    /// Is every worker that has a processor parked? seq_cst: pairs with wake_one() and unpark(),
    /// see rest_word.hpp, with the release of the last guard, see all_asleep.hpp, and with
    /// add_processor().
    bool all_parked() const noexcept {
        return parked_count(counts_.load(std::memory_order_seq_cst)) >=
               processors_.load(std::memory_order_seq_cst);
    }

    /// Calls `look` while no worker can get on the list or off it.
    template <class Look>
    [[gnu::hot]]
    bool with_list_held(Look&& look) noexcept {
        lock_.lock();
        const bool found = look();
        lock_.unlock();
        return found;
    }

    /// Number of parked workers, as a hint. Relaxed: nothing is decided by it for good.
    std::uint32_t parked_hint() const noexcept {
        return parked_count(counts_.load(std::memory_order_relaxed));
    }
    /// Number of processors that workers have, as a hint: whoever has been told of a change since
    /// reads it, or a later one.
    std::uint32_t processors_hint() const noexcept {
        return processors_.load(std::memory_order_relaxed);
    }
    /// Number of searching workers, as a hint.
    std::uint32_t searching_hint() const noexcept {
        return searching(counts_.load(std::memory_order_relaxed));
    }

private:
    static constexpr std::uint32_t one_searching = 1;
    static constexpr std::uint32_t one_parked = 1U << 16;
    static std::uint32_t searching(std::uint32_t counts) noexcept { return counts & 0xffffU; }
    static std::uint32_t parked_count(std::uint32_t counts) noexcept { return counts >> 16; }

    void remove(Worker& worker) noexcept {
        auto& link = worker.parked;
        (link.previous != nullptr ? link.previous->parked.next : first_) = link.next;
        if (link.next != nullptr) {
            link.next->parked.previous = link.previous;
        }
        link = {};
    }

    /// Of workers that have one: those that are on the list, search, or run branches.
    typename Layer::template atomic<std::uint32_t> processors_;
    typename Layer::template atomic<std::uint32_t> counts_{0};
    spin_lock<Layer> lock_;
    typename Layer::template var<Worker*> first_{nullptr};
};

}  // namespace weft::detail
