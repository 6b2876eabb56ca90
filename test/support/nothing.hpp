// SPDX-License-Identifier: MIT
#pragma once

#include <weft/task.hpp>

namespace weft::test {

/// A task that does nothing: what a test spawns, or counts the costs of.
inline task<> nothing() {
    co_return;
}

}  // namespace weft::test
