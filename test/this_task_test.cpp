// SPDX-License-Identifier: MIT
#include <weft/this_task.hpp>

#include "support/catch.hpp"

#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <chrono>
#include <cstring>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

TEST_CASE("each task has an id of its own, which its handle knows", "[this_task]") {
    auto child = []() -> weft::task<std::uint64_t> {
        const std::uint64_t first = weft::this_task::id();
        co_await weft::yield();
        co_return first == weft::this_task::id() ? first : 0;
    };
    auto main = [](auto make) -> weft::task<bool> {
        std::set<std::uint64_t> ids{weft::this_task::id()};
        std::vector<weft::join_handle<std::uint64_t>> handles;
        for (int i = 0; i < 100; ++i) handles.push_back(weft::co_spawn(make()));
        bool same = true;
        for (auto& each : handles) {
            const std::uint64_t known = each.id();
            const std::uint64_t own = co_await std::move(each);
            same &= own == known && own != 0;
            ids.insert(own);
        }
        // An awaited task is part of its awaiter.
        same &= co_await make() == weft::this_task::id();
        co_return same&& ids.size() == 101;
    };
    CHECK(weft::run(main(child), {.processors = 4}));
}

TEST_CASE("no task has the id of one of another runtime", "[this_task]") {
    const auto own_id = []() -> weft::task<std::uint64_t> { co_return weft::this_task::id(); };
    std::set<std::uint64_t> ids;
    weft::runtime one({.processors = 1});
    weft::runtime other({.processors = 1});
    for (int i = 0; i < 100; ++i) {
        ids.insert(one.co_spawn(own_id).get());
        ids.insert(other.co_spawn(own_id).get());
    }
    ids.insert(weft::run(own_id(), {.processors = 1}));
    CHECK(ids.size() == 201);
}

TEST_CASE("the name of a task is a copy, and empty if none was given", "[this_task]") {
    auto child = []() -> weft::task<std::string> {
        co_await weft::yield();
        co_return std::string(weft::this_task::name());
    };
    auto main = [](auto make) -> weft::task<std::string> {
        std::string name = "first";
        auto named = weft::co_spawn(make(), {.name = name});
        name = "other";
        auto unnamed = weft::co_spawn(make());
        const std::string got = co_await std::move(named);
        co_return got + "," + co_await std::move(unnamed) + ",";
    };
    CHECK(weft::run(main(child), {.processors = 1}) == "first,,");
}

TEST_CASE("the spawn site is the line of the co_spawn", "[this_task]") {
    auto child = []() -> weft::task<unsigned> {
        const auto site = weft::this_task::spawn_site();
        const bool here = std::strstr(site.file_name(), "this_task_test.cpp") != nullptr;
        co_return here ? site.line() : 0;
    };
    auto main = [](auto make) -> weft::task<bool> {
        auto handle = weft::co_spawn(make()); const unsigned line = __LINE__;
        auto called = weft::co_spawn(make); const unsigned line_of_call = __LINE__;
        const bool right = co_await std::move(handle) == line;
        co_return right & (co_await std::move(called) == line_of_call);
    };
    CHECK(weft::run(main(child), {.processors = 1}));
}

TEST_CASE("stop_requested speaks of the innermost scope", "[this_task]") {
    auto late = []() -> weft::task<bool> { co_return weft::this_task::stop_requested(); };
    auto stopped = [](bool& seen) -> weft::task<> {
        const bool before = weft::this_task::stop_requested();
        try {
            co_await weft::yield();
        } catch (const std::system_error&) {
        }
        seen = !before && weft::this_task::stop_requested();
    };
    auto main = [](auto make_late, auto make_stopped) -> weft::task<bool> {
        bool good = !weft::this_task::stop_requested();
        good &= co_await weft::with_timeout(std::chrono::nanoseconds(0), make_late());
        good &= !weft::this_task::stop_requested();
        bool seen = false;
        auto handle = weft::co_spawn(make_stopped, std::ref(seen));
        co_await weft::yield();
        handle.request_stop();
        co_await std::move(handle);
        co_return good&& seen;
    };
    CHECK(weft::run(main(late, stopped), {.processors = 1}));
}

TEST_CASE("outside of a task there is nothing to ask about", "[this_task]") {
    CHECK_THROWS_AS(weft::this_task::id(), std::logic_error);
    CHECK_THROWS_AS(weft::this_task::name(), std::logic_error);
    CHECK_THROWS_AS(weft::this_task::spawn_site(), std::logic_error);
    CHECK_THROWS_AS(weft::this_task::stop_requested(), std::logic_error);
}
