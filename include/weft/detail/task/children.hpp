// SPDX-License-Identifier: MIT
//
// The wait for children that start together: of when_all, when_any and race. What they are, and
// why they may lie in the frame of their parent, is at the head of child_branch.hpp; how the wait
// ends, at that of child_join.hpp; and which of them decides how it ends, at that of
// first_child.hpp.
#pragma once

#include <weft/detail/base/compiler.hpp>
#include <weft/detail/base/layer.hpp>
#include <weft/detail/branch/child_branch.hpp>
#include <weft/detail/sched/promise.hpp>
#include <weft/detail/task/first_child.hpp>
#include <weft/task.hpp>

#include <coroutine>
#include <cstddef>
#include <exception>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

namespace weft::detail {

class children_operation;

/// A child whose parent awaits it together with others. Its frames are destroyed with it.
class awaited_child final : public child_branch {
public:
    awaited_child() noexcept = default;

    void finish(worker& on) noexcept override;

    /// When it has ended: how it failed; null if it gave a value, or never started.
    std::exception_ptr failure() const noexcept;
    /// When it has ended: was it there in time for a value?
    bool gave_value() const noexcept;
    /// Throws if it has given none.
    void rethrow() const;

    /// Its value, once, if it gave one.
    template <class T>
    T take() {
        return std::coroutine_handle<task_promise<T>>::from_address(frame().address())
            .promise()
            .take();
    }

private:
    friend children_operation;
    children_operation* of_ = nullptr;
};

/// See the head of this file. Resumes the parent on the worker on which the last child ended.
class children_operation : public operation {
public:
    /// Starts the children, the first one first.
    bool start(branch& waiter) noexcept final;
    /// They cannot be left behind: who stops the scope stops them, and the wait goes on.
    bool unlink() noexcept final { return false; }
    bool completed_by_tasks() const noexcept final { return true; }

protected:
    explicit children_operation(first_rule rule) noexcept
        : operation(false, wait_reason::children), first_(rule) {}
    ~children_operation() = default;

    /// Before it is awaited.
    void hold(std::span<awaited_child> children) noexcept { children_ = children; }

    // For await_resume().

    /// Who came first; null if nobody did.
    awaited_child* first() const noexcept { return first_.get(); }
    /// Reports the failures of all but that of `thrown`: as suppressed.
    void report_suppressed(const awaited_child* thrown) const noexcept;
    /// For when_all: throws the first failure, and reports the others.
    void rethrow_first() const;

private:
    friend awaited_child;
    void decide(awaited_child& ended) noexcept;

    std::span<awaited_child> children_;
    child_join<layer> left_;
    first_child<layer, awaited_child> first_;
};

/// Makes an awaiter of an operation that waits for children, which is pinned and cannot be taken
/// back. A class derived from it adds await_resume().
template <class Operation>
class joining_awaiter : public Operation {
public:
    using Operation::Operation;
    joining_awaiter(const joining_awaiter&) = delete;
    joining_awaiter& operator=(const joining_awaiter&) = delete;

    bool await_ready() const noexcept { return false; }

    WEFT_PUBLISHES_FRAME
    bool await_suspend_on(branch& running, std::coroutine_handle<> suspended) noexcept {
        this->begin(running);
        running.handle = suspended;
        return !(this->start(running) && this->pay_for_going_on(running));
    }

    template <weft_promise Promise>
    bool await_suspend(std::coroutine_handle<Promise> suspended) noexcept {
        return await_suspend_on(*suspended.promise().branch_, suspended);
    }

protected:
    /// At the end of a runtime the children are destroyed first, and nobody completes this.
    ~joining_awaiter() {
        if (branch* const parent = this->waiter(); parent != nullptr) {
            if (parent->waiting_for == this) { parent->waiting_for = nullptr; }
        }
    }
};

using children_awaiter = joining_awaiter<children_operation>;

/// Awaits what is no task in a frame of its own, so that it can be a child.
template <class Awaitable>
task<awaited_value<Awaitable>> await_in_frame(Awaitable inner) {
    co_return co_await std::forward<Awaitable>(inner);
}

/// A task of whatever can be awaited: itself, or one that awaits it.
template <class Given>
auto into_task(Given&& given) {
    using kept = kept_awaitable<Given>;
    if constexpr (is_task<kept>) {
        return kept(std::forward<Given>(given));
    } else {
        return await_in_frame<kept>(std::forward<Given>(given));
    }
}

/// What a child gives that was made of it.
template <class Given>
using child_value = awaited_value<kept_awaitable<Given>>;

/// How the value of a child is kept beside others: std::monostate for nothing.
template <class T>
using kept_value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

/// Takes the value of a child that gave one.
template <class T>
kept_value<T> take_kept(awaited_child& from) {
    if constexpr (std::is_void_v<T>) {
        from.take<void>();
        return {};
    } else {
        return from.take<T>();
    }
}

}  // namespace weft::detail
