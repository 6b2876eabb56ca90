// SPDX-License-Identifier: MIT
#include <weft/task_local.hpp>

#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/one_processor.hpp"

#include <weft/blocking.hpp>
#include <weft/channel.hpp>
#include <weft/runtime.hpp>
#include <weft/shield.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/task_group.hpp>
#include <weft/timeout.hpp>
#include <weft/when_all.hpp>
#include <weft/when_any.hpp>
#include <weft/yield.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using weft::task_local;
using weft::test::run_alone;

namespace {

constinit task_local<int> number;
constinit task_local<int> other_number(-1);
task_local<std::string> text("nothing");

weft::task<int> read_number() {
    co_await weft::yield();
    co_return number.get();
}
weft::task<int> read_number_deep(int depth) {
    if (depth == 0) co_return co_await read_number();
    co_return co_await read_number_deep(depth - 1);
}

/// Counts how many of its kind there are.
class counted {
public:
    explicit counted(int& alive) : alive_(&alive) { ++alive; }
    counted(counted&& other) noexcept : alive_(std::exchange(other.alive_, nullptr)) {}
    counted& operator=(counted&&) = delete;
    ~counted() {
        if (alive_ != nullptr) --*alive_;
    }

private:
    int* alive_;
};

/// Notes in its destructor what is bound then.
class notes_at_its_end {
public:
    explicit notes_at_its_end(int& into) : into_(&into) {}
    notes_at_its_end(notes_at_its_end&& other) noexcept
        : into_(std::exchange(other.into_, nullptr)) {}
    notes_at_its_end& operator=(notes_at_its_end&&) = delete;
    ~notes_at_its_end() {
        if (into_ != nullptr) *into_ = number.get();
    }

private:
    int* into_;
};

}  // namespace

TEST_CASE("where nothing is bound a task local gives its default") {
    CHECK(number.get() == 0);
    CHECK(other_number.get() == -1);
    CHECK(number.find() == nullptr);
    const auto main = []() -> weft::task<> {
        CHECK(number.get() == 0);
        CHECK(other_number.get() == -1);
        CHECK(text.get() == "nothing");
        CHECK(text.find() == nullptr);
        co_return;
    };
    run_alone(main());
    STATIC_REQUIRE_FALSE(std::is_copy_constructible_v<task_local<int>>);
    STATIC_REQUIRE_FALSE(std::is_move_constructible_v<task_local<int>::binding>);
}

TEST_CASE("a value is found while it is bound, however deep, and hides the one outside") {
    const auto main = []() -> weft::task<> {
        const int outside = co_await read_number_deep(3);
        CHECK(outside == 0);
        const auto inside = [](int expected) -> weft::task<int> {
            CHECK(number.get() == expected);
            const int hidden = co_await number.with(expected + 1, read_number_deep(5));
            CHECK(hidden == expected + 1);
            CHECK(number.get() == expected);
            co_return co_await read_number();
        };
        const int first = co_await number.with(7, inside(7));
        CHECK(first == 7);
        CHECK(number.get() == 0);
        // Others are not touched by it.
        const auto both = []() -> weft::task<> {
            CHECK(number.get() == 1);
            CHECK(other_number.get() == 2);
            CHECK(text.get() == "nothing");
            co_return;
        };
        co_await number.with(1, other_number.with(2, both()));
        co_await other_number.with(2, number.with(1, both()));
        CHECK(other_number.get() == -1);
    };
    run_alone(main());
}

TEST_CASE("with() takes whatever can be awaited, and gives what that gives") {
    const auto main = []() -> weft::task<> {
        co_await number.with(1, weft::yield());
        weft::channel<int> values(1);
        co_await values.send(5);
        const std::optional<int> received = co_await number.with(1, values.recv());
        CHECK(received == 5);
        auto handle = weft::co_spawn(read_number());
        // The task was spawned before; only the wait is in there.
        const int spawned = co_await number.with(1, handle);
        CHECK(spawned == 0);
        CHECK_FALSE(handle);
        const auto fails = []() -> weft::task<> {
            throw std::runtime_error("on purpose");
            co_return;
        };
        std::string what;
        try {
            co_await number.with(1, fails());
        } catch (const std::runtime_error& error) { what = error.what(); }
        CHECK(what == "on purpose");
        CHECK(number.get() == 0);
    };
    run_alone(main());
}

