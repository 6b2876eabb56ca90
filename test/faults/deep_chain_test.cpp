// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/signal_cell.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <utility>

// Awaits a million deep, in both directions: frames lie in the heap, and the stack does not grow.
// The depth of the stack is measured by the frame addresses of a function that is not inlined.

using namespace std::chrono_literals;

namespace {

/// The part of the stack that was used by the calls that touched it.
class stack_extent {
public:
    // Not the address of a local: AddressSanitizer keeps locals in a stack of its own.
    [[gnu::noinline]] void touch() noexcept {
        const auto address = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
        if (lowest_ == 0 || address < lowest_) lowest_ = address;
        if (address > highest_) highest_ = address;
    }
    std::size_t bytes() const noexcept { return highest_ - lowest_; }

private:
    std::uintptr_t lowest_ = 0;
    std::uintptr_t highest_ = 0;
};

/// Frames of 128 transfers without tail calls and with sanitizers fit into this.
constexpr std::size_t allowed = 256 * 1024;

std::size_t depth() {
    return weft::test::scaled_count(1'000'000, 1'000'000);
}

weft::task<int> one(stack_extent& stack) {
    stack.touch();
    co_return 1;
}

weft::task<std::size_t> descend(std::size_t left, stack_extent& stack) {
    stack.touch();
    if (left == 0) {
        co_await weft::yield();
        co_return 0;
    }
    const std::size_t below = co_await descend(left - 1, stack);
    stack.touch();
    co_return below + 1;
}

weft::task<int> descend_and_throw(std::size_t left, stack_extent& stack) {
    stack.touch();
    if (left != 0) co_return co_await descend_and_throw(left - 1, stack);
    throw std::runtime_error("from below");
}

struct counted {
    std::size_t& alive;
    stack_extent& stack;
    counted(std::size_t& count, stack_extent& used) : alive(count), stack(used) { ++alive; }
    ~counted() {
        stack.touch();
        --alive;
    }
    counted(const counted&) = delete;
    counted& operator=(const counted&) = delete;
};

weft::task<> park_below(std::size_t left, std::size_t& alive, stack_extent& stack) {
    const counted here(alive, stack);
    if (left != 0) {
        co_await park_below(left - 1, alive, stack);
    } else {
        // Ignores the stop, so that the chain is destroyed where it waits.
        while (alive != 0) {
            weft::test::signal_cell never;
            co_await weft::as_result(never.wait());
            co_await weft::as_result(weft::yield());
        }
    }
}

/// An argument that is destroyed with the frame that it was moved into.
struct argument {
    explicit argument(std::size_t& alive, stack_extent& stack) : of(&alive), touched(&stack) {
        ++alive;
    }
    argument(argument&& other) noexcept
        : of(std::exchange(other.of, nullptr)), touched(other.touched) {}
    ~argument() {
        touched->touch();
        if (of != nullptr) --*of;
    }
    std::size_t* of;
    stack_extent* touched;
};

weft::task<> hold_unstarted(weft::task<> held, argument) {
    co_await std::move(held);
}

}  // namespace

TEST_CASE("fault 38: 10^6 sequential awaits do not grow the stack", "[faults]") {
    stack_extent stack;
    auto main = [&]() -> weft::task<std::size_t> {
        std::size_t sum = 0;
        for (std::size_t i = 0; i < depth(); ++i) {
            sum += static_cast<std::size_t>(co_await one(stack));
            stack.touch();
        }
        co_return sum;
    };
    CHECK(weft::run(main(), {.processors = 1}) == depth());
    CHECK(stack.bytes() < allowed);
}

TEST_CASE("fault 38: recursion 10^6 deep in an await chain, down and back", "[faults]") {
    stack_extent stack;
    CHECK(weft::run(descend(depth(), stack), {.processors = 1}) == depth());
    CHECK(stack.bytes() < allowed);
}

TEST_CASE("fault 38: an exception passes 10^6 frames", "[faults]") {
    stack_extent stack;
    CHECK_THROWS_AS(weft::run(descend_and_throw(depth(), stack), {.processors = 1}),
                    std::runtime_error);
    CHECK(stack.bytes() < allowed);
}

TEST_CASE("fault 39: destroying a parked chain 10^6 deep is iterative", "[faults]") {
    std::size_t alive = 0;
    stack_extent stack;
    auto main = [&]() -> weft::task<std::size_t> {
        weft::co_spawn(park_below, depth(), std::ref(alive), std::ref(stack)).detach();
        while (alive != depth() + 1) co_await weft::yield();
        co_return alive;
    };
    CHECK(weft::run(main(), {.processors = 1, .shutdown_grace = 0s}) == depth() + 1);
    CHECK(alive == 0);
    CHECK(stack.bytes() < allowed);
}

TEST_CASE("fault 39: cancelling a parked chain 10^6 deep unwinds it frame by frame", "[faults]") {
    std::size_t alive = 0;
    stack_extent stack;
    const std::size_t levels = depth();
    auto sleeper = [&](auto& self, std::size_t left) -> weft::task<> {
        const counted here(alive, stack);
        if (left != 0) {
            co_await self(self, left - 1);
        } else {
            co_await weft::sleep_for(1h);
        }
    };
    auto main = [&]() -> weft::task<bool> {
        auto handle = weft::co_spawn(sleeper(sleeper, levels));
        while (alive != levels + 1) co_await weft::yield();
        handle.request_stop();
        const auto result = co_await weft::as_result(std::move(handle));
        co_return !result && result.error() == std::errc::operation_canceled;
    };
    CHECK(weft::run(main(), {.processors = 1}));
    CHECK(alive == 0);
    CHECK(stack.bytes() < allowed);
}

TEST_CASE("fault 39: a nest of 10^6 unstarted tasks is destroyed without recursion", "[faults]") {
    std::size_t alive = 0;
    std::size_t reported = 0;
    stack_extent stack;
    auto main = [&]() -> weft::task<std::size_t> {
        weft::task<> nest;
        for (std::size_t i = 0; i < depth(); ++i) {
            nest = hold_unstarted(std::move(nest), argument(alive, stack));
        }
        co_return alive;
    };
    weft::runtime_options options{.processors = 1};
    options.log = [&](std::string_view line) {
        reported += line.find("destroyed without having run") != std::string_view::npos ? 1 : 0;
    };
    CHECK(weft::run(main(), options) == depth());
    CHECK(alive == 0);
    CHECK(stack.bytes() < allowed);
#ifdef NDEBUG
    CHECK(reported == 0);
#else
    CHECK(reported == depth());
#endif
}

namespace {

weft::task<> hold_handle(weft::join_handle<void> held, argument) {
    static_cast<void>(held);
    co_return;
}

}  // namespace

TEST_CASE("fault 39: a chain of 10^6 handles of ended tasks is dropped without recursion",
          "[faults]") {
    std::size_t alive = 0;
    stack_extent stack;
    auto main = [&]() -> weft::task<std::size_t> {
        weft::join_handle<void> last = weft::co_spawn(hold_handle({}, argument(alive, stack)));
        for (std::size_t i = 1; i < depth(); ++i) {
            last = weft::co_spawn(hold_handle(std::move(last), argument(alive, stack)));
            if (i % 1000 == 0) co_await weft::yield();
        }
        while (weft::this_runtime::statistics().tasks_alive() > 1) co_await weft::yield();
        const std::size_t held = alive;
        co_await std::move(last);
        co_return held;
    };
    CHECK(weft::run(main(), {.processors = 1}) == depth());
    CHECK(alive == 0);
    CHECK(stack.bytes() < allowed);
}
