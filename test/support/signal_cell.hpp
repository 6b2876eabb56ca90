// SPDX-License-Identifier: MIT
//
// The smallest thing that parks a branch and makes it ready, for tests of the scheduler: one task
// waits, any thread signals. A signal that comes first is kept.
//
//     word          meaning                        leaves by
//     empty         no signal, nobody waits        wait: an operation; signal: signalled
//     signalled     the next wait finishes         wait: empty
//     an operation  its branch is parked or about  signal, or unlink by a canceller: empty
//                   to be
#pragma once

#include <weft/detail/base/assert.hpp>
#include <weft/detail/task/awaiter.hpp>

#include <atomic>
#include <cstdint>

namespace weft::test {

class signal_cell {
public:
    /// Any thread. Wakes the task that waits, or keeps the signal. True: it took an operation off
    /// the cell, so it was the completer of exactly one wait.
    bool signal() noexcept;
    /// The same, but the task that waits is appended to `readied` for the caller to ready.
    bool signal_into(detail::branch_list& readied) noexcept;

    /// Parks until signal(); throws when the scope is stopped. One task at a time.
    auto wait() noexcept;

private:
    friend class cell_operation;
    static constexpr std::uintptr_t empty = 0;
    static constexpr std::uintptr_t signalled = 1;

    std::atomic<std::uintptr_t> word_{empty};
};

class cell_operation : public detail::operation {
public:
    explicit cell_operation(signal_cell& cell) noexcept
        : operation(false, detail::wait_reason::none), cell_(&cell) {}

    bool start(detail::branch& waiter) noexcept final {
        // Acquire pairs with the signal that was kept; only the waiting side takes it away.
        if (cell_->word_.load(std::memory_order_acquire) == signal_cell::signalled) {
            if (!finish_inline(waiter, *this)) return false;  // start() is called again.
            cell_->word_.store(signal_cell::empty, std::memory_order_relaxed);
            return true;
        }
        if (!prepare_park(waiter, *this)) return true;
        std::uintptr_t expected = signal_cell::empty;
        // Release publishes the operation to signal(); acquire as above.
        if (!cell_->word_.compare_exchange_strong(expected, address(), std::memory_order_acq_rel,
                                                  std::memory_order_acquire)) {
            // Signalled between the two looks; another waiter would be forgotten here.
            if (expected != signal_cell::signalled) {
                detail::fatal("two tasks wait for one signal_cell");
            }
            cell_->word_.store(signal_cell::empty, std::memory_order_relaxed);
            return true;
        }
        return park(waiter, *this);
    }

    bool unlink() noexcept final {
        std::uintptr_t expected = address();
        return cell_->word_.compare_exchange_strong(
            expected, signal_cell::empty, std::memory_order_acq_rel, std::memory_order_relaxed);
    }

    /// The signaller, which has taken the operation off the cell.
    void finish(detail::branch_list& readied) noexcept {
        detail::branch* waiting = waiter();
        if (waiting->word.complete()) readied.push_back(waiting);
    }

protected:
    ~cell_operation() = default;

private:
    std::uintptr_t address() const noexcept { return reinterpret_cast<std::uintptr_t>(this); }

    signal_cell* cell_;
};

inline bool signal_cell::signal() noexcept {
    detail::branch_list readied;
    const bool taken = signal_into(readied);
    make_ready(readied);
    return taken;
}

inline bool signal_cell::signal_into(detail::branch_list& readied) noexcept {
    std::uintptr_t value = word_.load(std::memory_order_relaxed);
    while (value != signalled) {
        const std::uintptr_t next = value == empty ? signalled : empty;
        if (!word_.compare_exchange_weak(value, next, std::memory_order_acq_rel,
                                         std::memory_order_relaxed)) {
            continue;
        }
        if (value == empty) return false;
        reinterpret_cast<cell_operation*>(value)->finish(readied);
        return true;
    }
    return false;
}

inline auto signal_cell::wait() noexcept {
    class [[nodiscard]] cell_awaiter final : public detail::awaiter<cell_operation> {
    public:
        using detail::awaiter<cell_operation>::awaiter;
        void await_resume() const { throw_unless_completed(); }
    };
    return cell_awaiter(*this);
}

}  // namespace weft::test
