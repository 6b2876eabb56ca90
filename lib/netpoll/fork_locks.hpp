// SPDX-License-Identifier: MIT
#pragma once

namespace weft::detail {

/// From the first call on, the locks of the process-wide tables of the netpoller are held over each
/// fork, so that a child finds the tables whole and can make a runtime of its own. The locks of
/// descriptors are not: a child does not use those that it has inherited (fork_epoch.hpp).
void hold_locks_over_forks() noexcept;

}  // namespace weft::detail
