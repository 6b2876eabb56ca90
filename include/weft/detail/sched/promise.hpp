// SPDX-License-Identifier: MIT
//
// What all promises of weft's tasks have in common, and the transfer of control between frames.
//
// A chain of awaits is a list through the frames: each child's promise points to a link in its
// awaiter's frame, which names the awaiting frame (to return to) and the child (to destroy). The
// branch is inherited from the awaiter. Nothing here is atomic: a chain belongs to the worker that
// runs its branch, and passes from one to the next through the run queue.
//
// transfer() is where one frame continues another. On clang symmetric transfer is a guaranteed tail
// call; on GCC it is not. Both are safe here, since a resume makes at most `inline_budget`
// transfers before the branch goes behind the local queue and the stack unwinds to the worker's
// loop. The same bound keeps a chain of awaits that never really waits from starving others.
#pragma once

#include <weft/detail/base/compiler.hpp>
#include <weft/detail/branch/branch.hpp>
#include <weft/detail/sched/foreign_awaiter.hpp>
#include <weft/detail/sched/frame_cache.hpp>
#include <weft/detail/sched/worker.hpp>

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <source_location>
#include <type_traits>
#include <utility>

namespace weft::detail {

/// Lies in the frame that awaits a task, while it awaits.
struct await_link {
    std::coroutine_handle<> parent;  ///< The awaiting frame.
    std::coroutine_handle<> child;   ///< The awaited frame; owned by this link.
};

/// Continues `next` on the current branch: at once, or through the run queue when the budget of
/// this resume is used up or the worker's attention is wanted.
inline std::coroutine_handle<> transfer(branch& running, std::coroutine_handle<> next) noexcept {
    worker& on = *running.current;
    if (on.take_budget()) [[likely]] {
        return next;
    }
    return on.requeue(running, next);
}

/// Base of every promise. It is the first base, at the same address as the promise, so that a
/// handle of the derived promise can be read as a handle of this one; test/probes checks that.
class promise_base {
public:
    explicit promise_base(std::source_location created) noexcept : location_(created) {}
    promise_base(const promise_base&) = delete;
    promise_base& operator=(const promise_base&) = delete;

    static void* operator new(std::size_t size) { return allocate_frame(size); }
    static void operator delete(void* memory, std::size_t size) noexcept {
        deallocate_frame(memory, size);
    }

    std::suspend_always initial_suspend() const noexcept { return {}; }

    /// Returns to the awaiting frame; the first frame of a task ends the task.
    struct final_awaiter {
        bool await_ready() const noexcept { return false; }
        template <class Promise>
        WEFT_PUBLISHES_FRAME std::coroutine_handle<> await_suspend(
            std::coroutine_handle<Promise> ended) noexcept {
            promise_base& promise = ended.promise();
            if (promise.link_ != nullptr) [[likely]] {
                return transfer(*promise.branch_, promise.link_->parent);
            }
            return promise.branch_->current->end_task(*promise.branch_, ended);
        }
        void await_resume() const noexcept {}
    };
    final_awaiter final_suspend() const noexcept { return {}; }

    /// Stores where the await stands, for dumps and reports, and passes the awaited thing on.
    template <class Awaitable>
    decltype(auto) await_transform(
        Awaitable&& awaited,
        std::source_location where = std::source_location::current()) noexcept {
        static_assert(resumes_through_weft<Awaitable>, WEFT_FOREIGN_AWAITER);
        location_ = where;
        return std::forward<Awaitable>(awaited);
    }

    void unhandled_exception() noexcept { exception_ = std::current_exception(); }

    branch* branch_ = nullptr;       ///< Set when the task is spawned or awaited.
    await_link* link_ = nullptr;     ///< Null in the first frame of a task.
    std::source_location location_;  ///< The last await, or where the coroutine was called.
    std::exception_ptr exception_;   ///< What left the coroutine, if it ended by an exception.
};

/// A handle of any weft coroutine as a handle of its base.
inline std::coroutine_handle<promise_base> as_base(std::coroutine_handle<> handle) noexcept {
    return std::coroutine_handle<promise_base>::from_address(handle.address());
}

/// Coroutines that weft's awaitables can be awaited in.
template <class Promise>
concept weft_promise = std::derived_from<Promise, promise_base>;

/// Destroys the frames of a chain from the innermost one outwards, without recursion, so that a
/// chain of a million frames needs no stack. `innermost` is suspended and nothing else knows it.
void destroy_chain(std::coroutine_handle<> innermost) noexcept;

/// Destroys a frame that never started, on purpose: tasks among its arguments are not reported as
/// forgotten.
void destroy_refused(std::coroutine_handle<> frame) noexcept;
/// Is this thread inside that?
bool destroys_refused() noexcept;

}  // namespace weft::detail
