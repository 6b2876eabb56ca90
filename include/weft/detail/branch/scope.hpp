// SPDX-License-Identifier: MIT
//
// Cancel scopes: a tree of regions that can be stopped as a whole.
//
// A task's root scope lies in its control block; with_timeout and its kind open a scope inside the
// branch's innermost one and close it again. Stopping a scope stops everything inside it: the
// branches whose innermost scope it is, and every scope that was opened inside. One of these
// branches is the one that opened the scope (its occupant); the others are children that run beside
// it, or beside another child (its members). Each branch is in one scope, which is its innermost
// one: while it has opened a scope in that, it is the occupant there and not in the outer one.
//
// Who may touch what:
//   * flags_, occupant_, first_member_ and first_child_ of a scope, and the links of its members
//     and of the scopes inside it, belong to the scope's lock. So do the flag bits in the words of
//     its occupant and its members.
//   * Locks are taken from parent to child only. A stop holds the locks on the path from the scope
//     that it stops to the scope that it visits, so no scope on that path can leave its parent.
//   * A scope is closed by the branch that opened it, under the lock of its parent.
//   * A child enters the innermost scope of the branch that forks it, before it is queued, and
//     leaves it as its last act but one: it counts down what waits for it afterwards. So a scope
//     outlives its members, and the memory of a child, which lies in a frame, outlives its
//     membership; a stop touches no branch that has left.
//
// Where the flags are: those of a scope with an occupant are in the occupant's word; those of a
// scope without one are in flags_. Each member's word has them as well. Opening moves the parent's
// flags from the occupant's word to the parent and leaves them in the word, so that a scope opened
// inside a stopped one is stopped from the start; closing gives the branch the flags of the parent
// back. Therefore a branch that parks needs to look at its own word only.
//
// Why a stop is never lost: the flags are set under the scope's lock. A scope that is opened, or a
// child that enters, after that inherits them under the same lock; one that came before is in a
// list.
//
// A shielded scope is in the tree, so that all branches of a task can be found, but a stop that
// comes from outside of it goes by. Opening it clears the flags in the word of its occupant, and
// closing it gives back those of the parent, as ever: so the stop is seen behind the shield.
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
// The tree is walked without recursion, so its depth is bounded by memory alone. The order of the
// members of a scope, and of the scopes inside it, means nothing.
//
// A walk holds the locks of its path to its end. So whoever enters, leaves, opens or closes
// something there waits while a stop marks all that is inside, once in the life of a scope: for one
// exchange for each branch. Whoever walks again and again ends where it has found one.
#pragma once

#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/branch/operation_word.hpp>

#include <atomic>
#include <cstdint>

namespace weft::detail {

template <class Layer, class Branch>
class basic_scope;
template <class Layer, class Branch>
class basic_nested_scope;

/// What a branch needs that is in a scope beside its occupant: a child.
template <class Layer, class Branch>
class basic_scope_member {
public:
    explicit basic_scope_member(Branch& of) noexcept : branch_(&of) {}
    basic_scope_member(const basic_scope_member&) = delete;
    basic_scope_member& operator=(const basic_scope_member&) = delete;

private:
    friend basic_scope<Layer, Branch>;
    friend basic_nested_scope<Layer, Branch>;

    template <class T>
    using var = typename Layer::template var<T>;

    Branch* branch_;
    var<basic_scope_member*> previous_{nullptr};
    var<basic_scope_member*> next_{nullptr};
};

/// Whether a stop from outside of a scope reaches what is inside; `binding` is an open one that
/// lies in a local_scope, which binds values for what is inside.
enum class scope_kind : std::uint8_t { open, shielded, binding };

/// Where a walk over the tree goes from a scope: into it, past it, or nowhere any more.
enum class walk_step : std::uint8_t { inside, past, end };

/// A cancel scope over the branches of type Branch (which has `word` and `next`). By itself it is
/// the root scope of a task: it has no parent and is never closed, so that a control block pays for
/// nothing else.
template <class Layer, class Branch>
class basic_scope {
public:
    using member = basic_scope_member<Layer, Branch>;

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
        const std::uint32_t flags = present_flags();
        lock_.unlock();
        return (flags & word::stop_flag) != 0;
    }

    /// Running branch whose innermost scope this is, or who knows that it stays: a child that has
    /// not been queued begins to live here, and is stopped from the start if the scope is.
    void enter(member& child) noexcept {
        lock_.lock();
        child.branch_->word.adopt_flags(present_flags());
        add(child);
        lock_.unlock();
    }

