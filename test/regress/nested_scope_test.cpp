// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/one_processor.hpp"

#include <weft/weft.hpp>

#include <chrono>
#include <functional>
#include <system_error>

// A child that opened a scope inside another one that it had opened itself was taken for a member
// of that one, though it was a member of neither. What it had known of its neighbours by then was
// used to change the list of those who were there since: a stop missed one of them, or found one
// again and again.

using namespace std::chrono_literals;
using weft::test::run_alone;

namespace {

struct signals {
    weft::event first_may_end, second_may_close;
};

weft::task<> end_when_told(signals& told) {
    co_await told.first_may_end.wait();
}

/// Waits in two scopes of its own, and then as a member of the group's.
weft::task<> wait_inside(signals& told) {
    co_await weft::with_timeout(1h, weft::with_timeout(1h, told.second_may_close.wait()));
    co_await weft::sleep_for(1h);
}

/// It must not be missed, or this is the test's end all the same.
weft::task<> wait_for_stop(bool& stopped) {
    const auto slept = co_await weft::as_result(weft::sleep_for(10s));
    stopped = !slept.has_value();
}

}  // namespace

TEST_CASE("a stop reaches whoever came while a child was in two scopes of its own", "[regress]") {
    const auto main = []() -> weft::task<> {
        signals told;
        bool stopped = false;
        co_await weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
            group.spawn(end_when_told(told));
            group.spawn(wait_inside(told));
            co_await weft::test::settle();
            group.spawn(wait_for_stop(stopped));
            co_await weft::test::settle();
            told.second_may_close.set();
            co_await weft::test::settle();
            told.first_may_end.set();
            co_await weft::test::settle();
            group.request_stop();
        });
        CHECK(stopped);
    };
    run_alone(main());
}

TEST_CASE("a stop reaches a child through several scopes that it has opened itself", "[regress]") {
    const auto main = []() -> weft::task<> {
        const auto waits = [](int& late) -> weft::task<> {
            const auto slept = co_await weft::as_result(weft::with_timeout(
                1ms, weft::with_timeout(1h, weft::with_timeout(1h, weft::sleep_for(1h)))));
            late += !slept.has_value() && slept.error() == std::errc::timed_out ? 1 : 0;
        };
        int late = 0;
        co_await weft::when_all(waits(late), waits(late), waits(late));
        CHECK(late == 3);
    };
    run_alone(main());
}
