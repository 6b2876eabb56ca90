// SPDX-License-Identifier: MIT
#include <weft/result.hpp>

#include <weft/error.hpp>

#include "support/catch.hpp"

#include <memory>
#include <string>
#include <type_traits>

namespace {

weft::result<int> half(int value) {
    if (value % 2 != 0) {
        return weft::failure(std::make_error_code(std::errc::invalid_argument));
    }
    return value / 2;
}

}  // namespace

TEST_CASE("a result is tl::expected with an error code, whatever the language version") {
    static_assert(std::is_same_v<weft::result<int>, tl::expected<int, std::error_code>>);
    static_assert(std::is_same_v<weft::result<void>, tl::expected<void, std::error_code>>);
    REQUIRE(half(4) == 2);
    REQUIRE(half(3).error() == std::errc::invalid_argument);
}

TEST_CASE("a failure takes a weft::errc as it is") {
    const weft::result<void> stopped = weft::failure(weft::errc::stopped);
    REQUIRE_FALSE(stopped.has_value());
    REQUIRE(stopped.error() == weft::errc::stopped);
}

TEST_CASE("the value of a result that failed throws the error that it holds") {
    try {
        (void)half(5).value();
        FAIL("value() of a failed result returned");
    } catch (const tl::bad_expected_access<std::error_code>& error) {
        REQUIRE(error.error() == std::errc::invalid_argument);
    }
}

#if defined(__cpp_lib_expected) && __cpp_lib_expected >= 202202L

TEST_CASE("to_std gives the same value as a std::expected") {
    REQUIRE(weft::to_std(half(4)).value() == 2);
    REQUIRE(weft::to_std(half(3)).error() == std::errc::invalid_argument);
    REQUIRE(weft::to_std(weft::result<void>()).has_value());
    REQUIRE(weft::to_std(weft::result<void>(weft::failure(weft::errc::closed))).error() ==
            weft::errc::closed);
}

TEST_CASE("to_std moves a value that can only be moved, and copies from a named result") {
    auto moved = weft::to_std(weft::result<std::unique_ptr<int>>(std::make_unique<int>(7)));
    REQUIRE(**moved == 7);
    const weft::result<std::string> named = std::string(100, 'x');
    REQUIRE(*weft::to_std(named) == std::string(100, 'x'));
    REQUIRE(named->size() == 100);
}

#endif
