// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/one_processor.hpp"

#include <weft/weft.hpp>

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

// What is destroyed while a task waits for it, which is a mistake of the program: an assertion in
// debug builds, and in others the wait ends as that for something closed. Of a mutex, a
// condition variable, an event, a semaphore, a barrier and a once it is tested beside them. A watch
// and a broadcast may go.

using weft::test::run_alone;

namespace {

/// A task waits with `wait(object)`, which gives whether it was told that the object is gone, while
/// the object is destroyed.
template <class Object, class Make, class Wait>
void check_destroyed(const char* name, Make make, Wait wait) {
    const auto main = [&]() -> weft::task<> {
        std::unique_ptr<Object> object = make();
        auto waiting = weft::co_spawn(wait, std::ref(*object));
        co_await weft::test::settle();
        weft::test::child_check(!waiting.done(), "it does not wait");
        object.reset();
        const bool told = co_await std::move(waiting);
        weft::test::child_check(told, "the waiter does not learn it");
    };
    INFO(name);
    const auto child = weft::test::run_in_child([&] { run_alone(main()); });
    INFO(child.describe());
#ifdef NDEBUG
    CHECK(child.signal == 0);
    CHECK(child.status == 0);
#else
    CHECK(child.signal == SIGABRT);
    const bool asserted = child.aborted_with("nobody_runs");
    const bool told = child.aborted_with("was destroyed while tasks wait for it");
    CHECK((asserted || told));
#endif
}

/// Was the wait ended by errc::closed?
template <class Wait>
weft::task<bool> says_closed(Wait wait) {
    const auto ended = co_await weft::as_result(std::move(wait));
    co_return !ended.has_value() && ended.error() == weft::errc::closed;
}

}  // namespace

TEST_CASE("a channel that is destroyed while tasks wait is an assertion, or closed", "[faults]") {
    using channel = weft::channel<int>;
    const auto make = [] { return std::make_unique<channel>(); };
    check_destroyed<channel>("a receiver", make, [](channel& from) -> weft::task<bool> {
        const auto received = co_await from.recv();
        co_return !received.has_value();
    });
    check_destroyed<channel>("a sender", make, [](channel& to) -> weft::task<bool> {
        int value = 1;
        const auto sent = co_await weft::as_result(to.send(std::move(value)));
        co_return !sent.has_value() && sent.error() == weft::errc::closed;
    });
    check_destroyed<channel>("a select", make, [](channel& from) -> weft::task<bool> {
        channel other;
        const auto made = co_await weft::select(from.recv(), other.recv());
        co_return made.index() == 0 && !std::get<0>(made).has_value();
    });
}

TEST_CASE("what counts or tells is an assertion, or closed, when it goes while a task waits",
          "[faults]") {
    check_destroyed<weft::auto_reset_event>(
        "an auto reset event", [] { return std::make_unique<weft::auto_reset_event>(); },
        [](weft::auto_reset_event& of) { return says_closed(of.wait()); });
    check_destroyed<weft::latch>(
        "a latch", [] { return std::make_unique<weft::latch>(1); },
        [](weft::latch& of) { return says_closed(of.wait()); });
    check_destroyed<weft::latch>(
        "a latch, arrived at", [] { return std::make_unique<weft::latch>(2); },
        [](weft::latch& of) { return says_closed(of.arrive_and_wait()); });
    check_destroyed<weft::wait_group>(
        "a wait group",
        [] {
            auto made = std::make_unique<weft::wait_group>();
            made->add();
            return made;
        },
        [](weft::wait_group& of) { return says_closed(of.wait()); });
}
