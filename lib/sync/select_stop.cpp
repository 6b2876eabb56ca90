// SPDX-License-Identifier: MIT
#include <weft/detail/sync/select_stop.hpp>

namespace weft::detail {

void select_stop::arm(worker&) noexcept {
    callback_.emplace(token_, call{this});
}

// Any thread.
void select_stop::stop() noexcept {
    if (!word().claim(select_word<layer>::first_case + index())) return;
    branch_list readied;
    complete_waiter(waiting(), readied);
    make_ready(readied);
}

}  // namespace weft::detail
