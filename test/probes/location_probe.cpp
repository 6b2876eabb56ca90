// SPDX-License-Identifier: MIT
//
// What weft expects of std::source_location: a default argument tells where a co_await or a spawn
// stands, at the cost of one pointer.
#include "probe.hpp"

#include <source_location>
#include <string_view>
#include <utility>

using namespace weft::probe;

namespace {

std::source_location awaited_at;
std::source_location spawned_at;

/// await_transform in a base, as the promises of all task<T> share it.
struct locating_base {
    template <class Awaitable>
    Awaitable&& await_transform(
        Awaitable&& awaitable,
        std::source_location where = std::source_location::current()) noexcept {
        awaited_at = where;
        return std::forward<Awaitable>(awaitable);
    }
};

struct locating_promise : locating_base, basic_promise<locating_promise> {};

int note_spawn(std::source_location where = std::source_location::current()) {
    spawned_at = where;
    return 1;
}

unsigned expected_line = 0;
int right = 0;

void compare(std::string_view function) {
    right +=
        awaited_at.line() == expected_line &&
        std::string_view(awaited_at.function_name()).find(function) != std::string_view::npos &&
        std::string_view(awaited_at.file_name()).find("location_probe") != std::string_view::npos;
}

owner<locating_promise> first_located_function() {
    expected_line = __LINE__ + 1;
    co_await give<int>(1, false);
    compare("first_located_function");
    for (int i = 0; i < 2; ++i) {
        expected_line = __LINE__ + 1;
        const int value = co_await give<int>(i, false);
        if (value == i) compare("first_located_function");
    }
}

template <class T>
owner<locating_promise> located_template(T value) {
    expected_line = __LINE__ + 1;
    co_await give<T>(value, false);
    compare("located_template");
}

struct located_class {
    owner<locating_promise> located_member() {
        expected_line = __LINE__ + 1;
        co_await give<int>(1, false);
        compare("located_member");
    }
};

owner<locating_promise> spawning_function() {
    co_await give<int>(1, false);
    expected_line = __LINE__ + 1;
    note_spawn();
    awaited_at = spawned_at;
    compare("spawning_function");
}

owner<locating_promise> await_over_two_lines() {
    expected_line = __LINE__ + 1;
    co_await give<int>(note_spawn(), false);
    const unsigned last_line = expected_line + 1;
    right += awaited_at.line() >= expected_line && awaited_at.line() <= last_line;
}

void run(owner<locating_promise> made) {
    made.handle().resume();
}

}  // namespace

TEST_CASE("a default argument of await_transform tells the line and function of the co_await") {
    INFO("If this fails, weft's dumps and reports show wrong places; nothing else is affected.");
    right = 0;
    run(first_located_function());
    CHECK(right == 3);
    run(located_template(1L));
    CHECK(right == 4);
    run(located_class().located_member());
    CHECK(right == 5);
    run(await_over_two_lines());
    CHECK(right == 6);
}

TEST_CASE("a default argument of a function called in a coroutine tells the line and function") {
    INFO("If this fails, weft reports wrong spawn sites; nothing else is affected.");
    right = 0;
    run(spawning_function());
    CHECK(right == 1);
}

TEST_CASE("a source_location is as large as a pointer and trivially copied") {
    INFO("If this fails, each frame of weft is larger than it says.");
    CHECK(sizeof(std::source_location) == sizeof(void*));
    CHECK(std::is_trivially_copyable_v<std::source_location>);
    CHECK(std::is_trivially_destructible_v<std::source_location>);
}
