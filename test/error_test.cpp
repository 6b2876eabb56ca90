// SPDX-License-Identifier: MIT
#include <weft/error.hpp>

#include "support/catch.hpp"

#include <set>
#include <string>

namespace {

constexpr weft::errc all_values[] = {weft::errc::unexpected_eof, weft::errc::stopped,
                                     weft::errc::closed};

}  // namespace

TEST_CASE("a weft::errc becomes an error code of the category weft") {
    const std::error_code code = weft::errc::unexpected_eof;
    REQUIRE(code);
    REQUIRE(code.value() == 1);
    REQUIRE(code.category() == weft::weft_category());
    REQUIRE(std::string(code.category().name()) == "weft");
    REQUIRE(code == weft::errc::unexpected_eof);
    REQUIRE(code != weft::errc::closed);
}

TEST_CASE("no weft::errc equals an error of the system with the same number") {
    for (const weft::errc value : all_values) {
        const std::error_code code = value;
        REQUIRE(code != std::error_code(code.value(), std::system_category()));
        REQUIRE(code != std::error_code(code.value(), std::generic_category()));
    }
}

TEST_CASE("each weft::errc has a message of its own that also says what to do") {
    std::set<std::string> messages;
    const std::string unknown = weft::weft_category().message(12345);
    for (const weft::errc value : all_values) {
        const std::string message = make_error_code(value).message();
        INFO(message);
        REQUIRE(message != unknown);
        REQUIRE(message.find(';') != std::string::npos);
        messages.insert(message);
    }
    REQUIRE(messages.size() == std::size(all_values));
}

TEST_CASE("a number that is no weft::errc has a message too") {
    REQUIRE(weft::weft_category().message(0).find("unknown") != std::string::npos);
    REQUIRE(weft::weft_category().message(-1).find("unknown") != std::string::npos);
}

TEST_CASE(
    "a stopped runtime counts as a cancelled operation, a closed object as a bad descriptor") {
    REQUIRE(make_error_code(weft::errc::stopped) == std::errc::operation_canceled);
    REQUIRE(make_error_code(weft::errc::closed) == std::errc::bad_file_descriptor);
    REQUIRE(make_error_code(weft::errc::unexpected_eof) != std::errc::operation_canceled);
    REQUIRE(make_error_code(weft::errc::unexpected_eof) != std::errc::bad_file_descriptor);
}
