// SPDX-License-Identifier: MIT
#pragma once

// What models of children have in common: branches in scopes, what they wait for, and the stop that
// ends their waits. What a branch does when it goes on is the model's: `go_on(branch)`.

#include "explorer.hpp"

#include <weft/detail/branch/operation_word.hpp>
#include <weft/detail/branch/scope.hpp>

#include <atomic>

namespace weft::model {

struct branch;
using scope = weft::detail::basic_scope<model_layer, branch>;
using nested_scope = weft::detail::basic_nested_scope<model_layer, branch>;
using scope_member = weft::detail::basic_scope_member<model_layer, branch>;

/// What a branch waits for: it is given away once.
struct awaited_object {
    model_layer::atomic<branch*> registered{nullptr};

    bool take(branch* expected) {
        return registered.compare_exchange_strong(expected, nullptr, std::memory_order_acq_rel,
                                                  std::memory_order_relaxed);
    }
    /// For whoever completes; null: nobody is there.
    branch* take_any() { return registered.exchange(nullptr, std::memory_order_acquire); }
};

struct branch {
    weft::detail::operation_word<model_layer> word;
    model_layer::var<branch*> next{nullptr};
    /// Null: it waits for its children, which no stop takes off.
    model_layer::var<awaited_object*> waits_on{nullptr};
};

struct child_branch : branch {
    scope_member membership{*this};
};

/// A branch whose wait is to be cancelled, by whoever owns that. True: it goes on.
inline bool take_off(branch& cancelled) {
    awaited_object* const on = cancelled.waits_on;
    if (on == nullptr || !on->take(&cancelled)) return cancelled.word.let_go();
    cancelled.word.withdrawn();
    return true;
}

/// As park(): true, it goes on.
inline bool park(branch& self) {
    switch (self.word.suspend()) {
    case weft::detail::suspend_outcome::suspended: return false;
    case weft::detail::suspend_outcome::completed: return true;
    case weft::detail::suspend_outcome::stopped: break;
    }
    return take_off(self);
}

/// A branch waits. True: it goes on at once.
inline bool wait_on(branch& self, awaited_object& on) {
    self.waits_on = &on;
    if (self.word.stop_requested()) return true;
    on.registered.store(&self, std::memory_order_release);
    return park(self);
}

/// As cancel_parked().
template <class GoOn>
void cancel_parked(branch* parked, GoOn go_on) {
    while (parked != nullptr) {
        branch& cancelled = *parked;
        parked = cancelled.next;
        if (take_off(cancelled)) go_on(cancelled);
    }
}

}  // namespace weft::model
