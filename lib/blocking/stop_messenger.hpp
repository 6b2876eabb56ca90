// SPDX-License-Identifier: MIT
//
// The messenger of the blocking pool: the thread that requests the stop of calls that listen to a
// token.
//
// request_stop() of a std::stop_source runs the callbacks on its tokens, which are the user's code
// and may take any time. Whoever stops a scope must not wait for them: it may be a worker or the
// watchdog, with other timers in its hand that their scopes wait for; a thread outside, inside the
// gate of the runtime; or the end of the runtime, which holds the list of all tasks. So a canceller
// only marks the order as wanted and posts it.
//
// The thread is made before the first call that takes a token begins, and such a call is refused
// if it cannot be made: a stop that was posted is always requested, also when all machines are busy
// with the very calls that are to be stopped, and when the system refuses further threads. It is no
// machine and does not count as one. It ends with the pool.
//
// No stop is lost. The machine makes sure of the thread, and then reads the mark; the canceller
// sets the mark, and then asks whether there is a thread: sequentially consistent on both sides. So
// either the machine sees that the call is stopped before it begins, when there are no callbacks
// yet, or the canceller finds the thread and posts. Who finds none drops the order.
//
// Orders are taken in the order in which they were posted, one after the other: a callback that
// takes long delays other stops, and nothing else.
//
// Rejected: a job for the machines (they may all be busy with the calls that are to be stopped); a
// thread for each stop (it may be refused when it is too late to refuse the call); the watchdog
// (callbacks would keep it from what only it does).
#pragma once

#include <weft/detail/base/layer.hpp>
#include <weft/detail/base/spin_lock.hpp>
#include <weft/detail/blocking/stop_order.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace weft::detail {

class stop_messenger {
public:
    /// `begin_thread` is called first on its thread, `delivered` after each order.
    stop_messenger(std::function<void()> begin_thread, std::function<void()> delivered) noexcept
        : begin_thread_(std::move(begin_thread)), delivered_(std::move(delivered)) {}
    ~stop_messenger() { end(); }
    stop_messenger(const stop_messenger&) = delete;
    stop_messenger& operator=(const stop_messenger&) = delete;

    /// A machine, before it makes a call that listens: is there a thread? False: the system refuses
    /// it.
    bool ensure() noexcept;

    /// seq_cst: see the head of this file. Constant once it is true.
    bool exists() const noexcept { return exists_.load(std::memory_order_seq_cst); }

    /// Any thread, where it exists: the stop is requested soon. Allocates nothing.
    void post(std::shared_ptr<stop_order> order) noexcept;

    /// Delivers what was posted and ends the thread. Nobody posts any more.
    void end() noexcept;

private:
    void run() noexcept;
    stop_order* take() noexcept;

    const std::function<void()> begin_thread_;
    const std::function<void()> delivered_;
    std::mutex starting_;
    std::thread thread_;
    std::atomic<bool> exists_{false};
    std::atomic<bool> ended_{false};
    /// What the thread sleeps on: it changes with each order, and at the end.
    std::atomic<std::uint32_t> word_{0};
    spin_lock<layer> lock_;  ///< Of the two below, a list of orders.
    stop_order* first_ = nullptr;
    stop_order* last_ = nullptr;
};

}  // namespace weft::detail
