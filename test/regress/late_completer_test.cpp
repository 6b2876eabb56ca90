// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <weft/detail/task/awaiter.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/yield.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

// A thread outside, or a worker of another runtime, had taken an operation off its object and was
// about to complete it when the runtime of the waiting task ended. The task was asked to stop, its
// canceller let go, and the end, which waited only for completers whom no canceller had met,
// destroyed the frame. The completer then touched a branch that was gone.

using namespace std::chrono_literals;

namespace {

struct late_wait {
    std::atomic<weft::detail::branch*> waiter{nullptr};
    std::atomic<bool> destroyed{false};  ///< The awaiter is being destroyed.
    std::atomic<bool> gone{false};       ///< Its frame goes on to be destroyed.
};

/// An operation that a completer has taken since it began.
class taken_operation : public weft::detail::operation {
public:
    explicit taken_operation(late_wait& shared) noexcept
        : operation(false, weft::detail::wait_reason::none), shared_(&shared) {}
    bool start(weft::detail::branch& waiter) noexcept final {
        if (!prepare_park(waiter, *this)) return true;
        shared_->waiter = &waiter;
        return park(waiter, *this);
    }
    bool unlink() noexcept final { return false; }

protected:
    ~taken_operation() = default;
    late_wait* shared_;
};

class taken_awaiter final : public weft::detail::awaiter<taken_operation> {
public:
    using awaiter<taken_operation>::awaiter;
    ~taken_awaiter() { shared_->destroyed = true; }
    void await_resume() const { throw_unless_completed(); }
};

struct says_gone {
    late_wait& shared;
    ~says_gone() { shared.gone = true; }
};

weft::task<> wait_for_completer(late_wait& shared) {
    const says_gone at_end{shared};
    co_await taken_awaiter(shared);
}

weft::task<> leave_waiting(late_wait& shared) {
    weft::co_spawn(wait_for_completer, std::ref(shared)).detach();
    while (shared.waiter == nullptr) co_await weft::yield();
}

}  // namespace

TEST_CASE("the end of a runtime waits for a completer that a canceller has met", "[regress]") {
    late_wait shared;
    bool went_early = false;
    std::thread completer([&] {
        while (!shared.destroyed) std::this_thread::sleep_for(1ms);
        // An end that does not wait is over by then. One that waits is not, however long this
        // takes.
        std::this_thread::sleep_for(50ms);
        went_early = shared.gone;
        if (went_early) return;
        weft::detail::branch_list readied;
        weft::detail::complete_waiter(*shared.waiter, readied);
        weft::detail::make_ready(readied);
    });
    weft::run(leave_waiting(shared), {.processors = 1, .shutdown_grace = 0s});
    completer.join();
    CHECK_FALSE(went_early);
    CHECK(shared.gone);
}
