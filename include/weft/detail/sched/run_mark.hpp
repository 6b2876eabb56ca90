// SPDX-License-Identifier: MIT
//
// What other threads may see of the branch that a worker runs: for the watchdog, which measures
// progress and names a task that does not come back.
//
// The mark. The worker writes it before and after each branch, with plain stores of the machine:
//
//     count     branches run so far                     the progress of the worker
//     life      which life of the branch it is          a block is used for one task after another
//     site      where the branch waited before          lies in the program, and never ends
//     branch    what runs, or null                      type-stable
//
// They are stored in that order, each with release, and look() loads them with acquire: count,
// branch, life and site, then count again. If both counts are equal, all is of one run. For if life
// or site were of a later run than the branch, the second count would be that run's at least; and a
// first count of that run comes with the null that ended the run before, or with the run's own
// branch.
//
// The examination. The mark names a control block, but the task may end, on this worker or on
// another one, while its name is read. So the reader first publishes which block it examines, and
// then asks whether the task of that life has ended. Whoever gives a block back has ended its task
// before, and then asks whether the block is examined, and if so waits. All four steps are
// sequentially consistent: if the reader finds the task alive, the end comes later, and the load
// after it finds the reader. That costs who gives a block back one load of a word that hardly ever
// changes. Reading takes a microsecond.
//
// What a detached task leaves behind (parameters, its closure, a failure for on_failure) is the
// user's code, and its worker runs it: it belongs to the run of the task. The mark ends after it,
// and so does the task, for the examination: nobody else can ask whether it has ended, so the
// worker says so when that code has returned. A name is found for as long as it runs.
//
// Rejected: a lock for each block (every spawn and every end would pay); copies of name and spawn
// site in the mark (every switch would pay).
#pragma once

#include <atomic>
#include <cstdint>
#include <source_location>

namespace weft::detail {

/// What was seen of a worker.
template <class Branch>
struct run_sight {
    std::uint64_t count = 0;
    Branch* branch = nullptr;  ///< Null: it runs none, or one that has just begun.
    std::uint32_t life = 0;
    std::source_location site;

    /// Is it one and the same run of a branch?
    bool same_run(const run_sight& other) const noexcept {
        return branch != nullptr && branch == other.branch && count == other.count;
    }
};

/// See the head of this file.
template <class Layer, class Branch, class Site = std::source_location>
class run_mark {
public:
    /// Owner: a branch begins to run. Release: each pairs with the loads of look().
    void begin(Branch* branch, std::uint32_t life, Site site) noexcept {
        // Relaxed: only the owner writes it.
        count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
        life_.store(life, std::memory_order_release);
        site_.store(site, std::memory_order_release);
        branch_.store(branch, std::memory_order_release);
    }

    /// Owner: it runs no more. Relaxed: the count of the next run publishes it.
    void end() noexcept { branch_.store(nullptr, std::memory_order_relaxed); }

    /// Owner: what runs. Relaxed: it is its own store.
    Branch* running() const noexcept { return branch_.load(std::memory_order_relaxed); }

    /// Any thread: how many branches have run, the running one included. Relaxed: a statistic.
    std::uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }

    /// Any thread. Acquire: pairs with begin(). No branch, where the worker was about to change it.
    template <class Sight = run_sight<Branch>>
    Sight look() const noexcept {
        Sight seen;
        seen.count = count_.load(std::memory_order_acquire);
        seen.branch = branch_.load(std::memory_order_acquire);
        seen.life = life_.load(std::memory_order_acquire);
        seen.site = site_.load(std::memory_order_acquire);
        if (count_.load(std::memory_order_relaxed) != seen.count) { seen.branch = nullptr; }
        return seen;
    }

private:
    typename Layer::template atomic<std::uint64_t> count_{0};
    typename Layer::template atomic<Branch*> branch_{nullptr};
    typename Layer::template atomic<std::uint32_t> life_{0};
    typename Layer::template atomic<Site> site_{Site{}};
};

/// Keeps a control block from being given back while one thread reads it; see the head of this
/// file. Block is whatever can be named by a pointer.
template <class Layer, class Block>
class examination {
public:
    /// The reader, one at a time: calls `read` if `has_ended()` says, by a sequentially consistent
    /// load, that the task has not ended. False: it has.
    template <class HasEnded, class Read>
    bool examine(const Block& examined, HasEnded&& has_ended, Read&& read) {
        // seq_cst: before the load in has_ended().
        examined_.store(&examined, std::memory_order_seq_cst);
        const bool alive = !has_ended();
        if (alive) { read(); }
        // Release pairs with the load in await_reader(): what was read may be written again.
        examined_.store(nullptr, std::memory_order_release);
        return alive;
    }

    /// Whoever gives a block back, after the sequentially consistent end of its task: returns when
    /// nobody reads it.
    void await_reader(const Block& given_back) const noexcept {
        // seq_cst: after that end, see the head of this file. Acquire in it pairs with examine().
        while (examined_.load(std::memory_order_seq_cst) == &given_back) [[unlikely]] {
            Layer::yield_thread();
        }
    }

private:
    typename Layer::template atomic<const Block*> examined_{nullptr};
};

}  // namespace weft::detail
