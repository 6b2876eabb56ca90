// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/child_process.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

// Exceptions that leave a task which nobody awaits: none of them is lost.

using namespace std::chrono_literals;

namespace {

weft::task<> fail(const char* text) {
    co_await weft::yield();
    throw std::runtime_error(text);
}

/// Collects what the runtime reports.
class failure_log {
public:
    auto handler() {
        return [this](const weft::task_failure& failure) {
            std::string text = std::string(failure.task_name) + ": ";
            try {
                std::rethrow_exception(failure.exception);
            } catch (const std::exception& error) { text += error.what(); } catch (int number) {
                text += std::to_string(number);
            }
            const std::lock_guard held(mutex_);
            lines_.push_back(std::move(text));
        };
    }
    std::vector<std::string> lines() {
        const std::lock_guard held(mutex_);
        return lines_;
    }

private:
    std::mutex mutex_;
    std::vector<std::string> lines_;
};

}  // namespace

TEST_CASE("fault 11: exception in a detached task", "[faults]") {
    const auto result = weft::test::run_in_child([] {
        auto main = []() -> weft::task<> {
            weft::co_spawn({.name = "worker of the test"}, fail, "out of cheese").detach();
            co_await weft::sleep_for(1h);
        };
        weft::run(main(), {.processors = 2});
    });
    INFO(result.describe());
    CHECK(result.aborted_with("worker of the test"));
    CHECK(result.aborted_with("out of cheese"));
    CHECK(result.aborted_with("exception_test.cpp"));
}

TEST_CASE("fault 11: the runtime's handler gets it instead", "[faults]") {
    failure_log log;
    auto main = [&]() -> weft::task<> {
        weft::co_spawn({.name = "a"}, fail, "first").detach();
        weft::co_spawn({.name = "b"}, []() -> weft::task<> {
            throw 42;
            co_return;
        }).detach();
        while (log.lines().size() < 2) co_await weft::yield();
    };
    weft::run(main(), {.processors = 1, .on_failure = log.handler()});
    const auto lines = log.lines();
    CHECK(std::count(lines.begin(), lines.end(), "a: first") == 1);
    CHECK(std::count(lines.begin(), lines.end(), "b: 42") == 1);
    CHECK(lines.size() == 2);
}

TEST_CASE("fault 12: an exception in a task whose handle is dropped before or after it ended",
          "[faults]") {
    for (const bool before : {true, false}) {
        failure_log log;
        auto main = [&]() -> weft::task<> {
            {
                auto handle = weft::co_spawn({.name = "orphan"}, fail, "dropped");
                while (!before && !handle.done()) co_await weft::yield();
                handle.detach();
            }
            while (log.lines().empty()) co_await weft::yield();
        };
        weft::run(main(), {.processors = 1, .on_failure = log.handler()});
        CHECK(log.lines() == std::vector<std::string>{"orphan: dropped"});
    }
}

TEST_CASE("fault 12: exception in a child whose parent was cancelled", "[faults]") {
    failure_log log;
    auto main = [&]() -> weft::task<> {
        auto parent = weft::co_spawn([]() -> weft::task<> {
            auto child = weft::co_spawn({.name = "child"}, []() -> weft::task<> {
                // Outlives the parent, whose await of it is cancelled.
                for (int i = 0; i < 50; ++i) co_await weft::yield();
                throw std::runtime_error("late");
            });
            struct detach_at_end {
                weft::join_handle<void>& handle;
                ~detach_at_end() { handle.detach(); }
            } at_end{child};
            co_await child;
        });
        for (int i = 0; i < 5; ++i) co_await weft::yield();
        parent.request_stop();
        const auto result = co_await weft::as_result(std::move(parent));
        if (result || result.error() != std::errc::operation_canceled) {
            throw std::logic_error("the parent was not cancelled");
        }
        while (log.lines().empty()) co_await weft::yield();
    };
    weft::run(main(), {.processors = 1, .on_failure = log.handler()});
    CHECK(log.lines() == std::vector<std::string>{"child: late"});
}

TEST_CASE("fault 12: a task that ends by the stop that it was asked for is no failure",
          "[faults]") {
    failure_log log;
    auto main = [&]() -> weft::task<> {
        auto sleeper = weft::co_spawn([]() -> weft::task<> { co_await weft::sleep_for(1h); });
        co_await weft::yield();
        sleeper.request_stop();
        sleeper.detach();
        weft::co_spawn([]() -> weft::task<> { co_await weft::sleep_for(1h); }).detach();
        co_await weft::yield();
    };
    weft::run(main(), {.processors = 1, .on_failure = log.handler()});
    CHECK(log.lines().empty());
}

TEST_CASE("fault 12: an exception while the runtime ends is reported as well", "[faults]") {
    failure_log log;
    auto main = []() -> weft::task<> {
        weft::co_spawn({.name = "late"}, []() -> weft::task<> {
            if (!co_await weft::as_result(weft::sleep_for(1h))) {
                throw std::runtime_error("clean-up failed");
            }
        }).detach();
        co_await weft::yield();
    };
    weft::run(main(), {.processors = 1, .on_failure = log.handler()});
    CHECK(log.lines() == std::vector<std::string>{"late: clean-up failed"});
}

TEST_CASE("fault 12: an exception that nobody has fetched when the runtime ended", "[faults]") {
    failure_log log;
    weft::join_handle<void> kept;
    auto main = [&]() -> weft::task<> {
        kept = weft::co_spawn({.name = "kept"}, fail, "unread");
        while (!kept.done()) co_await weft::yield();
    };
    weft::run(main(), {.processors = 1, .on_failure = log.handler()});
    CHECK(log.lines().empty());
    SECTION("it can be fetched") {
        CHECK_THROWS_AS(kept.get(), std::runtime_error);
    }
    SECTION("it is reported when its handle goes") {
        kept.detach();
        CHECK(log.lines() == std::vector<std::string>{"kept: unread"});
    }
}
