// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scheduler.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>

// Awaits that end at once because their scope is stopped took nothing from the budget of a resume,
// so a task that went on awaiting after a stop kept its worker to itself for ever.

using namespace std::chrono_literals;

namespace {

weft::task<> set(std::atomic<bool>& flag) {
    flag = true;
    co_return;
}

template <class MakeAwaitable>
weft::task<bool> await_stubbornly(std::atomic<bool>& flag, MakeAwaitable make) {
    const auto until = std::chrono::steady_clock::now() + weft::test::watchdog_limit;
    while (!flag) {
        if (std::chrono::steady_clock::now() > until) co_return false;
        static_cast<void>(co_await weft::as_result(make()));
    }
    co_return true;
}

/// One worker, a stopped task that awaits without an end, and one that is to run beside it.
template <class MakeAwaitable>
bool lets_others_run(MakeAwaitable make) {
    auto main = [](MakeAwaitable make_awaitable) -> weft::task<bool> {
        std::atomic<bool> flag{false};
        auto other = weft::co_spawn(set, std::ref(flag));
        // It comes first, since it is spawned last.
        auto stubborn =
            weft::co_spawn(await_stubbornly<MakeAwaitable>, std::ref(flag), make_awaitable);
        stubborn.request_stop();
        co_await std::move(other);
        co_return co_await std::move(stubborn);
    };
    return weft::run(main(make), {.processors = 1});
}

}  // namespace

TEST_CASE("regress: a stopped task that sleeps on lets others run", "[regress]") {
    CHECK(lets_others_run([] { return weft::sleep_for(1h); }));
}

TEST_CASE("regress: a stopped task that calls checkpoint lets others run", "[regress]") {
    CHECK(lets_others_run([] { return weft::checkpoint(); }));
}