    /// A child, whose innermost scope this is: it ends. No stop touches it after that.
    void leave(member& child) noexcept {
        lock_.lock();
        remove(child);
        lock_.unlock();
    }

    /// Calls `visit` for each branch in this scope and inside, under the locks; it must not touch
    /// the tree. A child may come before or after the branch that has forked it.
    template <class Visit>
    void for_each_branch(Visit&& visit) noexcept {
        lock_.lock();
        walk_locked([&visit](basic_scope& each) {
            if (each.occupant_ != nullptr) { visit(*each.occupant_); }
            for (member* at = each.first_member_; at != nullptr; at = at->next_) {
                visit(*at->branch_);
            }
            return walk_step::inside;
        });
    }

    /// The same until `matches` says so of one; true then. That one comes before its siblings the
    /// next time: whoever asks again and again for one out of many, as the survey of sleeping tasks
    /// does, finds the same one at once.
    template <class Matches>
    bool any_branch(Matches&& matches) noexcept {
        bool found = false;
        lock_.lock();
        walk_locked([&found, &matches](basic_scope& each) {
            found = each.any_here(matches);
            return found ? walk_step::end : walk_step::inside;
        });
        return found;
    }

private:
    using nested = basic_nested_scope<Layer, Branch>;
    using word = operation_word<Layer>;
    friend nested;

    /// stop(), with the lock held; gives it back.
    Branch* stop_locked(bool late, std::uint32_t life) noexcept {
        Branch* parked = nullptr;
        walk_locked([&](basic_scope& each) {
            const std::uint32_t meant = &each == this ? life : word::any_life;
            const bool stops = &each == this || !each.shielded_;
            return stops && each.mark(late, meant, parked) ? walk_step::inside : walk_step::past;
        });
        return parked;
    }

    /// Calls `enter` for this scope, whose lock is held and is given back, and for the scopes
    /// inside those for which it says so, each with the locks of the path held.
    template <class Enter>
    void walk_locked(Enter&& enter) noexcept {
        if (enter(*this) != walk_step::inside) {
            lock_.unlock();
            return;
        }
        basic_scope* current = this;
        nested* child = first_child_;
        for (;;) {
            if (child != nullptr) {
                child->lock_.lock();
                const walk_step step = enter(*child);
                if (step == walk_step::inside) {
                    current = child;  // Descend; its lock stays held.
                    child = current->first_child_;
                } else if (step == walk_step::past) {
                    nested* next = child->next_sibling_;
                    child->lock_.unlock();
                    child = next;
                } else {
                    return end_walk(child);
                }
            } else if (current != this) {
                // The lock of the parent is held, so the links of `current` stay.
                nested* finished = static_cast<nested*>(current);
                child = finished->next_sibling_;
                current = finished->parent_;
                finished->lock_.unlock();
            } else {
                lock_.unlock();
                return;
            }
        }
    }

    /// A walk has found in `at` what it looks for: gives the locks of the path back. The next walk
    /// takes this path first.
    void end_walk(basic_scope* at) noexcept {
        while (at != this) {
            nested* const left = static_cast<nested*>(at);
            at = left->parent_;
            at->unlink(*left);
            at->link(*left);
            left->lock_.unlock();
        }
        lock_.unlock();
    }

    /// Under the lock: see any_branch().
    template <class Matches>
    bool any_here(Matches& matches) noexcept {
        if (occupant_ != nullptr && matches(*occupant_)) { return true; }
        for (member* at = first_member_; at != nullptr; at = at->next_) {
            if (!matches(*at->branch_)) { continue; }
            remove(*at);
            add(*at);
            return true;
        }
        return false;
    }

    /// Under the lock: sets the flags, here or in the occupant's word, and in those of the members.
    /// True: scopes inside this one are to be stopped as well. It was stopped before: so was all
    /// that is inside.
    bool mark(bool late, std::uint32_t life, Branch*& parked) noexcept {
        if ((present_flags() & word::stop_flag) != 0) { return false; }
        if (occupant_ != nullptr) {
            mark_branch(*occupant_, late, life, parked);
        } else {
            flags_ = word::stop_flag | (late ? word::late_flag : 0U);
        }
        // Where the task of that life is gone there are none, and nobody can enter.
        for (member* each = first_member_; each != nullptr; each = each->next_) {
            mark_branch(*each->branch_, late, word::any_life, parked);
        }
        return first_child_ != nullptr;
    }

    static void mark_branch(Branch& marked, bool late, std::uint32_t life,
                            Branch*& parked) noexcept {
        if (marked.word.request_stop(late, life)) {
            marked.next = parked;
            parked = &marked;
        }
    }

