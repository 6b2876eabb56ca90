// SPDX-License-Identifier: MIT
#include <weft/net/address.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <vector>

#include <net/if.h>
#include <netinet/in.h>

using weft::net::address_family;
using weft::net::endpoint;
using weft::net::ip_address;

namespace {

/// The code and the text of the exception that parsing throws.
template <class Value>
std::pair<std::error_code, std::string> parse_failure(std::string_view text) {
    try {
        const Value value = Value::parse(text);
        return {{}, value.to_string()};
    } catch (const std::system_error& error) {
        return {error.code(), error.what()};
    }
}

template <class Value>
void require_refused(std::string_view text) {
    INFO("input: " << text);
    REQUIRE_FALSE(Value::try_parse(text).has_value());
    REQUIRE(Value::try_parse(text).error() == std::errc::invalid_argument);
    REQUIRE(parse_failure<Value>(text).first == std::errc::invalid_argument);
}

}  // namespace

TEST_CASE("the constants are what their names say") {
    static_assert(ip_address() == ip_address::any_v4());
    static_assert(ip_address::any_v4().is_any() && ip_address::any_v6().is_any());
    static_assert(!ip_address::loopback_v6().is_any());
    static_assert(ip_address::loopback_v4().bytes()[0] == 127);
    REQUIRE(ip_address::any_v4().to_string() == "0.0.0.0");
    REQUIRE(ip_address::any_v6().to_string() == "::");
    REQUIRE(ip_address::loopback_v4().to_string() == "127.0.0.1");
    REQUIRE(ip_address::loopback_v6().to_string() == "::1");
    REQUIRE(ip_address::broadcast_v4().to_string() == "255.255.255.255");
    REQUIRE(endpoint().to_string() == "0.0.0.0:0");
}

TEST_CASE("an address tells its family and its bytes in the order of the wire") {
    const ip_address v4 = ip_address::parse("1.2.3.4");
    REQUIRE(v4.family() == address_family::v4);
    REQUIRE(v4.bytes().size() == 4);
    REQUIRE(std::ranges::equal(v4.bytes(), std::array<std::uint8_t, 4>{1, 2, 3, 4}));
    REQUIRE(v4.scope_id() == 0);
    const ip_address v6 = ip_address::parse("102:304:506:708:90a:b0c:d0e:f10");
    REQUIRE(v6.family() == address_family::v6);
    REQUIRE(v6.bytes().size() == 16);
    for (std::size_t i = 0; i < 16; ++i) REQUIRE(v6.bytes()[i] == i + 1);
}

TEST_CASE("IPv4 text is read and written") {
    for (const char* text : {"0.0.0.0", "1.2.3.4", "10.0.0.1", "127.0.0.1", "192.168.100.200",
                             "249.250.254.255", "255.255.255.255"}) {
        REQUIRE(ip_address::parse(text).to_string() == text);
        REQUIRE(ip_address::parse(text).is_v4());
    }
}

TEST_CASE("every IPv4 octet is read and written at every position") {
    for (unsigned octet = 0; octet < 256; ++octet) {
        for (std::size_t position = 0; position < 4; ++position) {
            ip_address::v4_bytes bytes{9, 9, 9, 9};
            bytes[position] = static_cast<std::uint8_t>(octet);
            const ip_address address(bytes);
            REQUIRE(ip_address::parse(address.to_string()) == address);
        }
    }
}

