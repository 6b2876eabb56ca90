// SPDX-License-Identifier: MIT
#include "lib/blocking/stop_messenger.hpp"

#include "lib/base/futex.hpp"
#include "lib/base/signal_mask.hpp"

#include <weft/detail/base/clock.hpp>

#include <sys/prctl.h>

#include <exception>
#include <utility>

namespace weft::detail {

bool stop_messenger::ensure() noexcept {
    if (exists()) { return true; }
    try {
        const std::lock_guard held(starting_);
        if (exists()) { return true; }
        const block_signals blocked;
        thread_ = std::thread([this] {
            ::prctl(PR_SET_NAME, "weft-stops");
            begin_thread_();
            run();
        });
        // seq_cst: before the mark of the order is read.
        exists_.store(true, std::memory_order_seq_cst);
        return true;
    } catch (const std::exception&) {
        return false;  // Out of threads or of memory.
    }
}

void stop_messenger::post(std::shared_ptr<stop_order> order) noexcept {
    stop_order* const posted = order.get();
    posted->self = std::move(order);
    {
        const std::lock_guard held(lock_);
        (last_ != nullptr ? last_->next : first_) = posted;
        last_ = posted;
    }
    // Release pairs with the acquire in run(). The order may be gone already.
    word_.fetch_add(1, std::memory_order_release);
    futex_wake(word_);
}

stop_order* stop_messenger::take() noexcept {
    const std::lock_guard held(lock_);
    stop_order* const taken = first_;
    if (taken != nullptr) {
        first_ = taken->next;
        if (first_ == nullptr) { last_ = nullptr; }
    }
    return taken;
}

void stop_messenger::run() noexcept {
    for (;;) {
        // Both before the look at the list, so that what comes later wakes this thread. Acquire
        // pairs with post() and end().
        const std::uint32_t seen = word_.load(std::memory_order_acquire);
        const bool ends = ended_.load(std::memory_order_acquire);
        if (stop_order* const taken = take()) {
            const std::shared_ptr<stop_order> order = std::move(taken->self);
            order->source.request_stop();
            delivered_();
        } else if (ends) {
            return;
        } else {
            futex_wait(word_, seen, no_deadline);
        }
    }
}

void stop_messenger::end() noexcept {
    if (!thread_.joinable()) { return; }
    // Release, both: pair with run().
    ended_.store(true, std::memory_order_release);
    word_.fetch_add(1, std::memory_order_release);
    futex_wake(word_);
    thread_.join();
}

}  // namespace weft::detail
