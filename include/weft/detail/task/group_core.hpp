// SPDX-License-Identifier: MIT
//
// What a task group decides: which of its children runs, which failure is the first one, and when
// all have ended.
//
//     add      a child, by the body of the group or by one of its children
//                  fewer run than the limit allows    it runs: the caller queues it
//                  else                               it waits behind those that wait already
//     fail     a child, or the body, has failed       the first one: the caller keeps the failure,
//                                                     and stops the scope; all others: suppressed
//     end      a child has ended, and has left the    the one that has waited longest runs in its
//              scope of the group                     place; it was the last one: the caller
//                                                     completes the parent's operation word
//     leave    the body has ended                     none is left: the parent goes on; else it
//                                                     parks, and the last child completes it
//
// The body holds a share, and so does each child, running or not; whoever adds one holds a share.
// So the count is never zero before leave(), and from zero it never rises. One lock guards all.
//
// Why nothing is touched too late. The group lies in the parent's frame, which goes when the parent
// goes on. For a child that is not the last one the release of the lock in end() is its last touch:
// leave(), or the end() of the last one, comes after it in the order of the lock. The last one
// still completes the parent, which does not go on before that (child_join.hpp).
//
// A child that waits for its turn is in the scope like one that runs. A stop passes it by, since it
// is not parked; when its turn comes it finds the stop, and ends without having started, which
// gives the turn to the next.
//
// Where it failed and stopped first is decided before the scope is stopped, so that what fails by
// the stop is never the first failure.
//
// Rejected: a count without a lock, with the waiting children in a list of their own (a child that
// ends has to give up its turn and look at the list in one step, or a turn is lost); to wait in
// spawn() for a turn (it could be used by tasks alone, and not by a destructor; a body that is to
// keep step takes a semaphore).
#pragma once

#include <weft/detail/base/assert.hpp>
#include <weft/detail/base/spin_lock.hpp>

#include <cstddef>
#include <mutex>

namespace weft::detail {

/// Child has `next`, which is free while it is in no queue.
template <class Layer, class Child>
class group_core {
public:
    /// So many children at most run at once; 0: any number.
    explicit group_core(std::size_t limit) noexcept : limit_(limit) {}

    /// Who holds a share. True: the caller queues the child.
    [[nodiscard]] bool add(Child& child) noexcept {
        const std::lock_guard held(lock_);
        WEFT_ASSERT(shares_ != 0);
        shares_ = shares_ + 1;
        if (limit_ == 0 || running_ < limit_) {
            running_ = running_ + 1;
            return true;
        }
        child.next = nullptr;
        if (first_waiting_ == nullptr) {
            first_waiting_ = &child;
        } else {
            last_waiting_->next = &child;
        }
        last_waiting_ = &child;
        return false;
    }

    /// Who holds a share. True: this is the first failure.
    [[nodiscard]] bool fail() noexcept {
        const std::lock_guard held(lock_);
        if (failed_) { return false; }
        failed_ = true;
        return true;
    }

    struct end_decision {
        Child* next = nullptr;  ///< To be queued by the caller.
        bool last = false;      ///< The caller completes the parent.
    };

    /// A child, which gives up its share. Nothing of the group is touched afterwards, but where it
    /// was the last one.
    [[nodiscard]] end_decision end() noexcept {
        const std::lock_guard held(lock_);
        end_decision decided;
        decided.next = first_waiting_;
        if (decided.next != nullptr) {
            first_waiting_ = decided.next->next;
        } else {
            running_ = running_ - 1;
        }
        decided.last = drop_share();
        return decided;
    }

    /// The parent: the body has ended. True: no child is left.
    [[nodiscard]] bool leave() noexcept {
        const std::lock_guard held(lock_);
        return drop_share();
    }

private:
    template <class T>
    using var = typename Layer::template var<T>;

    bool drop_share() noexcept {
        WEFT_ASSERT(shares_ != 0);
        shares_ = shares_ - 1;
        return shares_ == 0;
    }

    spin_lock<Layer> lock_;
    var<bool> failed_{false};
    const std::size_t limit_;
    var<std::size_t> running_{0};
    var<std::size_t> shares_{1};  ///< Of the body.
    var<Child*> first_waiting_{nullptr};
    var<Child*> last_waiting_{nullptr};
};

}  // namespace weft::detail
