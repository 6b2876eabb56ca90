// SPDX-License-Identifier: MIT
//
// The values that are bound to task locals (task_local.hpp), and how a branch finds them.
//
// Bound values form lists that never change: each names the one that was bound outside of it, and
// whoever binds another one puts it in front. So a list is a snapshot by itself: branches on
// several threads may share one, or what is behind a part of it, with a count of owners for each
// value and no lock.
//
// Where a branch finds the head of its list. Whoever binds a value opens a scope in the tree of
// cancel scopes (scope.hpp), a local_scope, in the frame of the coroutine that does so. It is an
// open scope, which a stop passes through. The innermost local_scope around a branch holds its
// list; it is found from the branch's innermost scope outwards, and when the task's root is reached
// nothing is bound. A scope on that path stays open while the branch is inside, and neither its
// kind nor its parent change, so that needs no lock. Hence:
//
//     children    of when_all and its kind have the innermost scope of their parent, and find what
//                 it finds; nothing is done for that
//     a group     spawns children into its own scope, which may be further out than what the
//                 spawner has bound. Where the lists differ the child gets the spawner's
//     co_spawn    gives the new task the list of its spawner, in a local_scope around its first
//                 frame; without one, nothing
//
// So neither a control block nor a branch has a place for values, and nothing is copied at a fork.
// A program without bound values pays a load of `local_keys_taken` when it spawns.
//
// A key is never used again, so what a task still holds of a task local that was destroyed is found
// by nobody.
//
// Rejected: a pointer in each branch (all tasks would pay for it, in memory and at each fork); a
// map in a thread_local, exchanged at each resume (the same for time, and a resume is what there is
// most of); values in the frame that binds them (then each spawn has to copy all of them, and they
// have to be copyable); values that can be assigned to (siblings share them: a race); spawned tasks
// that inherit nothing, as in Tokio (a trace id is lost wherever somebody forgets to hand it on).
#pragma once

#include <weft/detail/branch/branch.hpp>
#include <weft/detail/branch/scope.hpp>
#include <weft/detail/sched/frame_cache.hpp>
#include <weft/detail/task/waiting_task.hpp>
#include <weft/task.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace weft::detail {

/// How many keys there are; 0 while no value has ever been bound in this process.
inline constinit std::atomic<std::uint64_t> local_keys_taken{0};

/// A key that nobody had before, from 1.
inline std::uint64_t take_local_key() noexcept {
    // Relaxed: only that it is unique counts. Who could find a value by it has got that from the
    // task that took the key, which orders both.
    return local_keys_taken.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// A bound value, without its type. See the head of this file.
class bound_value {
public:
    bound_value(const bound_value&) = delete;
    bound_value& operator=(const bound_value&) = delete;

    std::uint64_t key() const noexcept { return key_; }
    const bound_value* outer() const noexcept { return outer_; }

    static void* operator new(std::size_t size) { return allocate_frame(size); }
    static void operator delete(void* memory, std::size_t size) noexcept {
        deallocate_frame(memory, size);
    }

protected:
    explicit bound_value(std::uint64_t key) noexcept : key_(key) {}
    virtual ~bound_value() = default;

private:
    friend class bound_values;

    const std::uint64_t key_;
    bound_value* outer_ = nullptr;  ///< Owned. Set before anybody else knows of this one.
    std::atomic<std::uint32_t> owners_{1};
};

template <class T>
class bound final : public bound_value {
public:
    bound(std::uint64_t key, T&& value) : bound_value(key), value(std::move(value)) {}

    const T value;
};

/// Owns the head of a list, and so all of it; or none.
class bound_values {
public:
    bound_values() noexcept = default;
    /// Takes over a value that was just made.
    explicit bound_values(bound_value* made) noexcept : first_(made) {}
    bound_values(bound_values&& other) noexcept : first_(std::exchange(other.first_, nullptr)) {}
    bound_values& operator=(bound_values&&) = delete;
    ~bound_values() { release(first_); }

    /// One more owner of a list that somebody keeps meanwhile.
    static bound_values share(bound_value* first) noexcept {
        // Relaxed: the caller has it from an owner, by what has made that one known.
        if (first != nullptr) { first->owners_.fetch_add(1, std::memory_order_relaxed); }
        return bound_values(first);
    }

    /// Once, for a value that was just made: puts it in front of that list.
    void put_before(bound_values outer) noexcept {
        first_->outer_ = std::exchange(outer.first_, nullptr);
    }

    bound_value* first() const noexcept { return first_; }

private:
    // A list may be very long, so not by recursion. Acquire and release: what the last but one
    // owner did with the value comes before its destruction.
    static void release(bound_value* from) noexcept {
        while (from != nullptr && from->owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            bound_value* const outer = from->outer_;
            delete from;
            from = outer;
        }
    }

    bound_value* first_ = nullptr;
};

/// Binds a list of values for the running branch, and all that it awaits or forks, from
/// construction to destruction. It lies in the frame of the coroutine that binds. Throws
/// std::logic_error where no task runs.
class local_scope {
public:
    explicit local_scope(bound_values values);
    ~local_scope();
    local_scope(const local_scope&) = delete;
    local_scope& operator=(const local_scope&) = delete;

    /// What is found first by a branch in this scope; null for nothing.
    static bound_value* values_in(scope& inside, const scope& root) noexcept;

private:
    struct binding_scope : nested_scope {
        explicit binding_scope(bound_values list) noexcept : values(std::move(list)) {}
        bound_values values;
    };

    branch& running_;
    binding_scope scope_;
};

/// The list of the running branch, which keeps it as long as its innermost scope stays; null for
/// nothing, and where no task runs.
bound_value* values_of_running_branch() noexcept;

/// For a child that the running branch starts in a scope of `of`: the running branch's list, where
/// that is another one than the list which the child would find by itself; else null.
bound_value* values_to_hand_on(const branch& of, scope& in) noexcept;

/// Awaits a task with that list.
template <class T>
task<T> under_values(bound_values values, waiting_task<T> inner) {
    const local_scope scope(std::move(values));
    co_return co_await inner.take();
}

/// Awaits with one value more than the branch has by then.
template <class Awaitable>
task<awaited_value<Awaitable>> under_value(bound_values value, Awaitable inner) {
    value.put_before(bound_values::share(values_of_running_branch()));
    const local_scope scope(std::move(value));
    co_return co_await std::forward<Awaitable>(inner);
}

/// A task that is to be spawned, as one that has the list of the spawner.
template <class T>
task<T> with_values_of_spawner(task<T> spawned) {
    // Relaxed: a branch that has a list has it from somebody who had taken a key before.
    if (local_keys_taken.load(std::memory_order_relaxed) == 0) [[likely]] { return spawned; }
    bound_value* const first = values_of_running_branch();
    if (first == nullptr) { return spawned; }
    return under_values<T>(bound_values::share(first), waiting_task<T>(std::move(spawned)));
}

/// The same for the child of a group, which is spawned into a scope of the branch `of`.
inline task<> with_values_of_spawner(task<> child, const branch& of, scope& in) {
    if (local_keys_taken.load(std::memory_order_relaxed) == 0) [[likely]] { return child; }
    bound_value* const first = values_to_hand_on(of, in);
    if (first == nullptr) { return child; }
    return under_values<void>(bound_values::share(first), waiting_task<void>(std::move(child)));
}

}  // namespace weft::detail