TEST_CASE("a task that is never awaited has bound nothing") {
    int alive = 0;
    task_local<std::unique_ptr<counted>> held;
    const auto main = [&]() -> weft::task<> {
        auto never = weft::shield(held.with(std::make_unique<counted>(alive), weft::yield()));
        CHECK(alive == 1);
        co_await weft::when_all(weft::yield());
        CHECK(held.get() == nullptr);
        // Spawned in a runtime that stops it before it starts, or run: not forgotten.
        co_await std::move(never);
        CHECK(alive == 0);
    };
    run_alone(main());
    CHECK(alive == 0);
}

TEST_CASE("children find what is bound around them") {
    const auto main = []() -> weft::task<> {
        const auto all = []() -> weft::task<int> {
            const auto [one, two, three] = co_await weft::when_all(
                read_number(), number.with(20, read_number()), read_number_deep(2));
            CHECK(two == 20);
            std::vector<weft::task<int>> many;
            for (int i = 0; i < 10; ++i) many.push_back(read_number());
            for (const int each : co_await weft::when_all(std::move(many))) CHECK(each == one);
            const auto any = co_await weft::when_any(read_number(), weft::sleep_for(1h));
            CHECK(std::get<0>(any.values) == one);
            const int timed = co_await weft::with_timeout(1h, weft::shield(read_number()));
            CHECK(timed == one);
            co_return one + three;
        };
        const int outside = co_await all();
        CHECK(outside == 0);
        const int inside = co_await number.with(4, all());
        CHECK(inside == 8);
    };
    for (const unsigned processors : {1U, 2U}) {
        weft::run(main(), {.processors = processors});
    }
}

TEST_CASE("children of a group find what their spawner has bound when it spawns them") {
    const auto main = []() -> weft::task<> {
        std::vector<int> found;
        const auto note = [](std::vector<int>& into) -> weft::task<> {
            into.push_back(co_await read_number());
        };
        const auto spawn_later = [&](weft::task_group& group) -> weft::task<> {
            group.spawn(note, std::ref(found));
            co_return;
        };
        const auto body = [&](weft::task_group& group) -> weft::task<> {
            group.spawn(note(found));
            co_await number.with(2, spawn_later(group));
            {
                const auto bound = number.bind(3);
                group.spawn(note(found));
            }
            group.spawn([&]() -> weft::task<> {
                const auto bound = number.bind(4);
                // A child that spawns a sibling, which outlives the binding.
                group.spawn(note(found));
                co_return;
            });
        };
        co_await number.with(1, weft::with_task_group(body));
        std::sort(found.begin(), found.end());
        CHECK(found == std::vector<int>{1, 2, 3, 4});
        found.clear();
        co_await weft::with_task_group(body);
        std::sort(found.begin(), found.end());
        CHECK(found == std::vector<int>{0, 2, 3, 4});
    };
    run_alone(main());
}

TEST_CASE("a spawned task inherits what its spawner has bound, and keeps it") {
    const auto main = []() -> weft::task<> {
        std::vector<weft::join_handle<int>> handles;
        {
            const auto bound = number.bind(9);
            const auto other = other_number.bind(10);
            handles.push_back(weft::co_spawn(read_number()));
            handles.push_back(weft::co_spawn([] { return read_number_deep(2); }));
            handles.push_back(
                weft::co_spawn(weft::spawn_options{.inherit_locals = false}, read_number));
            handles.push_back(weft::co_spawn([]() -> weft::task<int> {
                // Through one that only hands on.
                co_return co_await weft::co_spawn([]() -> weft::task<int> {
                    co_await weft::yield();
                    co_return number.get() + other_number.get();
                });
            }));
        }
        CHECK(number.get() == 0);
        const int first = co_await std::move(handles[0]);
        const int second = co_await std::move(handles[1]);
        const int without = co_await std::move(handles[2]);
        const int both = co_await std::move(handles[3]);
        CHECK(first == 9);
        CHECK(second == 9);
        CHECK(without == 0);
        CHECK(both == 19);
    };
    run_alone(main());
}

