// SPDX-License-Identifier: MIT
//
// A lock of threads that a task still holds when it suspends.
//
// The task may go on on another thread, and a std::mutex must be released by the thread that has
// taken it. And until it goes on, whoever wants the mutex blocks a thread: a second task on the
// same worker keeps the first one from ever going on. So that is a fault of the program, and one
// that shows rarely; where locks are counted (lib/base/held_locks.hpp) it is told in the log at the
// first time that it happens.
//
// The worker sets the count of its thread to zero before it resumes a branch, since the thread that
// calls run() may hold locks of its own for as long as that lasts. Who is about to park, to go
// behind a queue, or to end looks at it. That is before anybody may resume the branch: where it
// awaits can still be read. An await that is ready at once is no suspension, and is not told of;
// one that does not wait in the end, because what it waits for happens at that moment, is.
//
// So a lock that is held over several awaits is told of at the first of them, and what is told is
// true: whatever is released, the count is never more than what the branch has taken since it was
// resumed and still holds. It may be less, where the branch releases in between what it had held
// before: then the next report comes when that fault has been mended.
//
// Rejected: a count in each branch, which would know the task that holds a lock on every thread. It
// would make control blocks and resumes dearer in all builds, or different in some.
//
// Each place is told once, so a loop or a million tasks fill no log. The line goes through the
// queue of reports: the log is the user's code, and might want the very mutex that is held.
#pragma once

#include <weft/detail/branch/branch.hpp>

#include <array>
#include <cstddef>
#include <mutex>
#include <source_location>
#include <string>

namespace weft::detail {

class runtime_core;

class held_lock_reports {
public:
    explicit held_lock_reports(runtime_core& runtime) noexcept : runtime_(runtime) {}
    held_lock_reports(const held_lock_reports&) = delete;
    held_lock_reports& operator=(const held_lock_reports&) = delete;

    /// The worker of a branch that is about to suspend, or has ended, and holds so many locks; its
    /// handle is the frame in which it does so.
    void report(const branch& leaving, int locks, bool ends) noexcept;

private:
    static constexpr std::size_t place_limit = 64;

    bool claim(const std::source_location& place, bool& last) noexcept;
    void give_back(const std::source_location& place) noexcept;
    std::string text(const branch& leaving, int locks, bool ends, bool last) const;

    runtime_core& runtime_;
    std::mutex mutex_;
    std::array<std::source_location, place_limit> places_;
    std::size_t count_ = 0;
};

}  // namespace weft::detail
