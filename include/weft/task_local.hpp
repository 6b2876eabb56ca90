// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/awaitable.hpp>
#include <weft/detail/task/local_values.hpp>
#include <weft/task.hpp>

#include <atomic>
#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace weft {

/// A value that belongs to whatever a task does, and that needs no argument on the way: the id of a
/// request, the time until which it is of use, where to log. It is bound for a while, and found by
/// everything that runs as a part of that (Swift's TaskLocal, Java's ScopedValue; Tokio's
/// task_local!, whose spawned tasks do not inherit).
///
///     inline constinit weft::task_local<std::uint64_t> request_id;
///
///     weft::task<> serve(request r) {
///         co_await request_id.with(r.id, answer(std::move(r)));
///     }
///
/// Who finds a value: the coroutines that are awaited while it is bound, however deep; the children
/// of when_all, when_any and race; the children of a task_group that are spawned meanwhile; and
/// tasks that are spawned with co_spawn meanwhile, which keep it for as long as they live, unless
/// spawn_options::inherit_locals is false. A value that is bound inside hides the one outside, for
/// what is inside. A change is seen by nobody: a value is constant, and to bind another one is no
/// matter of those that run already.
///
/// Where no task runs nothing is bound: on threads outside of weft; in calls of blocking(), which
/// get what they need as an argument; and in the destructors of what a runtime that ends destroys
/// where it waits. What is stopped ends like any coroutine, and its destructors find the value; the
/// arguments of what is stopped before it has started do not.
///
/// A bound value takes one allocation, of a cache of the worker, and a count of those who share it;
/// it is destroyed by the last of them, on the worker where that ends. Several threads may read it
/// at the same time, as any constant. To find one costs some steps outwards, one for each cancel
/// scope (with_timeout, a group, ...) and each value that is in between. A task for which nothing
/// is bound takes no memory for this, and where nothing was ever bound a spawn pays one load.
///
/// It is usually a variable of namespace scope. All of its functions may be called by several
/// threads at a time, but not beside its destruction; a task that has inherited a value may outlive
/// it.
template <class T>
class task_local {
    static_assert(std::is_object_v<T> && !std::is_const_v<T>,
                  "weft: a task_local holds objects; bind a pointer or std::reference_wrapper");
    static_assert(std::is_nothrow_destructible_v<T>);
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__,
                  "weft: the value of a task_local must not be over-aligned; bind a pointer to it");

public:
    using value_type = T;

    /// What get() gives where nothing is bound: a T of no arguments, or that one.
    constexpr task_local() noexcept(std::is_nothrow_default_constructible_v<T>)
        requires std::default_initializable<T>
        : unbound_() {}
    constexpr explicit task_local(T unbound) noexcept(std::is_nothrow_move_constructible_v<T>)
        : unbound_(std::move(unbound)) {}
    task_local(const task_local&) = delete;
    task_local& operator=(const task_local&) = delete;

    /// The innermost value that is bound for the running branch, else what was given for that. The
    /// reference is good as long as the value stays bound, or until the task ends that has
    /// inherited it; suspensions do no harm. Never waits.
    const T& get() const noexcept {
        const T* const found = find();
        return found != nullptr ? *found : unbound_;
    }

    /// The same, but null where nothing is bound.
    const T* find() const noexcept {
        // Relaxed: a branch with a value of this key has got it from who has taken the key.
        const std::uint64_t key = key_.load(std::memory_order_relaxed);
        if (key == 0) { return nullptr; }
        const detail::bound_value* at = detail::values_of_running_branch();
        while (at != nullptr && at->key() != key) { at = at->outer(); }
        return at != nullptr ? &static_cast<const detail::bound<T>*>(at)->value : nullptr;
    }

    /// `co_await with(value, op)` awaits `op`, a task or any awaitable of weft, while the value is
    /// bound. Gives what `op` gives; the task resumes where `op` ended. It is no obstacle to a
    /// stop. Throws std::bad_alloc before it is awaited.
    ///
    /// `op` is moved or copied; a join_handle in a variable is used where it is. A coroutine is
    /// started only by the await, so its first line finds the value; but its arguments were made
    /// before, as those of any call.
    template <class Given, detail::awaitable Awaitable = detail::kept_awaitable<Given>>
    auto with(T value, Given&& op) -> task<detail::awaited_value<Awaitable>> {
        return detail::under_value<Awaitable>(make(std::move(value)), std::forward<Given>(op));
    }

    /// Binds a value from its construction to its destruction: for the rest of a block of a
    /// coroutine. It stays in the coroutine that has made it, in a variable, and ends before those
    /// that were made earlier, which is an assertion in debug builds, and undefined in others.
    class [[nodiscard]] binding {
    public:
        binding(const binding&) = delete;
        binding& operator=(const binding&) = delete;
        ~binding() = default;

    private:
        friend task_local;
        explicit binding(detail::bound_values value) : scope_(in_front(std::move(value))) {}

        static detail::bound_values in_front(detail::bound_values value) noexcept {
            value.put_before(detail::bound_values::share(detail::values_of_running_branch()));
            return value;
        }

        detail::local_scope scope_;
    };

    /// `const auto bound = id.bind(7);`: see binding. Throws std::bad_alloc, and std::logic_error
    /// where no task runs.
    binding bind(T value) { return binding(make(std::move(value))); }

private:
    detail::bound_values make(T&& value) {
        return detail::bound_values(new detail::bound<T>(key(), std::move(value)));
    }

    /// Taken when a value is bound for the first time, so that this can be constant-initialised.
    std::uint64_t key() noexcept {
        std::uint64_t key = key_.load(std::memory_order_relaxed);
        if (key != 0) { return key; }
        // Relaxed: see find(). Of two that come at the same time one key is used by nobody.
        const std::uint64_t taken = detail::take_local_key();
        return key_.compare_exchange_strong(key, taken, std::memory_order_relaxed,
                                            std::memory_order_relaxed)
                   ? taken
                   : key;
    }

    T unbound_;
    std::atomic<std::uint64_t> key_{0};
};

}  // namespace weft
