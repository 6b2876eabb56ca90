// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/clock.hpp>
#include <weft/detail/base/layer.hpp>
#include <weft/detail/branch/operation.hpp>
#include <weft/detail/sync/channel_operation.hpp>
#include <weft/detail/sync/select_core.hpp>
#include <weft/detail/time/timer_heap.hpp>

#include <cstddef>
#include <cstdint>

namespace weft::detail {

using selected_case = select_case<layer, channel_waiter>;
using selected = select_decision<channel_waiter>;

/// A case that waits for a point in time: in the timer heap of the worker on which the select
/// began.
class select_timer final : private timer {
public:
    explicit select_timer(monotonic_time until) noexcept : until_(until) {}
    /// Only of one that has not begun, as of all awaitables.
    select_timer(const select_timer& other) noexcept : timer(other), until_(other.until_) {}

    monotonic_time until() const noexcept { return until_; }

    /// Its select begins, on this branch.
    void begin(select_word<layer>& of, std::uint32_t index, branch& waiter) noexcept;
    /// The select waits. Throws std::bad_alloc, and has changed nothing then.
    void add_to(timer_heap& heap);
    /// The select is over: nobody finds this timer when it returns.
    void leave() noexcept;

private:
    void fire(branch_list& readied) noexcept override;

    monotonic_time until_;
    bool added_ = false;
    std::uint32_t index_ = 0;
    select_word<layer>* of_ = nullptr;
    branch* waiting_ = nullptr;
    select_event<layer> event_;
};

/// What of a select does not depend on its cases. The head of select_core.hpp is about it.
class select_operation : public operation {
public:
    bool start(branch& waiter) noexcept final;
    bool unlink() noexcept final { return word_.claim(select_word<layer>::cancelled); }
    /// Channels are served by tasks, and by threads outside that hold a guard; time passes anyway.
    bool completed_by_tasks() const noexcept final { return !timed_; }

protected:
    static constexpr std::uint32_t no_case = selected::none;

    /// What the derived class keeps for it: `count` cases, room for so many channels and timers.
    struct parts {
        selected_case* cases;
        channel_core<layer, channel_waiter>** order;
        select_timer** timers;  ///< Null for a case that is none.
        std::uint32_t count;
        std::uint32_t otherwise = no_case;  ///< The case that is made if no other can be.
    };

    select_operation() noexcept : operation(false, wait_reason::select) {}
    select_operation(const select_operation& other) noexcept : operation(other) {}
    ~select_operation() = default;

    /// Tells each case its place, the word and the branch, and asks each for its part.
    virtual parts begin_cases(branch& waiter) noexcept = 0;
    /// Moves the value of the case that was decided on.
    virtual void make(const selected& decided) noexcept = 0;

    select_word<layer>& word() noexcept { return word_; }

    /// Resumed, or about to be destroyed: nobody finds this select when it returns. The second time
    /// it does nothing.
    void leave() noexcept;

    /// After the end of the select, if it was not stopped: the case that was made. Throws
    /// std::bad_alloc if there was no memory for a timer; then none was.
    std::uint32_t chosen() const;

private:
    bool add_timers(worker& here) noexcept;

    parts parts_{};
    std::uint32_t chosen_ = no_case;  ///< Of a select that did not wait.
    bool timed_ = false;
    bool lined_up_ = false;
    bool no_memory_ = false;
    select_word<layer> word_;
};

}  // namespace weft::detail
