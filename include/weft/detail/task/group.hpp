// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/branch/child_branch.hpp>
#include <weft/detail/task/cancel_scope.hpp>
#include <weft/detail/task/children.hpp>
#include <weft/detail/task/group_core.hpp>
#include <weft/detail/task/local_values.hpp>

#include <coroutine>
#include <cstddef>
#include <exception>

namespace weft::detail {

class group_base;

/// A child of a group. It frees itself, and its frames, when it has ended: a group may have any
/// number of children one after the other.
class group_child final : public child_branch {
public:
    explicit group_child(group_base& of) noexcept : of_(&of) {}
    ~group_child() = default;

    void finish(worker& on) noexcept override;
    void discard() noexcept override { delete this; }

    static void* operator new(std::size_t size);
    static void operator delete(void* memory, std::size_t size) noexcept;

private:
    group_base* of_;
};

/// What of a task group needs no type. It lies in the frame of its parent, the branch that has
/// opened it, and group_core.hpp says how it ends.
class group_base {
public:
    explicit group_base(std::size_t limit) : core_(limit) {}
    group_base(const group_base&) = delete;
    group_base& operator=(const group_base&) = delete;

    /// Starts a child with this first frame, which it owns from now on. Throws std::bad_alloc, and
    /// has then taken nothing.
    void launch(std::coroutine_handle<> frame);

    /// The child as one that finds the values which the running branch has bound by now.
    task<> with_values_of_spawner(task<> child) {
        return detail::with_values_of_spawner(std::move(child), scope_.opener(), scope_.inside());
    }

    /// The body has failed.
    void fail(std::exception_ptr failure) noexcept;
    /// As task_group::request_stop().
    void stop() noexcept;
    bool stopped() noexcept { return scope_.inside().stopped(); }

    /// When all have ended: throws the first failure.
    void rethrow() const {
        if (failure_ != nullptr) { std::rethrow_exception(failure_); }
    }

private:
    friend group_child;
    friend class group_operation;

    void child_failed(const group_child& child, std::exception_ptr failure) noexcept;
    /// Takes the failure if it is the first one, and stops the scope. False: it is not.
    bool take_failure(const std::exception_ptr& failure) noexcept;

    group_core<layer, branch> core_;
    std::exception_ptr failure_;  ///< Of who was the first one; read when all have ended.
    layer::atomic<bool> stop_wanted_{false};
    cancel_scope scope_;
};

/// The wait for the end of all children, once the body has ended. Resumes where the last one ended.
class group_operation : public operation {
public:
    explicit group_operation(group_base& of) noexcept
        : operation(false, wait_reason::children), of_(of) {}

    bool start(branch& waiter) noexcept final;
    /// They cannot be left behind.
    bool unlink() noexcept final { return false; }
    bool completed_by_tasks() const noexcept final { return true; }

protected:
    ~group_operation() = default;

private:
    group_base& of_;
};

class [[nodiscard]] group_awaiter final : public joining_awaiter<group_operation> {
public:
    using joining_awaiter::joining_awaiter;
    void await_resume() const noexcept { check_resumed_by_weft(); }
};

}  // namespace weft::detail
