// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/assert.hpp>

#include <utility>

namespace weft::detail {

/// What an operation has to be to lie in a wait list. The links belong to whoever holds the lock of
/// the list.
template <class Waiter>
struct wait_links {
    Waiter* next = nullptr;
    Waiter* previous = nullptr;
    bool linked = false;
};

/// Who waits for an object, first in, first out: nodes in the frames of the waiting tasks, so that
/// waiting takes no memory. Everything under the lock of the object.
template <class Waiter>
class wait_list {
public:
    wait_list() noexcept = default;
    wait_list(const wait_list&) = delete;
    wait_list& operator=(const wait_list&) = delete;

    bool empty() const noexcept { return first_ == nullptr; }

    void push_back(Waiter& added) noexcept {
        WEFT_ASSERT(!added.linked);
        added.linked = true;
        added.next = nullptr;
        added.previous = last_;
        (last_ != nullptr ? last_->next : first_) = &added;
        last_ = &added;
    }

    /// Null: nobody waits.
    Waiter* pop_front() noexcept {
        Waiter* const first = first_;
        if (first != nullptr) remove(*first);
        return first;
    }

    /// False: it has been taken off before.
    bool remove(Waiter& removed) noexcept {
        if (!removed.linked) return false;
        (removed.previous != nullptr ? removed.previous->next : first_) = removed.next;
        (removed.next != nullptr ? removed.next->previous : last_) = removed.previous;
        removed.linked = false;
        return true;
    }

    /// Everybody, linked through `next`, the first one in front. The list is empty then.
    Waiter* take_all() noexcept {
        for (Waiter* each = first_; each != nullptr; each = each->next) each->linked = false;
        last_ = nullptr;
        return std::exchange(first_, nullptr);
    }

private:
    Waiter* first_ = nullptr;
    Waiter* last_ = nullptr;
};

}  // namespace weft::detail
