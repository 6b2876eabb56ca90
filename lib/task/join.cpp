// SPDX-License-Identifier: MIT
#include <weft/detail/task/join.hpp>

#include <weft/error.hpp>

#include <system_error>

namespace weft::detail {

[[gnu::hot]]
bool join_operation::start(branch& waiter) noexcept {
    // A stopped scope comes first: a loop over finished tasks can be stopped as well.
    if (!prepare_park(waiter, *this)) { return true; }
    if (joined_ == nullptr || joined_->join.finished()) { return finish_inline(waiter, *this); }
    if (!joined_->join.publish(&waiter)) {
        check_finished(*joined_);
        return true;
    }
    return park(waiter, *this);
}

bool join_operation::unlink() noexcept {
    return joined_->join.withdraw(waiter());
}

[[gnu::hot]]
bool join_operation::completed_by_tasks() const noexcept {
    return &joined_->runtime() == &waiter()->owner->runtime();
}

void throw_stopped_by_runtime() {
    throw std::system_error(errc::stopped);
}

}  // namespace weft::detail
