// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/one_processor.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

// An operation that lies further out than the child that has awaited it lives on when the runtime
// ends and the child is destroyed. It went on to look at the branch of that child, whose memory was
// gone, unless the branch was parked; and where nobody could take it off, the end waited for ever.

using namespace std::chrono_literals;

namespace {

void ignore(std::string_view) {}

weft::runtime_options without_grace() {
    return {.processors = 1, .compensate = false, .shutdown_grace = 0s, .log = ignore};
}

weft::task<> for_ever() {
    for (;;) static_cast<void>(co_await weft::as_result(weft::yield()));
}

}  // namespace

TEST_CASE("an operation outside of the child that awaits it is completed and never seen",
          "[regress]") {
    const weft::test::watchdog dog(60s, [] { return std::string("the runtime does not end"); });
    weft::event happened;
    const auto outer = [](weft::event& awaited) -> weft::task<> {
        auto operation = awaited.wait();
        std::vector<weft::task<>> one;
        one.push_back([](decltype(operation)& of) -> weft::task<> { co_await of; }(operation));
        co_await weft::when_all(std::move(one));
    };
    const auto main = [&]() -> weft::task<> {
        weft::co_spawn(outer(happened)).detach();
        co_await weft::test::settle();
        // In front of the child when it is made ready, so that the end comes before its turn.
        for (int i = 0; i < 5; ++i) weft::co_spawn(for_ever()).detach();
        const weft::runtime::guard outside;
        std::thread([&] { happened.set(); }).join();
    };
    weft::run(main(), without_grace());
    CHECK(happened.is_set());
}

TEST_CASE("a wait for a condition, outside of the child that awaits it, ends with the runtime",
          "[regress]") {
    const weft::test::watchdog dog(60s, [] { return std::string("the runtime does not end"); });
    weft::mutex mutex;
    weft::condition_variable changed;
    const auto waits = [](weft::mutex& m, weft::condition_variable& condition) -> weft::task<> {
        auto guard = co_await m.scoped_lock();
        auto operation = condition.wait(guard);
        co_await weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
            group.spawn([&]() -> weft::task<> { co_await operation; });
            co_return;
        });
    };
    const auto holds = [](weft::mutex& m) -> weft::task<> {
        const auto guard = co_await m.scoped_lock();
        weft::channel<int> nobody;
        for (;;) static_cast<void>(co_await weft::shield(nobody.recv()));
    };
    bool lined_up = false;
    const auto main = [&]() -> weft::task<> {
        weft::co_spawn(waits(mutex, changed)).detach();
        co_await weft::test::settle();
        weft::co_spawn(holds(mutex)).detach();
        co_await weft::test::settle();
        changed.notify_one();
        co_await weft::test::settle();  // It stands in the line of the mutex.
        lined_up = mutex.holder() != 0;
    };
    weft::run(main(), without_grace());
    CHECK(lined_up);
    CHECK(mutex.try_lock());
    mutex.unlock();
}
