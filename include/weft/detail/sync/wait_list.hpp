// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/assert.hpp>

namespace weft::detail {

/// What an operation has to be to lie in a wait list. The links belong to whoever holds the lock of
/// the list.
template <class Layer, class Waiter>
struct wait_links {
    typename Layer::template var<Waiter*> next{nullptr};
    typename Layer::template var<Waiter*> previous{nullptr};
    typename Layer::template var<bool> linked{false};
    /// The object was destroyed while it lay in its list: it is not looked at again.
    typename Layer::template var<bool> orphaned{false};
};

/// Who waits for an object, first in, first out: nodes in the frames of the waiting tasks, so that
/// waiting takes no memory. Everything under the lock of the object.
template <class Layer, class Waiter>
class wait_list {
public:
    wait_list() noexcept = default;
    wait_list(const wait_list&) = delete;
    wait_list& operator=(const wait_list&) = delete;

    bool empty() const noexcept { return first_ == nullptr; }
    Waiter* front() const noexcept { return first_; }

    void push_back(Waiter& added) noexcept {
        WEFT_ASSERT(!added.linked);
        added.linked = true;
        added.next = nullptr;
        added.previous = last_;
        link_after(last_) = &added;
        last_ = &added;
    }

    /// For one who has stood in front before.
    void push_front(Waiter& added) noexcept {
        WEFT_ASSERT(!added.linked);
        added.linked = true;
        added.previous = nullptr;
        added.next = first_;
        Waiter* const next = first_;
        (next != nullptr ? next->previous : last_) = &added;
        first_ = &added;
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
        Waiter* const next = removed.next;
        Waiter* const previous = removed.previous;
        link_after(previous) = next;
        (next != nullptr ? next->previous : last_) = previous;
        removed.linked = false;
        return true;
    }

    /// Everybody, linked through `next`, the first one in front. The list is empty then.
    Waiter* take_all() noexcept {
        Waiter* const first = first_;
        for (Waiter* each = first; each != nullptr; each = each->next) each->linked = false;
        first_ = nullptr;
        last_ = nullptr;
        return first;
    }

    void orphan_all() noexcept {
        for (Waiter* each = first_; each != nullptr; each = each->next) each->orphaned = true;
    }

private:
    template <class T>
    using var = typename Layer::template var<T>;

    var<Waiter*>& link_after(Waiter* previous) noexcept {
        return previous != nullptr ? previous->next : first_;
    }

    var<Waiter*> first_{nullptr};
    var<Waiter*> last_{nullptr};
};

}  // namespace weft::detail
