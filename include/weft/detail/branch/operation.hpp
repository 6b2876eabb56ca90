// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/assert.hpp>
#include <weft/detail/branch/branch.hpp>

#include <cstdint>

namespace weft::detail {

/// How an operation ended, as far as the scheduler is concerned.
enum class operation_outcome : std::uint8_t {
    completed,  ///< What was awaited has happened; the operation holds its own result.
    cancelled,  ///< The scope was stopped: errc::operation_canceled.
    late,       ///< The scope's deadline passed: errc::timed_out.
};

/// What everything that parks a branch derives from. It lies in the awaiting frame and lives until
/// the branch has been resumed.
///
/// Life: await_suspend calls start(). start() either finishes at once, or publishes the operation
/// to its object (the timer heap, a wait word, ...) and then, as its very last step, returns
/// `park(branch, *this)`. From the publication on, a completer may take the operation off its
/// object and call `branch.word.complete()`; from the suspension on, a canceller may call unlink().
class operation {
public:
    /// Tries to finish, on the worker `*waiter.current`. True: done, the branch goes on. False: the
    /// branch is suspended and may already run elsewhere; the caller touches nothing.
    ///
    /// With `restarts()` set, the worker that is about to resume the branch, or to queue it for
    /// that, calls start() again first, on its own stack, and resumes the coroutine only if that
    /// returns true: this is how a socket operation repeats its system call after a wake-up without
    /// a frame of its own.
    virtual bool start(branch& waiter) noexcept = 0;

    /// Takes the operation off its object. Called without any lock, by the canceller that owns the
    /// wake-up. True: it was still there, and no completer will touch it. False: a completer has
    /// taken it and will call complete().
    virtual bool unlink() noexcept = 0;

    /// Is it certain that only a task of the waiter's runtime can complete this? Then the branch
    /// sleeps for good once all tasks do (all_asleep.hpp). Called while it is parked and cannot
    /// run.
    [[gnu::hot]] virtual bool completed_by_tasks() const noexcept { return false; }

    /// The id of the task that holds what is waited for; 0: none, or it is not known. For reports,
    /// called while it is parked and cannot run.
    virtual std::uint64_t held_by() const noexcept { return 0; }

    /// At the end of a runtime, for an operation that no stop ends and that cannot be taken off:
    /// ends its wait all the same, where it is parked.
    virtual void leave_for_good() noexcept {}

    bool restarts() const noexcept { return restarts_; }
    operation_outcome outcome() const noexcept { return outcome_; }

    /// Written by the canceller that owns the wake-up, when it has taken the operation off its
    /// object itself, before it readies. Where a completer was faster the outcome stays
    /// `completed`.
    void cancel_with(operation_outcome outcome) noexcept { outcome_ = outcome; }

    /// At the end of a runtime, where the memory of the branch goes before this object does.
    void forget_branch() noexcept {
        leave_for_good();
        unlink_if_parked();
    }

protected:
    explicit operation(bool restarts, wait_reason reason) noexcept
        : restarts_(restarts), reason_(reason) {}
    /// Only of an operation that has not started: so that awaitables can be handed on by value.
    operation(const operation& other) noexcept
        : restarts_(other.restarts_), reason_(other.reason_) {
        WEFT_ASSERT(!other.awaited_);
    }
    operation& operator=(const operation&) = delete;
    ~operation() = default;

    /// For the destructor of the most derived class: at the end of a runtime a frame is destroyed
    /// while its operation is still on an object.
    void unlink_if_parked() noexcept {
        if (is_parked()) waiter_->word.end_parked([this]() noexcept { return unlink(); });
        await_is_over();
    }
    bool is_parked() const noexcept {
        return waiter_ != nullptr && waiter_->waiting_for == this &&
               waiter_->status == branch_status::parked;
    }

    /// For await_suspend(), where start() has returned true: pays for going on without a trip
    /// through the queue, unless finish_inline() has done so. Operations that failed or were
    /// stopped pay as well, or a task that goes on awaiting after a stop would keep its worker to
    /// itself. False: the branch went behind the local queue; touch nothing.
    bool pay_for_going_on(branch& waiter) noexcept {
        return paid_ || pay_now(waiter);
    }

    /// The branch that waits; set by begin(), and null again when the await is over.
    branch* waiter() const noexcept { return waiter_; }

    /// For await_suspend(), before start(): ends the process if it was called before. An operation
    /// has one life; what it holds after its end is no result of another one.
    void begin(branch& running) noexcept {
        if (awaited_) [[unlikely]] {
            awaited_twice();
        }
        awaited_ = true;
        waiter_ = &running;
    }

    /// For await_resume(): ends the process if somebody else than a worker resumed the branch. The
    /// branch, which may be a child and go before this object does, is forgotten.
    void check_resumed_by_weft() const noexcept {
        if (waiter_ != nullptr) {
            check_running(*waiter_);
            await_is_over();
        }
    }

    /// The same without the check. The branch forgets the operation as well: what it waits for is
    /// alive, or null.
    void await_is_over() const noexcept {
        if (waiter_ != nullptr && waiter_->waiting_for == this) waiter_->waiting_for = nullptr;
        waiter_ = nullptr;
    }

private:
    friend bool park(branch& waiter, operation& published) noexcept;
    friend bool prepare_park(branch& waiter, operation& next) noexcept;
    friend bool finish_inline(branch& waiter, operation& ready) noexcept;

    static bool pay_now(branch& waiter) noexcept;

    mutable branch* waiter_ = nullptr;
    bool awaited_ = false;
    bool restarts_;
    bool paid_ = false;  ///< finish_inline() has taken from the budget of this resume.
    wait_reason reason_;
    operation_outcome outcome_ = operation_outcome::completed;
};

/// How an operation ends that the stop of its branch's innermost scope ends; `completed` if that
/// scope has not been stopped.
inline operation_outcome stop_outcome(const branch& stopped) noexcept {
    if (!stopped.word.stop_requested()) return operation_outcome::completed;
    return stopped.word.late() ? operation_outcome::late : operation_outcome::cancelled;
}

/// First step of a park, before the operation is published: stores it in the branch. False: the
/// scope is stopped already, the outcome is set, and start() returns true without publishing.
bool prepare_park(branch& waiter, operation& next) noexcept;

/// Where start() could finish at once: true if the budget of this resume allows it. Otherwise the
/// branch goes behind the local queue and start() is called again when it comes up; false then.
bool finish_inline(branch& waiter, operation& ready) noexcept;

/// Last step of start(), after the publication. True: finished after all, either because the
/// completer was faster or because the scope was stopped meanwhile (see outcome()); the branch goes
/// on. False: suspended; touch neither the branch nor the operation.
bool park(branch& waiter, operation& published) noexcept;

}  // namespace weft::detail
