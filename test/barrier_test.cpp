// SPDX-License-Identifier: MIT
#include <weft/barrier.hpp>

#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/one_processor.hpp"
#include "support/watchdog.hpp"

#include <weft/as_result.hpp>
#include <weft/error.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using weft::test::run_alone;

namespace {

/// On one thread, whatever the machine does meanwhile.
weft::task<std::error_code> arrive_as_result(weft::barrier<>& at) {
    const auto passed = co_await weft::as_result(at.arrive_and_wait());
    co_return passed ? std::error_code() : passed.error();
}

constexpr std::size_t parties = 4;

struct phases {
    std::array<int, parties> at{};
    int ended = 0;
    int wrong = 0;
};

/// Looks at the plain variables of all: at the end of a phase nobody else is under way.
struct check_all {
    phases* of;
    void operator()() const noexcept {
        ++of->ended;
        for (const int each : of->at) of->wrong += each == of->ended ? 0 : 1;
    }
};

}  // namespace

TEST_CASE("nobody passes a barrier before all have arrived, phase by phase") {
    const auto main = []() -> weft::task<> {
        phases all;
        // Two phases for each step: the second one does not count.
        struct check_every_other {
            phases* of;
            int phase = 0;
            void operator()() noexcept {
                if (++phase % 2 != 0) check_all{of}();
            }
        };
        weft::barrier<check_every_other> meeting(parties, check_every_other{&all});
        const auto step = [](weft::barrier<check_every_other>& at, phases& of,
                             std::size_t who) -> weft::task<> {
            for (int i = 1; i <= 500; ++i) {
                of.at[who] = i;
                co_await at.arrive_and_wait();
                if (of.ended != i) ++of.wrong;
                co_await at.arrive_and_wait();
            }
        };
        std::vector<weft::join_handle<void>> tasks;
        for (std::size_t who = 0; who < parties; ++who) {
            tasks.push_back(weft::co_spawn(step, std::ref(meeting), std::ref(all), who));
        }
        for (auto& each : tasks) co_await std::move(each);
        CHECK(all.ended == 500);
        CHECK(all.wrong == 0);
    };
    for (const unsigned processors : {1U, 2U}) weft::run(main(), {.processors = processors});
}

TEST_CASE("a barrier for one keeps nobody, and none for nobody") {
    const auto main = []() -> weft::task<> {
        int ended = 0;
        const auto count = [&ended]() noexcept { ++ended; };
        weft::barrier alone(1, count);
        for (int i = 0; i < 3; ++i) co_await alone.arrive_and_wait();
        CHECK(ended == 3);
        alone.arrive_and_drop();
        CHECK(ended == 4);
        co_await alone.arrive_and_wait();
        CHECK(ended == 4);
    };
    run_alone(main());
}

TEST_CASE("who drops out of a barrier is not waited for any more") {
    const auto main = []() -> weft::task<> {
        weft::barrier<> meeting(3);
        auto first = weft::co_spawn(arrive_as_result, std::ref(meeting));
        auto second = weft::co_spawn(arrive_as_result, std::ref(meeting));
        co_await weft::test::settle();
        CHECK_FALSE(first.done());
        meeting.arrive_and_drop();
        CHECK_FALSE(first.done());  // Not inside arrive_and_drop().
        const std::error_code first_error = co_await std::move(first);
        const std::error_code second_error = co_await std::move(second);
        CHECK_FALSE(first_error);
        CHECK_FALSE(second_error);
        auto third = weft::co_spawn(arrive_as_result, std::ref(meeting));
        co_await weft::test::settle();
        CHECK_FALSE(third.done());
        co_await meeting.arrive_and_wait();
        const std::error_code third_error = co_await std::move(third);
        CHECK_FALSE(third_error);
    };
    run_alone(main());
}

TEST_CASE("one who is stopped at a barrier has not arrived") {
    const auto main = []() -> weft::task<> {
        weft::barrier<> meeting(3);
        auto first = weft::co_spawn(arrive_as_result, std::ref(meeting));
        auto second = weft::co_spawn(arrive_as_result, std::ref(meeting));
        co_await weft::test::settle();
        first.request_stop();
        const std::error_code stopped = co_await std::move(first);
        CHECK(stopped == std::errc::operation_canceled);
        const auto late =
            co_await weft::as_result(weft::with_timeout(1ms, meeting.arrive_and_wait()));
        REQUIRE_FALSE(late);
        CHECK(late.error() == std::errc::timed_out);
        CHECK_FALSE(second.done());
        auto third = weft::co_spawn(arrive_as_result, std::ref(meeting));
        co_await meeting.arrive_and_wait();
        const std::error_code second_error = co_await std::move(second);
        const std::error_code third_error = co_await std::move(third);
        CHECK_FALSE(second_error);
        CHECK_FALSE(third_error);
    };
    run_alone(main());
}

TEST_CASE("who has passed a barrier before the stop has passed it") {
    const auto main = []() -> weft::task<> {
        weft::barrier<> meeting(2);
        auto first = weft::co_spawn(arrive_as_result, std::ref(meeting));
        co_await weft::test::settle();
        co_await meeting.arrive_and_wait();
        first.request_stop();
        const std::error_code error = co_await std::move(first);
        CHECK_FALSE(error);
    };
    run_alone(main());
}

TEST_CASE("more who drop out of a barrier than are expected are an assertion, or nothing") {
    const auto exceed = [] {
        weft::barrier<> meeting(1);
        meeting.arrive_and_drop();
        meeting.arrive_and_drop();
    };
#ifdef NDEBUG
    exceed();
#else
    const auto child = weft::test::run_in_child([&] { exceed(); });
    INFO(child.describe());
    CHECK(child.aborted_with("more dropped out"));
#endif
}

TEST_CASE("a barrier that is destroyed while a task waits is an assertion, or closed") {
    const auto main = []() -> weft::task<> {
        auto meeting = std::make_unique<weft::barrier<>>(2);
        auto waiting = weft::co_spawn(arrive_as_result, std::ref(*meeting));
        co_await weft::test::settle();
        meeting.reset();
        const std::error_code error = co_await std::move(waiting);
        CHECK(error == weft::errc::closed);
    };
#ifdef NDEBUG
    run_alone(main());
#else
    const auto child = weft::test::run_in_child([&] { run_alone(main()); });
    INFO(child.describe());
    CHECK(child.aborted_with("was destroyed while tasks wait at it"));
#endif
}

TEST_CASE("at the end of a runtime tasks may still wait at a barrier that is destroyed first") {
    const auto main = []() -> weft::task<> {
        auto meeting = std::make_shared<weft::barrier<>>(5);
        for (int i = 0; i < 3; ++i) {
            weft::co_spawn(
                [](std::shared_ptr<weft::barrier<>> at) -> weft::task<> {
                    co_await weft::as_result(at->arrive_and_wait());
                    co_await weft::as_result(at->arrive_and_wait());
                },
                meeting)
                .detach();
        }
        co_await weft::test::settle();
    };
    run_alone(main());
}

TEST_CASE("a thread outside drops out of a barrier") {
    const weft::test::watchdog dog(60s, [] { return std::string(); });
    weft::barrier<> meeting(2);
    weft::runtime runtime({.processors = 1});
    auto waiting = runtime.co_spawn(arrive_as_result, std::ref(meeting));
    std::thread outside(
        [&meeting, held = weft::runtime::guard(runtime)] { meeting.arrive_and_drop(); });
    CHECK_FALSE(waiting.get());
    outside.join();
}