TEST_CASE("IPv6 text becomes the canonical text of RFC 5952") {
    struct row {
        const char* from;
        const char* canonical;
    };
    const row rows[] = {
        // Section 1: many spellings of one address.
        {"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
        {"2001:0db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
        {"2001:db8::1:0:0:1", "2001:db8::1:0:0:1"},
        {"2001:db8::0:1:0:0:1", "2001:db8::1:0:0:1"},
        {"2001:0db8::1:0:0:1", "2001:db8::1:0:0:1"},
        {"2001:db8:0:0:1::1", "2001:db8::1:0:0:1"},
        {"2001:db8:0000:0:1::1", "2001:db8::1:0:0:1"},
        {"2001:DB8:0:0:1::1", "2001:db8::1:0:0:1"},
        // Section 4.1: leading zeros go, a zero group is one digit.
        {"2001:0db8::0001", "2001:db8::1"},
        {"2001:0000:1:0:0001:0:1:00", "2001:0:1:0:1:0:1:0"},
        // Section 4.2.1: shortened as much as possible.
        {"2001:db8:0:0:0:0:2:1", "2001:db8::2:1"},
        {"2001:db8::0:1", "2001:db8::1"},
        // Section 4.2.2: one zero group is not shortened.
        {"2001:db8::1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
        {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
        {"::1:2:3:4:5:6:7", "0:1:2:3:4:5:6:7"},
        {"1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
        // Section 4.2.3: the longest run, and the first of equal ones.
        {"2001:0:0:1:0:0:0:1", "2001:0:0:1::1"},
        {"2001:0:0:0:1:0:0:1", "2001::1:0:0:1"},
        {"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
        {"0:0:1:0:0:1:0:0", "::1:0:0:1:0:0"},
        {"1:0:0:1:0:0:0:0", "1:0:0:1::"},
        {"0:0:1:0:0:0:1:1", "0:0:1::1:1"},
        // Section 4.3: lower case.
        {"2001:DB8:AAAA:BBBB:CCCC:DDDD:EEEE:AAA1", "2001:db8:aaaa:bbbb:cccc:dddd:eeee:aaa1"},
        // Section 5: a dotted end for IPv4-mapped addresses, and for no others.
        {"::FFFF:192.0.2.1", "::ffff:192.0.2.1"},
        {"0:0:0:0:0:ffff:c000:201", "::ffff:192.0.2.1"},
        {"::ffff:0:0", "::ffff:0.0.0.0"},
        {"64:ff9b::192.0.2.33", "64:ff9b::c000:221"},
        {"1:2:3:4:5:6:7.8.9.10", "1:2:3:4:5:6:708:90a"},
        {"::192.0.2.1", "::c000:201"},
        {"::0.0.0.1", "::1"},
        {"::1:0", "::1:0"},
        {"::fffe:1.2.3.4", "::fffe:102:304"},
        {"::ffff:0:1.2.3.4", "::ffff:0:102:304"},
        // The ends of the range.
        {"0:0:0:0:0:0:0:0", "::"},
        {"::", "::"},
        {"::0", "::"},
        {"0::", "::"},
        {"::1", "::1"},
        {"1::", "1::"},
        {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
        // A scope follows as a number.
        {"fe80::1%2", "fe80::1%2"},
        {"FE80::0%4294967295", "fe80::%4294967295"},
        {"fe80::1%0", "fe80::1"},
        {"::ffff:1.2.3.4%7", "::ffff:1.2.3.4%7"},
    };
    for (const row& each : rows) {
        INFO("from: " << each.from);
        const ip_address address = ip_address::parse(each.from);
        REQUIRE(address.is_v6());
        REQUIRE(address.to_string() == each.canonical);
        REQUIRE(ip_address::parse(each.canonical) == address);
    }
}

TEST_CASE("every pattern of zero groups is written as RFC 5952 asks and read back") {
    for (unsigned pattern = 0; pattern < 256; ++pattern) {
        ip_address::v6_bytes bytes{};
        for (std::size_t group = 0; group < 8; ++group) {
            if ((pattern >> group & 1) != 0) bytes[2 * group + 1] = 1;
        }
        const ip_address address(bytes);
        const std::string text = address.to_string();
        INFO(text);
        REQUIRE(ip_address::parse(text) == address);
        // What must not stand beside a "::": a run of zero groups longer than the one it replaces.
        std::size_t longest = 0;
        for (std::size_t first = 0; first < 8; ++first) {
            std::size_t length = 0;
            while (first + length < 8 && (pattern >> (first + length) & 1) == 0) ++length;
            longest = std::max(longest, length);
        }
        REQUIRE((text.find("::") != text.npos) == (longest >= 2));
        const auto colons = std::count(text.begin(), text.end(), ':');
        if (longest < 2) REQUIRE(colons == 7);
    }
}

TEST_CASE("malformed addresses are refused") {
    const char* inputs[] = {
        "",
        " ",
        ".",
        "1",
        "1.2",
        "1.2.3",
        "1.2.3.",
        "1.2.3.4.",
        "1.2.3.4.5",
        ".1.2.3",
        "1..2.3",
        "256.0.0.1",
        "1.2.3.256",
        "1.2.3.999999999999",
        "01.2.3.4",
        "1.2.3.00",
        "1.2.3.04",
        "+1.2.3.4",
        "-1.2.3.4",
        "1.2.3.4 ",
        " 1.2.3.4",
        "1.2.3.4\n",
        "0x7f.0.0.1",
        "1.2.3.a",
        "a.2.3.4",
        "1,2,3,4",
        "127.1",
        "2130706433",
        "localhost",
        "1.2.3.4%1",
        "1.2.3.4:80",
        "[1.2.3.4]",
        ":",
        ":::",
        "::::",
        "1:",
        ":1",
        "1:2",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:",
        ":1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:",
        "1:2:3:4:5:6:7:8:9",
        "1::2:3:4:5:6:7:8",
        "1:2:3:4::5:6:7:8",
        "1:2:3:4:5:6:7:8::",
        "::1:2:3:4:5:6:7:8",
        "1::2::3",
        "::1::",
        "1:::2",
        "12345::",
        "::12345",
        "::g",
        "g::",
        "::1 ",
        " ::1",
        "::-1",
        "::+1",
        "::0x1",
        "::1.2.3",
        "::1.2.3.4.5",
        "::1.2.3.256",
        "::1.2.3.4:1",
        "1.2.3.4::",
        "1:2:3:4:5:6:7:1.2.3.4",
        "1:2:3:4:5:1.2.3.4",
        "::01.2.3.4",
        "1:2:3:4:5:6:7:8:1.2.3.4",
        "::1.2.3.4::",
        "::a.2.3.4",
        "::1.",
        "::.1",
        "[::1]",
        "[::1",
        "::1]",
        "[::1]:80",
        "::1%",
        "::1%4294967296",
        "::1%99999999999",
        "fe80::1%1]",
        "%1",
        "%lo",
        "::1/128",
        "10.0.0.0/8",
        "::ffff:1.2.3.4:80",
    };
    for (const char* input : inputs) {
        require_refused<ip_address>(input);
    }
    require_refused<ip_address>(std::string_view("1.2.3.4\0", 8));
    require_refused<ip_address>(std::string_view("::1\0", 4));
    require_refused<ip_address>(std::string_view("\0", 1));
    require_refused<ip_address>(std::string(100000, ':'));
    require_refused<ip_address>(std::string(100000, '1'));
    require_refused<ip_address>("::1%" + std::string(100000, '9'));
    require_refused<ip_address>("::1%" + std::string(16, 'x'));
}

TEST_CASE("a scope is looked up among the network interfaces") {
    const unsigned loopback = ::if_nametoindex("lo");
    REQUIRE(loopback != 0);
    const ip_address address = ip_address::parse("fe80::1%lo");
    REQUIRE(address.scope_id() == loopback);
    REQUIRE(address.to_string() == "fe80::1%" + std::to_string(loopback));
    REQUIRE(endpoint::parse("[fe80::1%lo]:80").address() == address);
    REQUIRE(address != ip_address::parse("fe80::1"));
}

TEST_CASE("an unknown network interface has an error of its own that names it") {
    const auto [code, text] = parse_failure<ip_address>("fe80::1%no-such-link");
    REQUIRE(code == std::errc::no_such_device);
    REQUIRE(text.find("fe80::1%no-such-link") != std::string::npos);
    REQUIRE(ip_address::try_parse("fe80::1%no-such-link").error() == std::errc::no_such_device);
    // A zero byte ends no name: this is not "lo".
    const std::string_view with_zero("fe80::1%lo\0x", 12);
    REQUIRE(ip_address::try_parse(with_zero).error() == std::errc::no_such_device);
}

TEST_CASE("a message names the input, the reason and the place") {
    struct row {
        const char* input;
        const char* reason;
        const char* place;
    };
    const row addresses[] = {
        {"10.0.0.256", "at most 255", "at character 8, \"2\""},
        {"10.0.07.1", "no leading zero", "at character 6, \"0\""},
        {"10.0.0", "four parts", "at the end"},
        {"10.0.0.1x", "nothing may follow", "at character 9, \"x\""},
        {"example.org", "host names are not resolved", "at character 1, \"e\""},
        {"", "host names are not resolved", "at the end"},
        {"2001:db8::1::2", "only once", "at character 12, \":\""},
        {"2001:db8:12345::", "at most four digits", "at character 10, \"1\""},
        {"1:2:3:4:5:6:7", "eight groups", "at the end"},
        {"1:2:3:4:5:6:7:8:9", "at most eight groups", "at character 16, \":\""},
        {"1:2:3:4::5:6:7:8", "beside eight groups", "at character 8, \":\""},
        {"::1:", "hexadecimal digit", "at the end"},
        {"::1.2.3.4:5", "must be the end", "at character 10, \":\""},
        {"1:2:3:4:5:6:7:1.2.3.4", "no room", "at character 15, \"1\""},
        {"fe80::1%", "interface's name or number", "at the end"},
    };
    for (const row& each : addresses) {
        const auto [code, text] = parse_failure<ip_address>(each.input);
        INFO(text);
        REQUIRE(code == std::errc::invalid_argument);
        REQUIRE(text.find("\"" + std::string(each.input) + "\" is no IP address") == 0);
        REQUIRE(text.find(each.reason) != std::string::npos);
        REQUIRE(text.find(each.place) != std::string::npos);
    }
    const row endpoints[] = {
        {"10.0.0.1:65536", "at most 65535", "at character 10, \"6\""},
        {"10.0.0.1", "a colon and a port", "at the end"},
        {"10.0.0.1:", "decimal number", "at the end"},
        {"10.0.0.1:http", "decimal number", "at character 10, \"h\""},
        {"::1:80", "in brackets", "at character 1, \":\""},
        {"[::1:80", "closing bracket", "at the end"},
        {"[::1]80", "a colon and a port", "at character 6, \"8\""},
        {"localhost:80", "host names are not resolved", "at character 1, \"l\""},
    };
    for (const row& each : endpoints) {
        const auto [code, text] = parse_failure<endpoint>(each.input);
        INFO(text);
        REQUIRE(code == std::errc::invalid_argument);
        REQUIRE(text.find("\"" + std::string(each.input) + "\" is no endpoint") == 0);
        REQUIRE(text.find(each.reason) != std::string::npos);
        REQUIRE(text.find(each.place) != std::string::npos);
    }
}

TEST_CASE("a message shows bytes that cannot be printed and is never long") {
    const std::string control = parse_failure<ip_address>("1.2.3.4\n\x1b\xff").second;
    INFO(control);
    REQUIRE(control.find("\"1.2.3.4\\x0a\\x1b\\xff\"") == 0);
    REQUIRE(control.find('\x1b') == std::string::npos);
    const std::string huge = parse_failure<endpoint>(std::string(1'000'000, '1')).second;
    REQUIRE(huge.size() < 400);
    REQUIRE(huge.find("...\"") != std::string::npos);
}

TEST_CASE("endpoints are read and written") {
    struct row {
        const char* from;
        const char* canonical;
    };
    const row rows[] = {
        {"127.0.0.1:80", "127.0.0.1:80"},
        {"0.0.0.0:0", "0.0.0.0:0"},
        {"255.255.255.255:65535", "255.255.255.255:65535"},
        {"[::1]:80", "[::1]:80"},
        {"[::]:0", "[::]:0"},
        {"[2001:DB8:0:0:0:0:0:1]:65535", "[2001:db8::1]:65535"},
        {"[::ffff:1.2.3.4]:443", "[::ffff:1.2.3.4]:443"},
        {"[fe80::1%3]:22", "[fe80::1%3]:22"},
    };
    for (const row& each : rows) {
        const endpoint where = endpoint::parse(each.from);
        REQUIRE(where.to_string() == each.canonical);
        REQUIRE(endpoint::parse(each.canonical) == where);
    }
    REQUIRE(endpoint::parse("[::1]:80").address() == ip_address::loopback_v6());
    REQUIRE(endpoint::parse("[::1]:80").port() == 80);
}

TEST_CASE("every port is read and written") {
    for (unsigned port = 0; port <= 65535; ++port) {
        const endpoint where(ip_address::loopback_v4(), static_cast<std::uint16_t>(port));
        const std::string text = "127.0.0.1:" + std::to_string(port);
        if (where.to_string() != text) FAIL(text << " is written as " << where.to_string());
        const auto read = endpoint::try_parse(text);
        if (!read.has_value() || *read != where) FAIL(text << " is not read back");
    }
}

TEST_CASE("malformed endpoints are refused") {
    const char* inputs[] = {
        "",
        ":",
        ":80",
        "80",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:-1",
        "127.0.0.1:+1",
        "127.0.0.1: 80",
        "127.0.0.1:80 ",
        " 127.0.0.1:80",
        "127.0.0.1:080",
        "127.0.0.1:00",
        "127.0.0.1:65536",
        "127.0.0.1:65540",
        "127.0.0.1:70000",
        "127.0.0.1:100000",
        "127.0.0.1:4294967296",
        "127.0.0.1:18446744073709551616",
        "127.0.0.1:0x50",
        "127.0.0.1:http",
        "127.0.0.1:80:80",
        "127.0.0.1::80",
        "[127.0.0.1]:80",
        "::1:80",
        "::1",
        "[::1]",
        "[::1]:",
        "[::1]80",
        "[::1]:65536",
        "[::1]:-1",
        "[::1",
        "[::1:80",
        "::1]:80",
        "[]:80",
        "[:80",
        "[[::1]]:80",
        "[::1]:80]",
        "[::1%]:80",
        "[::g]:80",
        "[::1]]:80",
        "localhost:80",
        "*:80",
        "127.0.0.256:80",
        "127.0.0:80",
        "127.0.0.1/8:80",
    };
    for (const char* input : inputs) require_refused<endpoint>(input);
    require_refused<endpoint>(std::string_view("1.2.3.4:80\0", 11));
    require_refused<endpoint>("1.2.3.4:" + std::string(100000, '9'));
}

TEST_CASE("the kinds of addresses are told apart at the ends of their ranges") {
    const auto address = [](const char* text) { return ip_address::parse(text); };
    for (const char* text : {"127.0.0.0", "127.255.255.255", "::1", "::ffff:127.0.0.1"}) {
        REQUIRE(address(text).is_loopback());
    }
    for (const char* text : {"126.255.255.255", "128.0.0.0", "::", "::2", "::ffff:128.0.0.1"}) {
        REQUIRE_FALSE(address(text).is_loopback());
    }
    for (const char* text :
         {"224.0.0.0", "239.255.255.255", "ff00::", "ffff::", "::ffff:224.0.0.1"}) {
        REQUIRE(address(text).is_multicast());
    }
    for (const char* text : {"223.255.255.255", "240.0.0.0", "feff::", "::ffff:240.0.0.1"}) {
        REQUIRE_FALSE(address(text).is_multicast());
    }
    for (const char* text :
         {"169.254.0.0", "169.254.255.255", "fe80::", "febf:ffff::1", "::ffff:169.254.1.1"}) {
        REQUIRE(address(text).is_link_local());
    }
    for (const char* text : {"169.253.255.255", "169.255.0.0", "fe7f::", "fec0::"}) {
        REQUIRE_FALSE(address(text).is_link_local());
    }
    REQUIRE_FALSE(address("::ffff:0:0").is_any());
}

TEST_CASE("an IPv4 address and its IPv4-mapped form convert into each other") {
    const ip_address v4 = ip_address::parse("192.0.2.1");
    const ip_address mapped = ip_address::parse("::ffff:192.0.2.1");
    REQUIRE(v4 != mapped);
    REQUIRE(v4.mapped() == mapped);
    REQUIRE(mapped.unmapped() == v4);
    REQUIRE(mapped.is_v4_mapped());
    REQUIRE_FALSE(v4.is_v4_mapped());
    REQUIRE(v4.unmapped() == v4);
    REQUIRE(mapped.mapped() == mapped);
    for (const char* text :
         {"::", "::1", "::fffe:1.2.3.4", "1::ffff:1.2.3.4", "::ffff:0:1.2.3.4"}) {
        REQUIRE_FALSE(ip_address::parse(text).is_v4_mapped());
        REQUIRE(ip_address::parse(text).unmapped() == ip_address::parse(text));
    }
}

TEST_CASE("addresses and endpoints are ordered by family, bytes, scope and port") {
    const char* in_order[] = {
        "0.0.0.0",   "1.2.3.4", "1.2.3.5", "1.2.4.0", "255.255.255.255", "::",
        "::1",       "::1%1",   "::1%2",   "::2",     "::ffff:0.0.0.0",  "1::",
        "fe80::1%1", "ff::",    "ff02::1"};
    std::vector<ip_address> addresses;
    for (const char* text : in_order) addresses.push_back(ip_address::parse(text));
    std::swap(addresses[12], addresses[13]);  // ff:: (00ff) comes before fe80::
    for (std::size_t i = 0; i < addresses.size(); ++i) {
        for (std::size_t j = 0; j < addresses.size(); ++j) {
            INFO(addresses[i] << " and " << addresses[j]);
            REQUIRE((addresses[i] <=> addresses[j]) == (i <=> j));
            REQUIRE((addresses[i] == addresses[j]) == (i == j));
            REQUIRE((endpoint(addresses[i], 1) < endpoint(addresses[j], 0)) == (i < j));
        }
    }
    REQUIRE(endpoint(addresses[0], 1) < endpoint(addresses[0], 2));
}

TEST_CASE("equal values hash alike and different ones are spread") {
    REQUIRE(std::hash<ip_address>()(ip_address::parse("::1")) ==
            std::hash<ip_address>()(ip_address::parse("0:0:0:0:0:0:0:1")));
    // Neighbours, as peers of a server are: no two alike in 32 bits, and every low byte is used.
    std::unordered_set<std::size_t> hashes;
    std::set<std::size_t> low_bytes;
    for (unsigned host = 0; host < 16; ++host) {
        for (unsigned port = 0; port < 1024; ++port) {
            const ip_address address(
                ip_address::v4_bytes{10, 0, 0, static_cast<std::uint8_t>(host)});
            const std::size_t hash =
                std::hash<endpoint>()(endpoint(address, static_cast<std::uint16_t>(port)));
            hashes.insert(hash);
            low_bytes.insert(hash & 0xff);
        }
    }
    REQUIRE(hashes.size() == 16 * 1024);
    REQUIRE(low_bytes.size() == 256);
    REQUIRE(std::hash<ip_address>()(ip_address::parse("::1%1")) !=
            std::hash<ip_address>()(ip_address::parse("::1%2")));
    REQUIRE(std::hash<ip_address>()(ip_address::any_v4()) !=
            std::hash<ip_address>()(ip_address::any_v6()));
    std::unordered_set<endpoint> set{endpoint::parse("[::1]:80"), endpoint::parse("[0::1]:80")};
    REQUIRE(set.size() == 1);
}

TEST_CASE("an endpoint becomes a socket address and comes back") {
    sockaddr_storage storage;
    const endpoint v4 = endpoint::parse("1.2.3.4:258");
    REQUIRE(v4.to_sockaddr(storage) == sizeof(sockaddr_in));
    const auto& in = reinterpret_cast<const sockaddr_in&>(storage);
    REQUIRE(in.sin_family == AF_INET);
    REQUIRE(in.sin_port == htons(258));
    REQUIRE(in.sin_addr.s_addr == htonl(0x01020304));
    REQUIRE(endpoint::from_sockaddr(storage, sizeof(sockaddr_in)).value() == v4);

    const endpoint v6 = endpoint::parse("[fe80::1%7]:65535");
    REQUIRE(v6.to_sockaddr(storage) == sizeof(sockaddr_in6));
    const auto& in6 = reinterpret_cast<const sockaddr_in6&>(storage);
    REQUIRE(in6.sin6_family == AF_INET6);
    REQUIRE(in6.sin6_port == 0xffff);
    REQUIRE(in6.sin6_scope_id == 7);
    REQUIRE(in6.sin6_flowinfo == 0);
    REQUIRE(in6.sin6_addr.s6_addr[0] == 0xfe);
    REQUIRE(in6.sin6_addr.s6_addr[15] == 1);
    REQUIRE(endpoint::from_sockaddr(storage, sizeof(sockaddr_in6)).value() == v6);
    // What the kernel hands back may be counted larger than the address itself.
    REQUIRE(endpoint::from_sockaddr(storage, sizeof storage).value() == v6);
}

TEST_CASE("a socket address that is short or of another family is refused") {
    sockaddr_storage storage;
    endpoint::parse("1.2.3.4:80").to_sockaddr(storage);
    const auto code = [&storage](socklen_t size) {
        return endpoint::from_sockaddr(storage, size).error();
    };
    REQUIRE(code(0) == std::errc::address_family_not_supported);
    REQUIRE(code(1) == std::errc::address_family_not_supported);
    REQUIRE(code(sizeof(sockaddr_in) - 1) == std::errc::invalid_argument);
    endpoint::parse("[::1]:80").to_sockaddr(storage);
    REQUIRE(code(sizeof(sockaddr_in)) == std::errc::invalid_argument);
    storage.ss_family = AF_UNIX;
    REQUIRE(code(sizeof storage) == std::errc::address_family_not_supported);
    storage.ss_family = AF_UNSPEC;
    REQUIRE(code(sizeof storage) == std::errc::address_family_not_supported);
}

TEST_CASE("an address and an endpoint go to a stream as their text") {
    std::ostringstream out;
    out << ip_address::loopback_v6() << ' ' << endpoint(ip_address::loopback_v6(), 80);
    REQUIRE(out.str() == "::1 [::1]:80");
}

TEST_CASE("no text is longer than max_text_size, and the longest one is that long") {
    ip_address::v6_bytes bytes;
    bytes.fill(0xff);
    const ip_address longest(bytes, 0xffffffff);
    REQUIRE(longest.to_string().size() == ip_address::max_text_size);
    REQUIRE(endpoint(longest, 65535).to_string().size() == endpoint::max_text_size);
}
