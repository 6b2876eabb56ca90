// SPDX-License-Identifier: MIT
//
// What one task hands to another: the shortest way to park and to be made ready, built on the
// operations that all of weft's waits are built on, for measuring them.
//
// One word has three kinds of values:
//
//     nobody        neither posted nor awaited
//     posted        post() came first; the next wait() finishes at once
//     an address    the operation of the task that waits
//
//     waiter      nobody -> address (then it parks), posted -> nobody
//     poster      nobody -> posted, address -> nobody (then it completes the operation)
//     canceller   address -> nobody
//
// Whoever takes the address out owns the operation, hence there is one completer at most.
#pragma once

#include <weft/detail/task/awaiter.hpp>

#include <atomic>
#include <cstdint>

namespace benchmark {

class baton {
    class wait_operation;

public:
    /// Lets the task that waits, or else the next that will, go on. It becomes the next to run on
    /// the calling worker.
    void post() noexcept;

    /// Suspends until post(), unless that came before. For one task at a time.
    auto wait() noexcept;

private:
    static constexpr std::uintptr_t nobody = 0;
    static constexpr std::uintptr_t posted = 1;

    std::atomic<std::uintptr_t> word_{nobody};
};

class baton::wait_operation : public weft::detail::operation {
public:
    explicit wait_operation(baton& awaited) noexcept
        : operation(false, weft::detail::wait_reason::yield), baton_(&awaited) {}

    bool start(weft::detail::branch& waiter) noexcept final {
        // Acquire, here and below, pairs with the release of post(): what was written before it
        // is visible.
        if (baton_->word_.load(std::memory_order_acquire) == posted) {
            if (!finish_inline(waiter, *this)) return false;
            baton_->word_.store(nobody, std::memory_order_relaxed);
            return true;
        }
        if (!prepare_park(waiter, *this)) return true;
        std::uintptr_t expected = nobody;
        // Release pairs with the acquire of post(), which reads the operation.
        if (!baton_->word_.compare_exchange_strong(expected, address(), std::memory_order_acq_rel,
                                                   std::memory_order_acquire)) {
            baton_->word_.store(nobody, std::memory_order_relaxed);
            return true;  // Posted between the two looks.
        }
        return park(waiter, *this);
    }

    bool unlink() noexcept final {
        std::uintptr_t expected = address();
        return baton_->word_.compare_exchange_strong(expected, nobody, std::memory_order_acq_rel,
                                                     std::memory_order_relaxed);
    }

    // Posted by tasks only.
    bool completed_by_tasks() const noexcept final { return true; }

    void finish() noexcept {
        weft::detail::branch* waiting = waiter();
        if (waiting->word.complete()) weft::detail::make_ready(waiting);
    }

protected:
    ~wait_operation() = default;

private:
    std::uintptr_t address() const noexcept { return reinterpret_cast<std::uintptr_t>(this); }

    baton* baton_;
};

inline void baton::post() noexcept {
    std::uintptr_t value = word_.load(std::memory_order_relaxed);
    while (value != posted) {
        const std::uintptr_t next = value == nobody ? posted : nobody;
        if (!word_.compare_exchange_weak(value, next, std::memory_order_acq_rel,
                                         std::memory_order_relaxed))
            continue;
        if (value != nobody) reinterpret_cast<wait_operation*>(value)->finish();
        return;
    }
}

inline auto baton::wait() noexcept {
    class [[nodiscard]] wait_awaiter final : public weft::detail::awaiter<wait_operation> {
    public:
        using awaiter<wait_operation>::awaiter;
        void await_resume() const { throw_unless_completed(); }
    };
    return wait_awaiter(*this);
}

}  // namespace benchmark
