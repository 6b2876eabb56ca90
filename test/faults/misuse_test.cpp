// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/kept_log.hpp"
#include "support/nothing.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

// What a program does with tasks and handles that it must not do: each has a defined end.

using namespace std::chrono_literals;
using weft::test::nothing;

namespace {

weft::task<int> give(int value) {
    co_return value;
}
template <class Function>
std::string message_of(Function&& function) {
    try {
        function();
    } catch (const std::logic_error& error) { return error.what(); }
    return "nothing was thrown";
}

bool contains(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
}

template <class Type>
concept has_operator_co_await =
    requires(Type value) { static_cast<Type>(value).operator co_await(); };

/// A coroutine of another library: weft's awaitables are of no use in it.
struct other_coroutine {
    struct promise_type {
        other_coroutine get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() {}
    };
};

template <class Awaiter, class Promise>
concept suspends_in = requires(Awaiter awaiter, std::coroutine_handle<Promise> handle) {
    awaiter.await_suspend(handle);
};

}  // namespace

TEST_CASE("fault 13: only an rvalue task can be awaited", "[faults]") {
    STATIC_REQUIRE(has_operator_co_await<weft::task<int>&&>);
    STATIC_REQUIRE_FALSE(has_operator_co_await<weft::task<int>&>);
    STATIC_REQUIRE_FALSE(has_operator_co_await<const weft::task<int>&>);
}

TEST_CASE("fault 13: a task awaited twice, moved from or empty throws", "[faults]") {
    auto main = []() -> weft::task<int> {
        int thrown = 0;
        weft::task<int> first = give(1);
        co_await std::move(first);
        weft::task<int> source = give(2);
        weft::task<int> moved_to = std::move(source);
        weft::task<int> empty;
        for (weft::task<int>* each : {&first, &source, &empty}) {
            try {
                co_await std::move(*each);
            } catch (const std::logic_error& error) {
                thrown += contains(error.what(), "empty task") ? 1 : 0;
            }
        }
        co_return thrown * 10 + co_await std::move(moved_to);
    };
    CHECK(weft::run(main(), {.processors = 1}) == 32);
    CHECK(contains(message_of([] { weft::run(weft::task<>()); }), "empty task"));
}

TEST_CASE("fault 13: an empty task cannot be spawned", "[faults]") {
    weft::runtime runtime({.processors = 1});
    CHECK(contains(message_of([&] { runtime.co_spawn(weft::task<>()).detach(); }), "empty task"));
    CHECK(runtime.statistics().tasks_spawned() == 0);
}

TEST_CASE("fault 13: an empty handle cannot be awaited", "[faults]") {
    auto main = []() -> weft::task<int> {
        int thrown = 0;
        weft::join_handle<int> joined = weft::co_spawn(give(1));
        co_await joined;
        weft::join_handle<int> detached = weft::co_spawn(give(2));
        detached.detach();
        weft::join_handle<int> empty;
        for (weft::join_handle<int>* each : {&joined, &detached, &empty}) {
            try {
                co_await *each;
            } catch (const std::logic_error& error) {
                thrown += contains(error.what(), "empty join_handle") ? 1 : 0;
            }
        }
        co_return thrown;
    };
    CHECK(weft::run(main(), {.processors = 1}) == 3);
    weft::join_handle<int> empty;
    CHECK(contains(message_of([&] { empty.get(); }), "empty join_handle"));
}

TEST_CASE("fault 13: two awaits of one handle at a time end with a message", "[faults]") {
    const auto result = weft::test::run_in_child([] {
        auto main = []() -> weft::task<> {
            auto sleeper = weft::co_spawn([]() -> weft::task<> { co_await weft::sleep_for(1h); });
            auto wait = [](weft::join_handle<void>& handle) -> weft::task<> { co_await handle; };
            weft::co_spawn(wait, std::ref(sleeper)).detach();
            co_await weft::sleep_for(1ms);
            co_await sleeper;
        };
        weft::run(main(), {.processors = 1});
    });
    INFO(result.describe());
    CHECK(result.aborted_with("awaited by two at a time"));
}

