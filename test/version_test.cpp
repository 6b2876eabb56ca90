// SPDX-License-Identifier: MIT
#include <weft/version.hpp>

#include "support/catch.hpp"

#include <string>

TEST_CASE("the version of the headers is the version of the project") {
    REQUIRE(weft::version == WEFT_TEST_PROJECT_VERSION);
}

TEST_CASE("the version macros and the version text agree") {
    const std::string text = std::to_string(WEFT_VERSION_MAJOR) + "." +
                             std::to_string(WEFT_VERSION_MINOR) + "." +
                             std::to_string(WEFT_VERSION_PATCH);
    REQUIRE(weft::version == text);
}
