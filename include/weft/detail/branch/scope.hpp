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
// Where the flags are: those of a scope with an occupant are in the occupant's word, and nowhere
// else; those of a scope without one are in flags_. Opening moves the parent's flags from the word
// to the parent and leaves them in the word, so that a scope opened inside a stopped one is stopped
// from the start; closing gives the branch the flags of the parent back. Therefore a branch that
// parks needs to look at its own word only.
//
// Why a stop is never lost: the flags are set under the scope's lock. A scope that is opened after
// that inherits them under the same lock; one that was opened before is in the list of children.
//
// Why a stop never hits another task: a root scope is used again by the next task of the control
// block. A stop that is meant for one task names its life, and the word of the branch compares it
// (operation_word.hpp). While a nested scope is open the task lives and cannot end without the
// root's lock, so looking at the life under the lock is enough there.
//
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
        lock_.lock();
        return stop_locked(late, word::any_life);
    }

    /// The same for the root scope of `of`, while the task of that life lives; nothing afterwards.
    Branch* stop_life(const Branch& of, std::uint32_t life) noexcept {
        lock_.lock();
        if (of.word.life() != life) {
            lock_.unlock();
            return nullptr;
        }
        return stop_locked(false, life);
    }

    /// Any thread that keeps the scope alive: has it been stopped?
    bool stopped() noexcept {
        lock_.lock();
        std::uint32_t flags = flags_;
        if (occupant_ != nullptr) { flags = occupant_->word.flags(); }
        lock_.unlock();
        return (flags & word::stop_flag) != 0;
    }

private:
    using nested = basic_nested_scope<Layer, Branch>;
    using word = operation_word<Layer>;
    friend nested;

    /// stop(), with the lock held; gives it back.
    Branch* stop_locked(bool late, std::uint32_t life) noexcept {
        Branch* parked = nullptr;
        if (!mark(late, life, parked)) {
            lock_.unlock();
            return parked;
        }
        basic_scope* current = this;
        nested* child = first_child_;
        for (;;) {
            if (child != nullptr) {
                child->lock_.lock();
                if (child->mark(late, word::any_life, parked)) {
                    current = child;  // Descend; its lock stays held.
                    child = current->first_child_;
                } else {
                    // Nothing is inside it, or it was stopped before and so was all inside it.
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

    /// Under the lock: sets the flags, here or in the occupant's word. True: scopes inside this one
    /// are to be stopped as well.
    bool mark(bool late, std::uint32_t life, Branch*& parked) noexcept {
        if (occupant_ != nullptr) {
            if (occupant_->word.request_stop(late, life)) {
                occupant_->next = parked;
                parked = occupant_;
            }
            return false;
        }
        if ((flags_ & word::stop_flag) != 0) { return false; }
        flags_ = word::stop_flag | (late ? word::late_flag : 0U);
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
        parent.flags_ = branch.word.flags();
        this->occupant_ = &branch;
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
