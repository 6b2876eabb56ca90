// SPDX-License-Identifier: MIT
//
// How many processors the machine gives this process, at the start and later on.
//
// The count is the smaller of what the affinity mask of the asking thread and the quota of the
// control groups allow. Both may change while the program runs: an orchestrator resizes a container
// without a restart. So whoever watches over the runtime asks now and then; the files are read at
// most once a second, and not at all where the program or its user chose the count.
#pragma once

#include "lib/base/cgroup_quota.hpp"

#include <weft/detail/base/clock.hpp>

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

namespace weft::detail {

/// What affinity and quota allow now, from 1 to largest_processor_count. Throws std::bad_alloc.
std::uint32_t processors_of_machine(cgroup_reader& quotas);
std::uint32_t processors_of_machine(const cgroup_roots& roots = {});

/// Tells when the count of the machine has changed.
class processor_count_watch {
public:
    static constexpr monotonic_time period = 1'000'000'000;

    /// `found` is the count that was read at the time `now`. Inactive: it never reads anything.
    processor_count_watch(bool active, std::uint32_t found, monotonic_time now,
                          cgroup_roots roots = {})
        : active_(active), last_(found), next_look_(after_period(now)), quotas_(std::move(roots)) {}

    /// One thread at a time, whose affinity is that of the whole process: the new count, if it has
    /// changed since it was told last. Reads files at most once in a period.
    std::optional<std::uint32_t> look(monotonic_time now);

    /// The same thread: what look() has told could not be used, so its next look tells again.
    void tell_again() noexcept { last_ = 0; }

    /// Any thread: the count was chosen by hand, from now on it is nobody else's matter.
    void stop() noexcept {
        // Relaxed: a look that runs already may still tell of a change, as one before it could.
        active_.store(false, std::memory_order_relaxed);
    }
    bool active() const noexcept { return active_.load(std::memory_order_relaxed); }

    /// When look() will read files again; no_deadline if never.
    monotonic_time next_look() const noexcept { return active() ? next_look_ : no_deadline; }

private:
    static monotonic_time after_period(monotonic_time now) noexcept {
        return now >= no_deadline - period ? no_deadline : now + period;
    }

    std::atomic<bool> active_;
    std::uint32_t last_;
    monotonic_time next_look_;
    cgroup_reader quotas_;
};

}  // namespace weft::detail
