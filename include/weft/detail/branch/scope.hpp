// SPDX-License-Identifier: MIT
//
// Cancel scopes: a tree of regions that can be stopped as a whole.
//
// A task's root scope lies in its control block; with_timeout and its kind open a scope inside the
// branch's innermost one and close it again. Stopping a scope stops everything inside it: the
// branch whose innermost scope it is (its occupant), and every scope that was opened inside.
//
// Who may touch what:
//   * flags_, occupant_ and first_child_ of a scope, and the sibling links of its children, belong
//     to the scope's lock. So do the flag bits in the word of its occupant.
//   * Locks are taken from parent to child only. A stop holds the locks on the path from the scope
//     that it stops to the scope that it visits, so no scope on that path can leave its parent.
//   * A scope is closed by the branch that opened it, under the lock of its parent.
//
// Invariant: under the lock of a scope with an occupant, the flags in the occupant's word equal the
// flags of the scope. Opening inherits the parent's flags, so that a scope opened inside a stopped
// one is stopped from the start; closing gives the branch the flags of the parent back. Therefore a
// branch that parks needs to look at its own word only.
//
// Why a stop is never lost: the flags are set under the scope's lock. A scope that is opened after
// that inherits them under the same lock; one that was opened before is in the list of children.
// A branch that parks after the stop has changed its word finds the flag in suspend(); one that
// parked before is found armed and is cancelled.
//
// A stop touches no frame while it holds a lock: branches that it found parked are collected (they
// are in no queue, so branch::next is free) and their operations are taken off their objects after
// the last unlock. Until then they are in the state `cancelling`, which keeps them and their scopes
// where they are.
//
// The tree is walked without recursion, so its depth is bounded by memory alone.
#pragma once

#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/branch/operation_word.hpp>

#include <atomic>
#include <cstdint>

namespace weft::detail {

template <class Layer, class Branch>
class basic_nested_scope;

/// A cancel scope over the branches of type Branch (which has `word` and `next`). By itself it is
/// the root scope of a task: it has no parent and is never closed, so that a control block pays for
/// nothing else.
template <class Layer, class Branch>
class basic_scope {
public:
    /// A root scope, occupied by the branch of a task that has not started.
    explicit basic_scope(Branch* occupant) noexcept : occupant_(occupant) {}
    basic_scope(const basic_scope&) = delete;
    basic_scope& operator=(const basic_scope&) = delete;

    /// Any thread: stops this scope and all inside it. Returns the branches that were parked,
    /// linked through `next`; the caller cancels each: it takes the operation off its object, then
    /// calls withdrawn() or let_go() of its word, and readies the branch if that says so.
    Branch* stop(bool late) noexcept {
        Branch* parked = nullptr;
        lock_.lock();
        if (!mark(late, parked)) {
            lock_.unlock();
            return nullptr;
        }
        basic_scope* current = this;
        nested* child = first_child_;
        for (;;) {
            if (child != nullptr) {
                child->lock_.lock();
                if (child->mark(late, parked)) {
                    current = child;  // Descend; its lock stays held.
                    child = current->first_child_;
                } else {
                    // Stopped before, and therefore all that is inside it.
                    nested* next = child->next_sibling_;
                    child->lock_.unlock();
                    child = next;
                }
            } else if (current != this) {
                // The lock of the parent is held, so the links of `current` stay.
                nested* finished = static_cast<nested*>(current);
                child = finished->next_sibling_;
                current = finished->parent_;
                finished->lock_.unlock();
            } else {
                lock_.unlock();
                return parked;
            }
        }
    }

    /// Any thread that keeps the scope alive: has it been stopped?
    bool stopped() noexcept {
        lock_.lock();
        const bool result = (flags_ & operation_word<Layer>::stop_flag) != 0;
        lock_.unlock();
        return result;
    }

    /// The task of this root scope has ended, and its control block will be used again: takes a stop
    /// back. Under the lock, since a walk over all tasks may be stopping it just now; such a late
    /// stop hits the next task of the block, which is right, since it was meant for all.
    void take_stop_back(Branch& branch) noexcept {
        lock_.lock();
        flags_ = 0;
        branch.word.adopt_flags(0);
        lock_.unlock();
    }

private:
    using nested = basic_nested_scope<Layer, Branch>;
    using word = operation_word<Layer>;
    friend nested;

    /// Under the lock: sets the flags here and in the occupant's word. False: stopped already.
    bool mark(bool late, Branch*& parked) noexcept {
        if ((flags_ & word::stop_flag) != 0) {
            return false;
        }
        flags_ = word::stop_flag | (late ? word::late_flag : 0U);
        if (occupant_ != nullptr && occupant_->word.request_stop(late)) {
            occupant_->next = parked;
            parked = occupant_;
        }
        return true;
    }

    template <class T>
    using var = typename Layer::template var<T>;

    var<nested*> first_child_{nullptr};
    var<Branch*> occupant_{nullptr};
    var<std::uint32_t> flags_{0};
    spin_lock<Layer> lock_;
};

/// A scope that a branch opens inside its innermost one, and closes.
template <class Layer, class Branch>
class basic_nested_scope : public basic_scope<Layer, Branch> {
    using base = basic_scope<Layer, Branch>;

public:
    /// To be opened by open().
    basic_nested_scope() noexcept : base(nullptr) {}

    /// Running branch: makes this scope the innermost one, inside `parent`, which was it before.
    void open(base& parent, Branch& branch) noexcept {
        parent.lock_.lock();
        parent_ = &parent;
        this->occupant_ = &branch;
        this->flags_ = parent.flags_;
        next_sibling_ = parent.first_child_;
        if (next_sibling_ != nullptr) {
            next_sibling_->previous_sibling_ = this;
        }
        parent.first_child_ = this;
        parent.occupant_ = nullptr;
        parent.lock_.unlock();
    }

    /// Running branch: leaves this scope; the parent is the innermost one again. Everything that
    /// was opened inside has been closed, and whatever may stop this scope directly (its timer) has
    /// been disarmed or has finished.
    void close(Branch& branch) noexcept {
        // The own lock is not needed: a stop that is inside came through the parent, and holds the
        // parent's lock until it has left.
        parent_->lock_.lock();
        if (previous_sibling_ != nullptr) {
            previous_sibling_->next_sibling_ = next_sibling_;
        } else {
            parent_->first_child_ = next_sibling_;
        }
        if (next_sibling_ != nullptr) {
            next_sibling_->previous_sibling_ = previous_sibling_;
        }
        this->occupant_ = nullptr;
        parent_->occupant_ = &branch;
        branch.word.adopt_flags(parent_->flags_);
        parent_->lock_.unlock();
    }

    /// The scope that this one is open in.
    base* parent() const noexcept { return parent_; }

private:
    friend base;

    template <class T>
    using var = typename Layer::template var<T>;

    var<base*> parent_{nullptr};
    var<basic_nested_scope*> previous_sibling_{nullptr};
    var<basic_nested_scope*> next_sibling_{nullptr};
};

}  // namespace weft::detail