TEST_CASE("fault 13: a handle that is dropped while it is awaited ends with a message",
          "[faults]") {
    const auto result = weft::test::run_in_child([] {
        auto main = []() -> weft::task<> {
            auto sleeper = weft::co_spawn([]() -> weft::task<> { co_await weft::sleep_for(1h); });
            auto wait = [](weft::join_handle<void>& handle) -> weft::task<> { co_await handle; };
            weft::co_spawn(wait, std::ref(sleeper)).detach();
            co_await weft::sleep_for(1ms);
            sleeper.detach();
        };
        weft::run(main(), {.processors = 1});
    });
    INFO(result.describe());
    CHECK(result.aborted_with("while it is awaited"));
}

TEST_CASE("fault 14: a task that is never awaited frees its frame and is reported", "[faults]") {
    auto held = std::make_shared<int>(1);
    auto keeps = [](std::shared_ptr<int>) -> weft::task<> { co_return; };
    const auto result = weft::test::run_in_child([&] {
        { weft::task<> never = keeps(held); }
        weft::test::child_check(held.use_count() == 1, "the argument was destroyed");
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
#ifndef NDEBUG
    CHECK(contains(result.errors, "destroyed without having run"));
    CHECK(contains(result.errors, "misuse_test.cpp"));
#else
    CHECK(result.errors.empty());
#endif
}

namespace {

weft::task<> forgotten() {
    co_return;
}

}  // namespace

TEST_CASE("fault 14: in a task the report goes to the log of the runtime", "[faults]") {
    weft::test::kept_log log;
    weft::runtime_options options{.processors = 1};
    options.log = log.sink();
    auto main = []() -> weft::task<> {
        { weft::task<> never = forgotten(); }
        co_return;
    };
    weft::run(main(), options);
#ifndef NDEBUG
    CHECK(log.size() == 1);
    CHECK(log.count("destroyed without having run") == 1);
    CHECK(contains(log.text(), "misuse_test.cpp"));
#else
    CHECK(log.size() == 0);
#endif
}

TEST_CASE("fault 14: a main task that run() refuses is not reported", "[faults]") {
    const auto result = weft::test::run_in_child([] {
        try {
            weft::run(nothing(), {.processors = 2000});
        } catch (const std::invalid_argument&) { return; }
        weft::test::child_check(false, "2000 processors are accepted");
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
    CHECK(result.errors.empty());
}

TEST_CASE("fault 15: outside a task there is a clear error", "[faults]") {
    STATIC_REQUIRE_FALSE(suspends_in<decltype(std::declval<weft::task<int>>().operator co_await()),
                                     other_coroutine::promise_type>);
    STATIC_REQUIRE_FALSE(suspends_in<decltype(weft::sleep_for(1s)), other_coroutine::promise_type>);
    STATIC_REQUIRE_FALSE(suspends_in<decltype(weft::yield()), other_coroutine::promise_type>);

    CHECK(contains(message_of([] { weft::co_spawn(nothing()).detach(); }), "use weft::run"));
    CHECK(contains(message_of([] { weft::this_task::id(); }), "where no task runs"));
    CHECK(contains(message_of([] { weft::this_task::name(); }), "where no task runs"));
    CHECK(contains(message_of([] { weft::this_task::spawn_site(); }), "where no task runs"));
    CHECK(contains(message_of([] { weft::this_task::stop_requested(); }), "where no task runs"));
    CHECK(contains(message_of([] { weft::this_runtime::statistics(); }), "no worker"));
    CHECK(contains(message_of([] { weft::this_runtime::processors(); }), "no worker"));
}

TEST_CASE("fault 16: waiting inside a worker throws", "[faults]") {
    auto main = []() -> weft::task<std::string> {
        auto other = weft::co_spawn(give(1));
        std::string messages = message_of([&] { other.get(); });
        messages += message_of([] { weft::run(nothing()); });
        co_await other;
        co_return messages;
    };
    const std::string messages = weft::run(main(), {.processors = 1});
    CHECK(contains(messages, "join_handle::get was called on a worker"));
    CHECK(contains(messages, "run was called inside a task"));
    // Of another runtime as well: the thread would be kept from all tasks of its own.
    weft::runtime elsewhere({.processors = 1});
    auto waits_for_other = [&]() -> weft::task<std::string> {
        auto other = elsewhere.co_spawn(give(1));
        std::string message = message_of([&] { other.get(); });
        message += message_of([&] { weft::run(nothing()); });
        co_await other;
        co_return message;
    };
    auto inside = elsewhere.co_spawn(waits_for_other);
    const std::string inside_of_it = inside.get();
    CHECK(contains(inside_of_it, "join_handle::get was called on a worker"));
    CHECK(contains(inside_of_it, "run was called inside a task"));
    const std::string from_another = weft::run(waits_for_other(), {.processors = 1});
    CHECK(contains(from_another, "join_handle::get was called on a worker"));
    CHECK(contains(from_another, "run was called inside a task"));
}

namespace {

/// Suspends as weft::yield() does, and lets the test have the handle.
class spying_yield {
public:
    explicit spying_yield(std::coroutine_handle<>& handle) : handle_(handle) {}
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> suspended) noexcept {
        handle_ = suspended;
        inner_.await_suspend(suspended);
    }
    void await_resume() const { inner_.await_resume(); }

private:
    std::coroutine_handle<>& handle_;
    weft::detail::yield_awaiter inner_;
};

/// The same for a sleep.
class spying_sleep {
public:
    explicit spying_sleep(std::atomic<void*>& handle) : handle_(handle) {}
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> suspended) noexcept {
        const bool parked = inner_.await_suspend(suspended);
        handle_ = suspended.address();  // Nobody resumes it before the test does.
        return parked;
    }
    void await_resume() { inner_.await_resume(); }

private:
    std::atomic<void*>& handle_;
    weft::detail::sleep_awaiter inner_ = weft::sleep_for(1h);
};

}  // namespace

TEST_CASE("fault 17: a handle resumed by hand while its task is queued ends with a message",
          "[faults]") {
    const auto result = weft::test::run_in_child([] {
        auto main = []() -> weft::task<> {
            std::coroutine_handle<> stolen;
            auto victim = [](std::coroutine_handle<>& handle) -> weft::task<> {
                co_await spying_yield(handle);
            };
            auto handle = weft::co_spawn(victim, std::ref(stolen));
            while (!stolen) co_await weft::yield();
            // The victim is in the queue behind this task.
            stolen.resume();
            co_await handle;
        };
        weft::run(main(), {.processors = 1});
    });
    INFO(result.describe());
    CHECK(result.aborted_with("resumed by hand"));
}

TEST_CASE("fault 17: a handle resumed by hand while its task is parked ends with a message",
          "[faults]") {
    const auto result = weft::test::run_in_child([] {
        auto main = []() -> weft::task<> {
            std::atomic<void*> stolen{nullptr};
            auto victim = [](std::atomic<void*>& handle) -> weft::task<> {
                co_await spying_sleep(handle);
            };
            auto handle = weft::co_spawn(victim, std::ref(stolen));
            while (stolen == nullptr) co_await weft::yield();
            std::coroutine_handle<>::from_address(stolen).resume();
            co_await handle;
        };
        weft::run(main(), {.processors = 1});
    });
    INFO(result.describe());
    CHECK(result.aborted_with("resumed by hand"));
}

TEST_CASE("fault 17: a handle resumed by hand outside the runtime ends with a message",
          "[faults]") {
    const auto result = weft::test::run_in_child([] {
        std::atomic<void*> stolen{nullptr};
        auto victim = [&]() -> weft::task<> { co_await spying_sleep(stolen); };
        weft::runtime runtime({.processors = 1});
        runtime.co_spawn(victim()).detach();
        while (stolen == nullptr) std::this_thread::yield();
        std::coroutine_handle<>::from_address(stolen).resume();
    });
    INFO(result.describe());
    CHECK(result.aborted_with("resumed by hand"));
}