    /// Under the lock: see "Where the flags are".
    std::uint32_t present_flags() noexcept {
        if (occupant_ != nullptr) { return occupant_->word.flags(); }
        return flags_;
    }

    void add(member& child) noexcept {
        child.previous_ = nullptr;
        child.next_ = first_member_;
        if (child.next_ != nullptr) { child.next_->previous_ = &child; }
        first_member_ = &child;
    }

    void remove(member& child) noexcept {
        if (child.previous_ != nullptr) {
            child.previous_->next_ = child.next_;
        } else {
            first_member_ = child.next_;
        }
        if (child.next_ != nullptr) { child.next_->previous_ = child.previous_; }
    }

    /// A scope inside this one, in front of the others.
    void link(nested& inside) noexcept {
        inside.previous_sibling_ = nullptr;
        inside.next_sibling_ = first_child_;
        if (first_child_ != nullptr) { first_child_->previous_sibling_ = &inside; }
        first_child_ = &inside;
    }

    void unlink(nested& inside) noexcept {
        if (inside.previous_sibling_ != nullptr) {
            inside.previous_sibling_->next_sibling_ = inside.next_sibling_;
        } else {
            first_child_ = inside.next_sibling_;
        }
        if (inside.next_sibling_ != nullptr) {
            inside.next_sibling_->previous_sibling_ = inside.previous_sibling_;
        }
    }

    template <class T>
    using var = typename Layer::template var<T>;

    var<nested*> first_child_{nullptr};
    var<member*> first_member_{nullptr};
    var<Branch*> occupant_{nullptr};
    var<std::uint32_t> flags_{0};
    spin_lock<Layer> lock_;
    var<bool> shielded_{false};
    var<bool> binding_{false};
};

/// A scope that a branch opens inside its innermost one, and closes.
template <class Layer, class Branch>
class basic_nested_scope : public basic_scope<Layer, Branch> {
    using base = basic_scope<Layer, Branch>;
    using member = typename base::member;

public:
    /// To be opened by open().
    basic_nested_scope() noexcept : base(nullptr) {}

    /// Running branch: makes this scope the innermost one, inside `parent`, which was it before.
    /// A child gives its membership, which it gets back in close(); it is used where it is a member
    /// of the parent, and not where it has opened that.
    void open(base& parent, Branch& branch, member* membership = nullptr,
              scope_kind kind = scope_kind::open) noexcept {
        parent.lock_.lock();
        parent_ = &parent;
        membership_ = parent.occupant_ == &branch ? nullptr : membership;
        if (membership_ != nullptr) {
            parent.remove(*membership_);
        } else {
            parent.flags_ = branch.word.flags();
            parent.occupant_ = nullptr;
        }
        this->occupant_ = &branch;
        if (kind == scope_kind::shielded) {
            this->shielded_ = true;
            branch.word.adopt_flags(0);
        }
        this->binding_ = kind == scope_kind::binding;
        parent.link(*this);
        parent.lock_.unlock();
    }

    /// Running branch: leaves this scope; the parent is the innermost one again. Everything that
    /// was opened inside has been closed, all members have left, and whatever may stop this scope
    /// directly (its timer) has been disarmed or has finished.
    ///
    /// At the end of a runtime frames are destroyed while their branch waits, behind a shield even
    /// without having been stopped. Then `runs` is false, and the word is left to whoever completes
    /// what is waited for, perhaps at this moment.
    void close(Branch& branch, bool runs = true) noexcept {
        // The own lock is not needed: a stop that is inside came through the parent, and holds the
        // parent's lock until it has left.
        parent_->lock_.lock();
        parent_->unlink(*this);
        this->occupant_ = nullptr;
        if (runs) { branch.word.adopt_flags(parent_->present_flags()); }
        if (membership_ != nullptr) {
            parent_->add(*membership_);
        } else {
            parent_->occupant_ = &branch;
        }
        parent_->lock_.unlock();
    }

    /// The scope that this one is open in.
    base* parent() const noexcept { return parent_; }
    /// A branch that is inside, so that it stays open: was it opened as one that binds values?
    bool binds() const noexcept { return this->binding_; }

private:
    friend base;

    template <class T>
    using var = typename Layer::template var<T>;

    var<base*> parent_{nullptr};
    var<member*> membership_{nullptr};  ///< Of who opened this scope, in the parent.
    var<basic_nested_scope*> previous_sibling_{nullptr};
    var<basic_nested_scope*> next_sibling_{nullptr};
};

}  // namespace weft::detail
