// SPDX-License-Identifier: MIT
#include "lib/base/fork_epoch.hpp"

namespace weft::detail {

constinit layer::atomic<std::uint32_t> fork_epoch{0};

}  // namespace weft::detail
