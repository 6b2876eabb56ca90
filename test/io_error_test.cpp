// SPDX-License-Identifier: MIT
#include <weft/io_error.hpp>

#include <weft/error.hpp>

#include "support/catch.hpp"

#include <string>

TEST_CASE("an io_error tells the code, the bytes moved, and the operation") {
    const weft::io_error error(std::make_error_code(std::errc::connection_reset), 4096,
                               "write_all to 10.0.0.7:80");
    REQUIRE(error.code() == std::errc::connection_reset);
    REQUIRE(error.transferred() == 4096);
    const std::string text = error.what();
    INFO(text);
    REQUIRE(text.find("write_all to 10.0.0.7:80 failed after 4096 bytes") == 0);
    REQUIRE(text.find(std::make_error_code(std::errc::connection_reset).message()) !=
            std::string::npos);
}

TEST_CASE("an io_error is caught as a std::system_error and keeps its count when copied") {
    try {
        throw weft::io_error(weft::errc::unexpected_eof, 1, "read_exact");
    } catch (const std::system_error& error) {
        REQUIRE(error.code() == weft::errc::unexpected_eof);
        REQUIRE(std::string(error.what()).find("read_exact failed after 1 byte:") == 0);
        const auto copy = dynamic_cast<const weft::io_error&>(error);
        REQUIRE(copy.transferred() == 1);
    }
}

TEST_CASE("an io_error without progress says so") {
    const weft::io_error error(weft::errc::closed, 0, "write_all");
    REQUIRE(error.transferred() == 0);
    REQUIRE(std::string(error.what()).find("failed after 0 bytes") != std::string::npos);
}
