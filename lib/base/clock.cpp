// SPDX-License-Identifier: MIT
#include <weft/detail/base/clock.hpp>

#include <ctime>

namespace weft::detail {

namespace {

// Set by tests only, between runs; relaxed, since nothing else is ordered by it.
std::atomic<monotonic_time> held_slice_clock{no_deadline};

monotonic_time read_clock(clockid_t which) noexcept {
    timespec now{};
    ::clock_gettime(which, &now);
    return static_cast<monotonic_time>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

[[gnu::hot]]
monotonic_time monotonic_now() noexcept {
    return read_clock(CLOCK_MONOTONIC);
}

[[gnu::hot]]
monotonic_time slice_now() noexcept {
    const monotonic_time held = held_slice_clock.load(std::memory_order_relaxed);
    return held == no_deadline ? monotonic_now() : held;
}

[[gnu::hot]]
monotonic_time slice_tick() noexcept {
    const monotonic_time held = held_slice_clock.load(std::memory_order_relaxed);
    return held == no_deadline ? read_clock(CLOCK_MONOTONIC_COARSE) : held;
}

void hold_slice_clock(monotonic_time at) noexcept {
    held_slice_clock.store(at, std::memory_order_relaxed);
}

}  // namespace weft::detail
