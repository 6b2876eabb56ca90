// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/assert.hpp>
#include <weft/detail/sync/permit_operation.hpp>
#include <weft/detail/task/awaiter.hpp>
#include <weft/semaphore_permits.hpp>

#include <cstddef>
#include <limits>
#include <mutex>

namespace weft {

namespace detail {

class [[nodiscard]] scoped_permit_awaiter final : public awaiter<permit_operation> {
public:
    scoped_permit_awaiter(semaphore& from, semaphore_base& base, std::size_t wanted) noexcept
        : awaiter<permit_operation>(base, wanted, wait_reason::semaphore),
          from_(&from),
          wanted_(wanted) {}
    [[nodiscard]] semaphore_permits await_resume() {
        throw_unless_completed();
        take();
        return semaphore_permits(*from_, wanted_, std::adopt_lock);
    }

private:
    semaphore* from_;
    std::size_t wanted_;
};

}  // namespace detail

/// A number of permits: tasks take them, wait while there are too few, and give them back. Bounds
/// how many do something at a time, or how much of something is in use.
///
/// Permits are granted first in, first out: who wants many is not overtaken by who wants few, so it
/// gets them, and those behind it wait also where there would be enough for them. They belong to
/// nobody: one task may acquire and another one release. Who waits takes no memory.
///
/// A task that is destroyed at the end of its runtime, after it was granted permits and before it
/// could run, has not acquired them: they go to the next one.
///
/// A semaphore must outlive those who use it: destroying it while a task waits, or a guard keeps
/// permits, is an assertion in debug builds; in others the wait throws errc::closed, and the guard
/// lets go. Whoever has acquired what was released last may destroy it at once, although that
/// release() has not returned yet.
class semaphore : private detail::guarded_semaphore_base {
public:
    /// With so many permits at first, and never more than `limit`. Throws std::invalid_argument if
    /// there are more at first.
    explicit semaphore(std::size_t permits,
                       std::size_t limit = std::numeric_limits<std::size_t>::max())
        : guarded_semaphore_base(permits, limit) {}
    semaphore(const semaphore&) = delete;
    semaphore& operator=(const semaphore&) = delete;
    ~semaphore() = default;

    /// `const auto permits = co_await scoped_acquire(n);` takes n permits at once, for the scope,
    /// and waits until there are enough and nobody waits before it: a semaphore_permits. It resumes
    /// on the worker that released them, as far as that belongs to the task's runtime. Throws
    /// std::invalid_argument, before it is awaited, if n is above the limit; operation_canceled (or
    /// timed_out) when the scope of the task is stopped, and has taken nothing then: permits that
    /// had been granted before are taken all the same, without a throw.
    [[nodiscard]] detail::scoped_permit_awaiter scoped_acquire(std::size_t n = 1) {
        check_wanted(n);
        return detail::scoped_permit_awaiter(*this, *this, n);
    }

    /// The same without a guard: call release(), here or elsewhere.
    [[nodiscard]] detail::permit_awaiter acquire(std::size_t n = 1) {
        check_wanted(n);
        return detail::permit_awaiter(*this, n, detail::wait_reason::semaphore);
    }

    /// Takes n permits if it need not wait for them. Any thread.
    [[nodiscard]] bool try_acquire(std::size_t n = 1) noexcept { return core.acquire(n, nullptr); }

    /// Gives n permits back, or adds them, and grants them to those who wait; never runs one of
    /// these inline: on a worker they go into its queue, the last one into runnext. Never waits.
    /// Any thread; one that is no worker holds a runtime::guard while tasks wait. To exceed the
    /// limit is an assertion in debug builds; in others what is above it is dropped.
    void release(std::size_t n = 1) noexcept {
        [[maybe_unused]] const bool fits = semaphore_base::release(n);
        WEFT_EXPECT(fits,
                    "a weft::semaphore was released above its limit; release what was acquired, "
                    "once, or use co_await scoped_acquire(), whose guard does so");
    }

    /// How many are free. Others may change that at any time.
    std::size_t available() const noexcept { return core.permits(); }

private:
    friend class semaphore_permits;
};

inline semaphore_permits::semaphore_permits(semaphore& of, std::size_t n,
                                            std::adopt_lock_t) noexcept {
    mark_.set(of, n);
}

inline semaphore_permits::semaphore_permits(semaphore& of, std::size_t n,
                                            std::try_to_lock_t) noexcept {
    if (of.try_acquire(n)) mark_.set(of, n);
}

}  // namespace weft
