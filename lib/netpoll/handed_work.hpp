// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/layer.hpp>
#include <weft/detail/branch/branch.hpp>
#include <weft/detail/netpoll/handed_list.hpp>

namespace weft::detail {

class io_operation;
class poll_descriptor;

/// What a turn in a signal handler leaves to others (handed_list.hpp).
class handed_work {
public:
    /// In the handler: a waiter that was taken from its wait word, to be completed.
    void add(branch& taken) noexcept;
    /// In the handler: an operation whose gathered send has ended, and whose branch is to be
    /// readied.
    void add_sent(io_operation& sent) noexcept;
    /// In the handler: a descriptor whose last reference was dropped, to be ended.
    void add(poll_descriptor& ended) noexcept;

    bool empty() const noexcept {
        return waiters_.empty() && sent_.empty() && lives_.empty();
    }

    /// Any thread, with no lock and in no handler: does what is left. Branches to be readied are
    /// appended.
    void finish(branch_list& readied) noexcept;

private:
    handed_list<layer, io_operation> waiters_;
    handed_list<layer, io_operation> sent_;
    handed_list<layer, poll_descriptor> lives_;
};

}  // namespace weft::detail
