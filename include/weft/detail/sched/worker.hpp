// SPDX-License-Identifier: MIT
//
// The part of a worker that is inlined into coroutines: its budget, its attention word, and the
// entry points that suspended and ending coroutines call. The loop and the parking of a worker are
// in lib/sched/.
#pragma once

#include <weft/detail/base/layer.hpp>
#include <weft/detail/branch/branch.hpp>

#include <coroutine>
#include <cstddef>
#include <cstdint>

namespace weft::detail {

class io_operation;
class operation;
class poller;
class runtime_core;
class task_control;
class timer_heap;

/// Reasons for a worker to come back to its loop soon. Awaits and the loop between two branches
/// load the word; whoever has the reason sets the bit.
enum class attention : std::uint32_t {
    yield_wanted = 1,  ///< The running branch has run too long.
    inbox = 2,         ///< Another thread left a request for this worker's poller.
    timer_changed =
        4,           ///< The worker's heap has a new earliest time; the sentinel may have to know.
    slice_over = 8,  ///< The time slice that is handed on through runnext has ended.
    ring_has_work = 16,  ///< The poller has completions that only this thread can take.
    forked = 32,         ///< This process is a fork: the runtime does not exist here.
    drain = 64,          ///< The runtime was asked to end from outside; start the grace period.
    stopping = 128,      ///< The runtime ends; the loop returns.
    timer_due = 256,     ///< A timer of the worker's heap is due.
    calls_wait = 512,    ///< Start the timer that watches over the queue of the blocking pool.
    retire = 1024,       ///< The worker may have been asked to give its processor up.
    waits_noted = 2048,  ///< Ask the kernel about waits that have been unverified for long.
    pin_changed = 4096,  ///< The worker is to keep to one core, or not to any more.
    global_waits = 8192,  ///< Nobody takes what is in the global queue.
};

/// How many awaits may finish without a trip through the run queue, for each resume.
inline constexpr std::uint32_t inline_budget = 128;

/// See the head of this file. A worker is used by its own thread only, except for set_attention().
class worker {
public:
    worker(const worker&) = delete;
    worker& operator=(const worker&) = delete;

    /// An await is about to continue without a trip through the queue. False: it must not, because
    /// the budget of this resume is used up or the loop is wanted; the caller calls requeue().
    bool take_budget() noexcept {
        // Relaxed: the word is a request to look; what it is about is ordered by its own protocol.
        if (budget_ == 0 || attention_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
            return needs_no_requeue();
        }
        --budget_;
        return true;
    }

    /// Puts the running branch behind the local queue (behind the global one if it has overrun its
    /// slice); it continues with `next`. The caller's frame may run elsewhere when this returns;
    /// returns what await_suspend is to return.
    std::coroutine_handle<> requeue(branch& running, std::coroutine_handle<> next) noexcept;

    /// The same for an operation that will call start() again when the branch comes up.
    void requeue(branch& running, operation& next) noexcept;

    /// Final suspension of the first frame of a task.
    std::coroutine_handle<> end_task(branch& running, std::coroutine_handle<> frame) noexcept;

    /// The timers of this worker's processor. Add only on its own thread; after an addition call
    /// timer_added().
    timer_heap& timers() noexcept { return *timers_; }
    void timer_added() noexcept;

    /// Is this the child of a fork, where the runtime does not exist? Relaxed: the thread that
    /// forked has set it itself.
    bool forked() const noexcept {
        constexpr auto bit = static_cast<std::uint32_t>(attention::forked);
        return (attention_.load(std::memory_order_relaxed) & bit) != 0;
    }

    /// May an operation on this worker leave a question to the kernel to it, to be asked when the
    /// watchdog says so (unverified_waits.hpp)?
    bool may_ask_later() const noexcept;

    /// An operation on this worker is about to send: leaves that to the poller, if that is worth
    /// while (lib/sched/send_gathering.hpp). True: the branch counts as queued from now on.
    bool gather_send(io_operation& sending, int fd, const void* data, std::size_t size) noexcept;

    poller& io() noexcept { return *io_; }
    runtime_core& runtime() noexcept { return *runtime_; }
    branch* running() const noexcept;
    /// A number below `limit`, which is not 0, for choices that are to be fair.
    std::uint32_t random_below(std::uint32_t limit) noexcept;
    std::uint32_t index() const noexcept { return index_; }

    /// Any thread. Release pairs with the acquire of the loop, which looks at the reason.
    void set_attention(attention reason) noexcept {
        attention_.fetch_or(static_cast<std::uint32_t>(reason), std::memory_order_release);
    }

protected:
    worker(runtime_core& runtime, std::uint32_t index, timer_heap& timers) noexcept
        : timers_(&timers), runtime_(&runtime), index_(index) {}
    ~worker() = default;

    bool needs_no_requeue() noexcept;
    void requeue_running(branch& running) noexcept;

    std::uint32_t budget_ = 0;
    layer::atomic<std::uint32_t> attention_{0};
    poller* io_ = nullptr;
    timer_heap* timers_;
    runtime_core* runtime_;
    std::uint32_t index_;
};

/// The worker that the calling thread is, or null. Not inlined: a compiler may otherwise keep its
/// address across a suspension, after which the coroutine runs on another thread.
worker* current_worker() noexcept;

}  // namespace weft::detail
