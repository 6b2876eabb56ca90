// SPDX-License-Identifier: MIT
#include <weft/detail/sync/broadcast_operation.hpp>

#include <weft/detail/base/assert.hpp>

namespace weft::detail {

broadcast_base::~broadcast_base() {
    task_waiter* const waiting = core.end();
    // At the end of a runtime frames are destroyed in any order, those with the receiver before
    // those that wait with it.
    WEFT_EXPECT(nobody_runs(waiting),
                "a receiver of a weft::broadcast or weft::watch was destroyed while a task waits "
                "with it; keep it until that has ended");
    complete_all(waiting);
}

bool broadcast_base::close() noexcept {
    task_waiter* gone = nullptr;
    if (!core.close(gone)) return false;
    complete_all(gone);
    return true;
}

}  // namespace weft::detail
