// SPDX-License-Identifier: MIT
#include "lib/base/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>

namespace weft::detail {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

[[gnu::hot]]
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                monotonic_time deadline) noexcept {
    timespec until{};
    timespec* timeout = nullptr;
    if (deadline != no_deadline) {
        // FUTEX_WAIT_BITSET takes a point on CLOCK_MONOTONIC, FUTEX_WAIT a duration.
        until = {.tv_sec = deadline / 1'000'000'000, .tv_nsec = deadline % 1'000'000'000};
        timeout = &until;
    }
    // EAGAIN (the value has changed), EINTR and ETIMEDOUT all mean: look again.
    ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected, timeout, nullptr,
              FUTEX_BITSET_MATCH_ANY);
}

[[gnu::hot]]
void futex_wake(std::atomic<std::uint32_t>& word) noexcept {
    ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace weft::detail
