// SPDX-License-Identifier: MIT
#include <weft/net/address_format.hpp>

#include "support/catch.hpp"

#include <string>

using weft::net::endpoint;
using weft::net::ip_address;

TEST_CASE("fmt writes addresses and endpoints as their canonical text") {
    REQUIRE(fmt::format("{}", ip_address::loopback_v4()) == "127.0.0.1");
    REQUIRE(fmt::format("{}", ip_address::parse("2001:DB8:0:0:0:0:0:1")) == "2001:db8::1");
    REQUIRE(fmt::format("{} -> {}", endpoint::parse("1.2.3.4:5"), endpoint::parse("[::1]:80")) ==
            "1.2.3.4:5 -> [::1]:80");
    REQUIRE(fmt::format("{}", endpoint::parse("[fe80::1%2]:80")) == "[fe80::1%2]:80");
}

TEST_CASE("fmt pads addresses and endpoints like strings") {
    REQUIRE(fmt::format("{:>8}|", ip_address::loopback_v6()) == "     ::1|");
    REQUIRE(fmt::format("{:<8}|", ip_address::loopback_v6()) == "::1     |");
    REQUIRE(fmt::format("{:*^14}", endpoint::parse("[::1]:80")) == "***[::1]:80***");
    REQUIRE(fmt::format("{:>{}}", ip_address::loopback_v6(), 5) == "  ::1");
}