TEST_CASE("a binding holds for the rest of its block, whatever the coroutine awaits there") {
    const auto main = []() -> weft::task<> {
        {
            const auto first = number.bind(1);
            CHECK(number.get() == 1);
            const int seen = co_await read_number();
            CHECK(seen == 1);
            {
                const auto second = number.bind(2);
                const auto other = text.bind("some");
                co_await weft::sleep_for(1ms);
                CHECK(number.get() == 2);
                CHECK(text.get() == "some");
            }
            CHECK(number.get() == 1);
            CHECK(text.get() == "nothing");
        }
        CHECK(number.get() == 0);
    };
    run_alone(main());
}

TEST_CASE("a reference to a bound value stays good over suspensions") {
    const auto main = []() -> weft::task<> {
        const auto reads = []() -> weft::task<> {
            const std::string& held = text.get();
            const std::string* const found = text.find();
            for (int i = 0; i < 5; ++i) co_await weft::yield();
            CHECK(held == "a text that is long enough to lie on the heap");
            CHECK(found == &held);
        };
        co_await text.with("a text that is long enough to lie on the heap", reads());
    };
    run_alone(main());
}

TEST_CASE("a value is destroyed when nobody can find it any more") {
    int alive = 0;
    task_local<std::shared_ptr<counted>> held;
    const auto main = [&]() -> weft::task<> {
        weft::channel<int> may_end;
        const auto waits = [&]() -> weft::task<> {
            co_await may_end.recv();
            CHECK(held.get() != nullptr);
        };
        weft::join_handle<void> spawned;
        const auto binds = [&]() -> weft::task<> {
            spawned = weft::co_spawn(waits);
            co_return;
        };
        co_await held.with(std::make_shared<counted>(alive), binds());
        CHECK(alive == 1);
        CHECK(held.get() == nullptr);
        co_await may_end.send(1);
        co_await std::move(spawned);
        CHECK(alive == 0);
    };
    run_alone(main());
    CHECK(alive == 0);
}

TEST_CASE("what ends inside a binding still finds the value in its destructors") {
    const auto main = []() -> weft::task<> {
        int seen_in_frame = 0, seen_in_arguments = 0, seen_in_child = 0;
        const auto ends = [](notes_at_its_end, int& into) -> weft::task<> {
            const notes_at_its_end local(into);
            co_await weft::yield();
        };
        co_await number.with(6, ends(notes_at_its_end(seen_in_arguments), seen_in_frame));
        CHECK(seen_in_frame == 6);
        CHECK(seen_in_arguments == 6);
        co_await number.with(8, weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
                                 group.spawn(ends(notes_at_its_end(seen_in_child), seen_in_frame));
                                 co_return;
                             }));
        CHECK(seen_in_child == 8);
        CHECK(seen_in_frame == 8);
    };
    run_alone(main());
}

TEST_CASE("a binding lets stops and deadlines through") {
    const auto main = []() -> weft::task<> {
        int seen = 0;
        const auto waits = [](int& into) -> weft::task<> {
            const notes_at_its_end at_the_end(into);
            co_await weft::sleep_for(1h);
        };
        bool late = false;
        try {
            co_await weft::with_timeout(1ms, number.with(5, waits(seen)));
        } catch (const std::system_error& error) { late = error.code() == std::errc::timed_out; }
        CHECK(late);
        CHECK(seen == 5);
        seen = 0;
        auto handle = weft::co_spawn(number.with(6, waits(seen)));
        co_await weft::test::settle();
        handle.request_stop();
        bool stopped = false;
        try {
            co_await std::move(handle);
        } catch (const std::system_error& error) {
            stopped = error.code() == std::errc::operation_canceled;
        }
        CHECK(stopped);
        CHECK(seen == 6);
    };
    run_alone(main());
}

