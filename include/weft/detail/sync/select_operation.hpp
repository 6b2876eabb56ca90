// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/clock.hpp>
#include <weft/detail/base/layer.hpp>
#include <weft/detail/branch/operation.hpp>
#include <weft/detail/sync/channel_operation.hpp>
#include <weft/detail/sync/select_core.hpp>
#include <weft/detail/sync/select_sides.hpp>
#include <weft/detail/time/timer_heap.hpp>

#include <cstddef>
#include <cstdint>

namespace weft::detail {

using selected_case = select_case<layer, channel_waiter>;
using selected = select_decision<channel_waiter>;

/// The time at which a select looks at its cases, read once and only if one of them asks.
class select_clock {
public:
    monotonic_time now() noexcept {
        if (!was_read_) now_ = monotonic_now();
        was_read_ = true;
        return now_;
    }
    bool was_read() const noexcept { return was_read_; }

private:
    monotonic_time now_ = 0;
    bool was_read_ = false;
};

using select_side_count = select_sides<layer>;

/// A case that stands in no line, for something that happens once. The head of select_core.hpp has
/// the protocol; the select calls, in this order: begin(), look(), and if it waits arm() and, when
/// it has been resumed or is about to be destroyed, leave().
class select_happening {
public:
    select_happening(const select_happening&) noexcept {}  // Only of one that has not begun.
    select_happening& operator=(const select_happening&) = delete;

    /// The select begins, on this branch.
    void begin(select_word<layer>& of, std::uint32_t index, branch& waiter) noexcept {
        of_ = &of;
        index_ = index;
        waiting_ = &waiter;
    }
    /// Has it happened already?
    virtual bool look(select_clock& clock) noexcept = 0;
    /// The select stands in its lines: asks to be told. It may happen before this returns. Throws
    /// std::bad_alloc, and has changed nothing then.
    virtual void arm(worker& here) = 0;
    /// The select is over: nobody finds this case when it returns. Does nothing if it is not armed.
    virtual void leave() noexcept = 0;
    /// As operation::completed_by_tasks(), of this case.
    virtual bool made_by_tasks() const noexcept { return false; }
    /// For a case with a side (select_sides.hpp), before arm() and instead of leave(): how the
    /// sides are counted; and to withdraw the side. True: the select counts it off.
    virtual void count_in(select_side_count&) noexcept {}
    virtual bool withdraw() noexcept {
        leave();
        return true;
    }

protected:
    select_happening() noexcept = default;
    ~select_happening() = default;

    select_word<layer>& word() const noexcept { return *of_; }
    std::uint32_t index() const noexcept { return index_; }
    branch& waiting() const noexcept { return *waiting_; }

    bool has_won() const noexcept {
        return of_->winner() == select_word<layer>::first_case + index_;
    }

private:
    select_word<layer>* of_ = nullptr;
    branch* waiting_ = nullptr;
    std::uint32_t index_ = 0;
};

/// A case that waits for a point in time: in the timer heap of the worker on which the select
/// began.
class select_timer final : public select_happening, private timer {
public:
    explicit select_timer(monotonic_time until) noexcept : until_(until) {}
    /// Only of one that has not begun, as of all awaitables.
    select_timer(const select_timer& other) noexcept
        : select_happening(other), timer(other), until_(other.until_) {}

    bool look(select_clock& clock) noexcept final { return until_ <= clock.now(); }
    void arm(worker& here) final;
    void leave() noexcept final;

private:
    void fire(branch_list& readied) noexcept override;

    monotonic_time until_;
    bool added_ = false;
    select_event<layer> event_;
};

/// What of a select does not depend on its cases. The head of select_core.hpp is about it.
class select_operation : public operation {
public:
    bool start(branch& waiter) noexcept final;
    bool unlink() noexcept final;
    /// Channels are served by tasks, and by threads outside that hold a guard.
    bool completed_by_tasks() const noexcept final;
    void leave_for_good() noexcept final;

protected:
    static constexpr std::uint32_t no_case = selected::none;

    /// What the derived class keeps for it: `count` cases, room for so many channels.
    struct parts {
        selected_case* cases;
        channel_core<layer, channel_waiter>** order;
        select_happening** happenings;  ///< Null for a case of a channel; null if all are.
        std::uint32_t count;
        std::uint32_t otherwise = no_case;   ///< The case that is made if no other can be.
        select_side_count* sides = nullptr;  ///< Null if no case has a side.
    };

    /// With sides it is started again when it has been woken up, and withdraws them then.
    explicit select_operation(bool has_sides) noexcept
        : operation(has_sides, wait_reason::select) {}
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
    /// std::bad_alloc if there was no memory to wait for one; then none was.
    std::uint32_t chosen() const;

private:
    void look_at_happenings(select_clock& clock) noexcept;
    bool arm_happenings(worker& here) noexcept;
    void count_sides() noexcept;
    bool wait_for_happenings(branch& waiter, bool timed) noexcept;
    bool leave_with_sides(branch& waiter) noexcept;

    parts parts_{};
    std::uint32_t chosen_ = no_case;  ///< Of a select that did not wait.
    /// Leaves: a select with sides has been woken up, and waits for those at most.
    enum class stage : std::uint8_t { begins, lined_up, leaves, over };

    stage stage_ = stage::begins;
    bool no_memory_ = false;
    select_word<layer> word_;
};

}  // namespace weft::detail
