// SPDX-License-Identifier: MIT
//
// What a condition variable decides: whom a notification wakes (Go's notifyList). Whoever waits for
// a condition that a mutex guards goes three steps, all of them in one operation:
//
//     line up     with the mutex locked, and still before it is unlocked
//     park        until it is notified, or stopped
//     lock        the mutex again, as everybody else does, whatever ended the wait
//
// Why no notification is lost. Whoever makes the condition true does so with the mutex locked, and
// notifies then or later. A waiter that has found it false lined up before it unlocked, so it is in
// line by then. Who is notified is taken off the line under the internal lock, and a canceller
// looks there under the same lock: one that is stopped has got no notification, and one that was
// notified before is not stopped (operation_word.hpp), so it uses it.
//
// Why the mutex is locked when a wait ends, also by a stop. The last step cannot be stopped: its
// canceller lets go at once, as if a completer were under way, since one is: some day the mutex is
// unlocked. So the stop waits for the mutex, and no longer.
//
// Rejected: moving those who are notified from this line to that of the mutex without waking them
// (two internal locks at once; the mutex is usually free before the first of them runs); sequence
// numbers instead of a line (a stop would have to find out whose number it was).
#pragma once

#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/sync/wait_list.hpp>

#include <mutex>

namespace weft::detail {

/// Waiter is derived from wait_links<Layer, Waiter>.
template <class Layer, class Waiter>
class condition_core {
public:
    void line_up(Waiter& self) noexcept {
        const std::lock_guard held(lock_);
        list_.push_back(self);
    }

    /// A canceller. False: it was notified, and whoever did that completes it.
    bool withdraw(Waiter& waiting) noexcept {
        const std::lock_guard held(lock_);
        return list_.remove(waiting);
    }

    /// The first one in line, which the caller completes. Null: nobody waits.
    Waiter* notify_one() noexcept {
        const std::lock_guard held(lock_);
        return list_.pop_front();
    }

    /// All of them, linked through `next`.
    Waiter* notify_all() noexcept {
        const std::lock_guard held(lock_);
        return list_.take_all();
    }

    /// The same when it is destroyed: they are marked.
    Waiter* end() noexcept {
        const std::lock_guard held(lock_);
        list_.orphan_all();
        return list_.take_all();
    }

private:
    spin_lock<Layer> lock_;
    wait_list<Layer, Waiter> list_;
};

}  // namespace weft::detail