TEST_CASE("calls of blocking() and threads outside find nothing bound") {
    const auto main = []() -> weft::task<> {
        const auto calls = []() -> weft::task<int> {
            co_return co_await weft::blocking([] { return number.get(); });
        };
        const int inside = co_await number.with(3, calls());
        CHECK(inside == 0);
        const auto bound = number.bind(4);
        int outside = -1;
        std::thread thread([&] { outside = number.get(); });
        thread.join();
        CHECK(outside == 0);
        CHECK(number.get() == 4);
    };
    run_alone(main());
    CHECK_THROWS_AS(static_cast<void>(number.bind(1)), std::logic_error);
}

TEST_CASE("a task of one runtime hands its values to tasks that it spawns in another one") {
    int alive = 0;
    task_local<std::shared_ptr<counted>> held;
    {
        weft::runtime other({.processors = 1});
        const auto main = [&]() -> weft::task<bool> {
            const auto bound = held.bind(std::make_shared<counted>(alive));
            co_return co_await other.co_spawn([&held]() -> weft::task<bool> {
                co_await weft::yield();
                co_return held.get() != nullptr;
            });
        };
        CHECK(weft::run(main(), {.processors = 1}));
    }
    CHECK(alive == 0);
}

TEST_CASE("very many values may be bound inside each other") {
    const auto main = []() -> weft::task<> {
        struct nest {
            static weft::task<int> inside(int depth) {
                if (depth == 0) co_return number.get();
                co_return co_await number.with(depth, inside(depth - 1));
            }
        };
        int last = 0;
        weft::join_handle<int> kept;
        const auto deep = [&]() -> weft::task<> { last = co_await nest::inside(20'000); };
        co_await deep();
        CHECK(last == 1);
    };
    run_alone(main());
}

TEST_CASE("a task local that was destroyed is found by nobody, nor one that takes its place") {
    const auto main = []() -> weft::task<> {
        auto local = std::make_unique<std::optional<task_local<int>>>(std::in_place);
        weft::channel<int> may_go_on;
        const auto reads = [&]() -> weft::task<int> {
            co_await may_go_on.recv();
            co_return (*local)->get();
        };
        weft::join_handle<int> spawned;
        {
            const auto bound = (*local)->bind(5);
            spawned = weft::co_spawn(reads);
        }
        local->reset();
        local->emplace(6);  // At the same address.
        static_cast<void>((*local)->bind(7));
        co_await may_go_on.send(1);
        const int seen = co_await std::move(spawned);
        CHECK(seen == 6);
    };
    run_alone(main());
}

TEST_CASE("at the end of a runtime values go with the tasks that have them") {
    int alive = 0;
    task_local<std::shared_ptr<counted>> held;
    for (const unsigned processors : {1U, 2U}) {
        const auto main = [&]() -> weft::task<> {
            const auto waits = []() -> weft::task<> { co_await weft::shield(weft::sleep_for(1h)); };
            const auto bound = held.bind(std::make_shared<counted>(alive));
            weft::co_spawn(waits).detach();
            weft::co_spawn(held.with(std::make_shared<counted>(alive), waits())).detach();
            weft::co_spawn(
                held.with(std::make_shared<counted>(alive), weft::when_all(waits(), waits())))
                .detach();
            weft::co_spawn([&]() -> weft::task<> {
                co_await weft::with_task_group([&](weft::task_group& group) -> weft::task<> {
                    const auto inner = held.bind(std::make_shared<counted>(alive));
                    group.spawn(waits());
                    co_await waits();
                });
            }).detach();
            co_await weft::sleep_for(1ms);
        };
        weft::run(main(), {.processors = processors, .shutdown_grace = 1ms});
        CHECK(alive == 0);
    }
}

TEST_CASE("bindings that do not end in the order of their blocks are an assertion") {
#ifndef NDEBUG
    const auto result = weft::test::run_in_child([] {
        const auto main = []() -> weft::task<> {
            using binding = task_local<int>::binding;
            struct holder {
                binding bound = number.bind(1);
            };
            auto first = std::make_unique<holder>();
            const auto second = number.bind(2);
            first.reset();
            co_return;
        };
        weft::run(main(), {.processors = 1});
    });
    INFO(result.describe());
    CHECK(result.aborted_with("a binding of a task_local ended before one that was made after it"));
#endif
}
