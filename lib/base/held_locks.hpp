// SPDX-License-Identifier: MIT
#pragma once

namespace weft::detail {

#if WEFT_HELD_LOCKS
inline constexpr bool counts_held_locks = true;

/// How many locks of threads the calling thread has taken since forget_held_locks() and not
/// released again: mutexes, read-write locks and spin locks of pthreads, which std::mutex and its
/// kind are made of. Never more than that; fewer where it has released others meanwhile, which it
/// had taken before, or which another thread had taken.
int held_locks() noexcept;

/// From now on the locks that the calling thread holds don't count.
void forget_held_locks() noexcept;
#else
/// Nothing is counted in this build: see the option held_locks.
inline constexpr bool counts_held_locks = false;
constexpr int held_locks() noexcept {
    return 0;
}
inline void forget_held_locks() noexcept {}
#endif

}  // namespace weft::detail
