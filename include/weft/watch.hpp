// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/sync/broadcast_operation.hpp>
#include <weft/detail/task/awaiter.hpp>

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace weft {

namespace detail {

template <class Value>
class [[nodiscard]] change_awaiter final : public awaiter<follow_operation<Value>> {
public:
    using awaiter<follow_operation<Value>>::awaiter;
    std::shared_ptr<const Value> await_resume() {
        this->throw_unless_completed();
        return this->value();
    }
};

}  // namespace detail

/// A value that changes, and tasks that want to know (Tokio's watch): configuration, a state, a
/// progress. Only the latest value counts: one that is slow misses those in between. See broadcast
/// for one that gets every value.
///
/// Any number of tasks, also of several runtimes, may set it, and each receiver is used by one task
/// at a time. Values are shared and not copied: what get() gave stays as it is. Who waits takes no
/// memory. Threads outside may use everything but changed(), and hold a runtime::guard while they
/// may still wake a task.
///
/// Destroying it closes it. Its receivers may outlive it, and keep its last value.
template <class Value>
class watch {
    static_assert(std::is_object_v<Value> && !std::is_const_v<Value>,
                  "weft: a watch holds an object; use pointers or std::reference_wrapper");

public:
    class receiver;

    /// With its first value, which no receiver takes for a change. Throws std::bad_alloc.
    explicit watch(Value first) : store_(std::make_shared<detail::broadcast_store<Value>>(1)) {
        set(std::move(first));
    }
    watch(const watch&) = delete;
    watch& operator=(const watch&) = delete;
    ~watch() { close(); }

    /// Changes the value. Tasks that wait go on, in the order in which they came; none of them
    /// inside this call: on a worker they go into its queue, the last one into runnext. Never
    /// waits. Any thread. False: it is closed, and keeps its last value. Throws std::bad_alloc, and
    /// what moving the value throws; nothing is changed then.
    bool set(Value value) {
        return store_->publish(std::make_shared<const Value>(std::move(value)));
    }

    /// The latest value, never null. Any thread.
    [[nodiscard]] std::shared_ptr<const Value> get() const noexcept {
        std::shared_ptr<const Value> latest;
        store_->newest(latest);
        return latest;
    }

    /// A receiver that has seen what the value is now.
    [[nodiscard]] receiver subscribe() noexcept {
        return receiver(store_, store_->core.newest([](std::size_t) noexcept {}));
    }

    /// The value changes no more. Receivers can still see its last change. Never waits. Any thread.
    /// False: it was closed before.
    bool close() noexcept { return store_->close(); }

    bool closed() const noexcept { return store_->core.closed(); }

private:
    std::shared_ptr<detail::broadcast_store<Value>> store_;
};

/// One who is told of changes. It may be copied while no task waits with it; a copy has seen what
/// this one has. So has what it is moved to, and one that was moved from is as it was. It may
/// outlive the watch, and must outlive a task's wait with it.
template <class Value>
class watch<Value>::receiver {
public:
    receiver(const receiver&) noexcept = default;
    receiver& operator=(const receiver&) noexcept = default;
    ~receiver() = default;

    /// `co_await changed()` waits until the value is another one than this receiver has seen, and
    /// gives the latest one, which it has seen then. Resumes on the worker that set it, as far as
    /// that belongs to the task's runtime. Null: it is closed, and the last change has been seen.
    /// Throws operation_canceled (or timed_out) when the scope is stopped, and has seen nothing
    /// then.
    [[nodiscard]] detail::change_awaiter<Value> changed() noexcept {
        return detail::change_awaiter<Value>(*from_, next_);
    }

    /// The latest value, never null, which this receiver has seen from then on. Any thread.
    [[nodiscard]] std::shared_ptr<const Value> latest() noexcept {
        std::shared_ptr<const Value> latest;
        next_ = from_->newest(latest);
        return latest;
    }

private:
    friend class watch;
    receiver(std::shared_ptr<detail::broadcast_store<Value>> from, std::uint64_t next) noexcept
        : from_(std::move(from)), next_(next) {}

    std::shared_ptr<detail::broadcast_store<Value>> from_;
    std::uint64_t next_;
};

}  // namespace weft
