// SPDX-License-Identifier: MIT
#pragma once

#include "support/scheduler.hpp"

#include <weft/task.hpp>
#include <weft/yield.hpp>

namespace weft::test {

/// Comes back when no other task of the runtime can go on: each waits for something, or has ended.
/// For a runtime with one processor that starts no worker in the place of a blocked one. One yield
/// is not enough for that, since on a busy machine the time slice of the caller may end, and it is
/// put before others.
inline task<> settle() {
    do {
        co_await yield();
    } while (this_worker().p.queue.size() != 0 || this_core().global.size() != 0);
}

}  // namespace weft::test
