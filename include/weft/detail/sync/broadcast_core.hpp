// SPDX-License-Identifier: MIT
//
// What a broadcast decides: where the next value goes, what a receiver gets next, and who waits.
//
// Values are numbered from 0. The last `capacity` of them are kept, number n in slot n % capacity,
// so a new one takes the place of the oldest one, whoever has received that or not. A receiver is
// no more than the number of the value that it wants next:
//
//     publish    the value goes into its slot; everybody who waits is taken off the list
//     take       it wants a value that is kept     that one, and the next one from then on
//                one that is kept no more          the oldest that is, and it is told how many it
//                                                  has lost
//                one that is not there yet         the end, if closed; else it lines up
//     close      everybody who waits is taken off the list
//
// All under one lock, which is held while a slot is read or written: for the copy or the exchange
// of a pointer, since the user's code must not run under it. Whoever was woken takes its value when
// it runs, so a task that is woken and never runs has taken nothing, and one that runs late gets
// what is kept by then.
//
// With room for one value this is the latest one, and those who wait for a change of it (watch).
//
// Rejected: a count of receivers in each slot, so that a value is freed when all have received it
// (Tokio: each receiver must then be known when it ends, in whatever order the frames of a runtime
// are destroyed); a lock for each slot (it saves nothing where a slot is a pointer).
#pragma once

#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/sync/wait_list.hpp>

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace weft::detail {

enum class take_step : std::uint8_t { got, ended, waits };

struct take_decision {
    take_step step;
    std::uint64_t lost = 0;  ///< So many values before the one that it got.
};

template <class Waiter>
struct publish_decision {
    bool open;                ///< False: nothing was stored.
    Waiter* woken = nullptr;  ///< The caller completes all of them, linked through `next`.
};

/// Waiter is derived from wait_links<Layer, Waiter>.
template <class Layer, class Waiter>
class broadcast_core {
public:
    explicit broadcast_core(std::size_t capacity) noexcept : capacity_(capacity) {}

    /// `store(slot)` is called under the lock.
    template <class Store>
    publish_decision<Waiter> publish(Store&& store) noexcept {
        const std::lock_guard held(lock_);
        if (closed_) return {false};
        store(slot_of(count_));
        count_ = count_ + 1;
        return {true, waiters_.take_all()};
    }

    /// For the receiver that wants number `next` next; `load(slot)` is called under the lock. If
    /// there is nothing yet, `self` waits; null: it does not.
    template <class Load>
    take_decision take(std::uint64_t& next, Load&& load, Waiter* self) noexcept {
        const std::lock_guard held(lock_);
        if (next == count_) {
            if (closed_) return {take_step::ended};
            if (self != nullptr) waiters_.push_back(*self);
            return {take_step::waits};
        }
        const std::uint64_t oldest = count_ > capacity_ ? count_ - capacity_ : 0;
        const std::uint64_t lost = next < oldest ? oldest - next : 0;
        const std::uint64_t taken = next + lost;
        load(slot_of(taken));
        next = taken + 1;
        return {take_step::got, lost};
    }

    /// The newest value, if there is one: `load(slot)` is called under the lock. Returns the number
    /// of the value after it.
    template <class Load>
    std::uint64_t newest(Load&& load) const noexcept {
        const std::lock_guard held(lock_);
        if (count_ != 0) load(slot_of(count_ - 1));
        return count_;
    }

    /// False: it was closed before. The caller completes all of `gone`, linked through `next`.
    bool close(Waiter*& gone) noexcept {
        const std::lock_guard held(lock_);
        if (closed_) return false;
        closed_ = true;
        gone = waiters_.take_all();
        return true;
    }

    /// The object is destroyed. The caller completes all of them, linked through `next`.
    Waiter* end() noexcept {
        const std::lock_guard held(lock_);
        waiters_.orphan_all();
        return waiters_.take_all();
    }

    /// A canceller. False: somebody has taken it off, and will complete it.
    bool withdraw(Waiter& waiting) noexcept {
        const std::lock_guard held(lock_);
        return waiters_.remove(waiting);
    }

    bool closed() const noexcept {
        const std::lock_guard held(lock_);
        return closed_;
    }

    std::size_t capacity() const noexcept { return capacity_; }

private:
    std::size_t slot_of(std::uint64_t number) const noexcept {
        return static_cast<std::size_t>(number % capacity_);
    }

    template <class T>
    using var = typename Layer::template var<T>;

    mutable spin_lock<Layer> lock_;
    var<bool> closed_{false};
    const std::size_t capacity_;
    var<std::uint64_t> count_{0};  ///< How many values there have been.
    wait_list<Layer, Waiter> waiters_;
};

}  // namespace weft::detail
