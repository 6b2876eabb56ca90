// SPDX-License-Identifier: MIT
//
// Trap G7: whether a symmetric transfer is a tail call, so that a million of them do not overflow
// the stack, and whether a return to the loop every 128th time bounds the stack where it is not.
#include "probe.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

using namespace weft::probe;

namespace {

/// The extent of the stack below the loop, in bytes.
class stack_meter {
public:
    void start() noexcept {
        highest_ = 0;
        lowest_ = UINTPTR_MAX;
    }

    // The frame address, not that of a local: AddressSanitizer may move locals off the stack.
    [[gnu::noinline]] void note() noexcept {
        const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
        highest_ = std::max(highest_, here);
        lowest_ = std::min(lowest_, here);
    }

    std::size_t bytes() const noexcept { return highest_ - lowest_; }

private:
    std::uintptr_t highest_ = 0;
    std::uintptr_t lowest_ = UINTPTR_MAX;
};

stack_meter meter;

/// A worker's loop: resumes what a transfer left to it.
struct run_loop {
    static constexpr unsigned transfers_in_a_row = 128;

    void run(std::coroutine_handle<> first) {
        next = first;
        while (next) std::exchange(next, nullptr).resume();
    }

    std::coroutine_handle<> next;
    unsigned budget = transfers_in_a_row;
};

run_loop loop;

struct direct_transfer {
    static std::coroutine_handle<> to(std::coroutine_handle<> target) noexcept {
        meter.note();
        return target;
    }
};

struct budgeted_transfer {
    static std::coroutine_handle<> to(std::coroutine_handle<> target) noexcept {
        meter.note();
        if (--loop.budget != 0) return target;
        loop.budget = run_loop::transfers_in_a_row;
        loop.next = target;
        return std::noop_coroutine();
    }
};

/// A lazy coroutine without a result, whose transfers go through `Transfer`.
template <class Transfer>
class step {
public:
    struct promise_type {
        step get_return_object() noexcept {
            return step(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        auto final_suspend() const noexcept {
            struct to_awaiter {
                bool await_ready() const noexcept { return false; }
                std::coroutine_handle<> await_suspend(
                    std::coroutine_handle<promise_type> ended) const noexcept {
                    const auto awaiter = ended.promise().awaiter;
                    return awaiter ? Transfer::to(awaiter) : std::noop_coroutine();
                }
                void await_resume() const noexcept {}
            };
            return to_awaiter();
        }
        void return_void() const noexcept {}
        void unhandled_exception() const noexcept { std::terminate(); }

        std::coroutine_handle<> awaiter;
    };

    explicit step(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
    step(step&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    step& operator=(step&&) = delete;
    ~step() {
        if (handle_) handle_.destroy();
    }

    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) noexcept {
        handle_.promise().awaiter = awaiter;
        return Transfer::to(handle_);
    }
    void await_resume() const noexcept {}

    std::coroutine_handle<> handle() const noexcept { return handle_; }

private:
    std::coroutine_handle<promise_type> handle_;
};

std::size_t steps_run = 0;

template <class Transfer>
step<Transfer> one_step() {
    ++steps_run;
    co_return;
}

/// Shape 1: a loop that awaits a child which completes at once.
template <class Transfer>
step<Transfer> await_in_loop(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) co_await one_step<Transfer>();
}

/// Shape 2: two coroutines that resume each other.
template <class Transfer>
struct switch_to {
    std::coroutine_handle<>& mine;
    std::coroutine_handle<>& other;

    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> self) const noexcept {
        mine = self;
        return Transfer::to(other);
    }
    void await_resume() const noexcept {}
};

template <class Transfer>
step<Transfer> ping_pong(std::size_t count, std::coroutine_handle<>& mine,
                         std::coroutine_handle<>& other) {
    for (std::size_t i = 0; i < count; ++i) {
        ++steps_run;
        co_await switch_to<Transfer>{mine, other};
    }
}

/// Shape 3: a chain of awaits that is built to its end and then completes back to its start.
template <class Transfer>
step<Transfer> chain(std::size_t depth) {
    ++steps_run;
    if (depth > 1) co_await chain<Transfer>(depth - 1);
}

template <class Transfer>
std::size_t stack_of_loop(std::size_t count) {
    meter.start();
    auto made = await_in_loop<Transfer>(count);
    loop.run(made.handle());
    return meter.bytes();
}

template <class Transfer>
std::size_t stack_of_ping_pong(std::size_t count) {
    meter.start();
    std::coroutine_handle<> first_handle;
    std::coroutine_handle<> second_handle;
    auto first = ping_pong<Transfer>(count / 2, first_handle, second_handle);
    auto second = ping_pong<Transfer>(count / 2, second_handle, first_handle);
    second_handle = second.handle();
    loop.run(first.handle());
    return meter.bytes();
}

template <class Transfer>
std::size_t stack_of_chain(std::size_t count) {
    meter.start();
    auto made = chain<Transfer>(count);
    loop.run(made.handle());
    return meter.bytes();
}

using shape = std::size_t (*)(std::size_t);

/// Stack bytes for each step of a shape: what 900 more steps add.
std::size_t growth_of(shape measured) {
    const std::size_t few = measured(100);
    const std::size_t many = measured(1000);
    return many > few ? (many - few) / 900 : 0;
}

constexpr std::size_t a_million = 1'000'000;

void check_bounded(shape measured, std::size_t limit) {
    steps_run = 0;
    const std::size_t bytes = measured(a_million);
    CHECK(steps_run == a_million);
    CHECK(bytes <= limit);
}

}  // namespace

TEST_CASE("G7: a return to the loop every 128th transfer bounds the stack", "[G7]") {
    INFO("If this fails, a long loop of awaits or a deep chain overflows the stack in weft.");
    // 128 frames of the most spendthrift build (GCC with AddressSanitizer) take about 80 KiB.
    constexpr std::size_t limit = 160 * 1024;
    CHECK(growth_of(stack_of_loop<budgeted_transfer>) < 64);
    check_bounded(stack_of_loop<budgeted_transfer>, limit);
    check_bounded(stack_of_ping_pong<budgeted_transfer>, limit);
    check_bounded(stack_of_chain<budgeted_transfer>, limit);
}

TEST_CASE("G7: a symmetric transfer is a tail call", "[G7]") {
    INFO(
        "If this fails with clang, weft's transfers without a return to the loop (which clang "
        "builds rely on) overflow the stack.");
    const std::size_t in_loop = growth_of(stack_of_loop<direct_transfer>);
    const std::size_t in_ping_pong = growth_of(stack_of_ping_pong<direct_transfer>);
    const std::size_t in_chain = growth_of(stack_of_chain<direct_transfer>);
#if defined(__clang__)
    REQUIRE(in_loop == 0);
    REQUIRE(in_ping_pong == 0);
    REQUIRE(in_chain == 0);
    check_bounded(stack_of_loop<direct_transfer>, 4096);
    check_bounded(stack_of_ping_pong<direct_transfer>, 4096);
    check_bounded(stack_of_chain<direct_transfer>, 4096);
#else
    std::string fault;
    if (in_loop + in_ping_pong + in_chain != 0) {
        fault = "with these flags a step takes " + std::to_string(in_loop) + " (loop), " +
                std::to_string(in_ping_pong) + " (ping-pong) and " + std::to_string(in_chain) +
                " (chain) bytes of stack";
    }
    report_avoided("G7, unbounded symmetric transfer", fault,
                   "every 128th transfer returns to the worker's loop");
    // A thousand steps in a row are more than weft ever makes, and have just been survived.
    SUCCEED();
#endif
}
