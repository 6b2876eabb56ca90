// SPDX-License-Identifier: MIT
#include <weft/detail/sync/broadcast_operation.hpp>

#include <weft/detail/base/assert.hpp>

namespace weft::detail {

broadcast_base::~broadcast_base() {
    task_waiter* const waiting = core.end();
    // A task that waits must not outlive what it waits for. At the end of a runtime frames are
    // destroyed in any order, those with the broadcast before those that wait for its values.
    WEFT_ASSERT(nobody_runs(waiting));
    complete_all(waiting);
}

bool broadcast_base::close() noexcept {
    task_waiter* gone = nullptr;
    if (!core.close(gone)) return false;
    complete_all(gone);
    return true;
}

}  // namespace weft::detail
