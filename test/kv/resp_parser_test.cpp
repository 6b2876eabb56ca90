// SPDX-License-Identifier: MIT
#include "resp_parser.hpp"

#include "parser_support.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using kv::parse_status;
using kv::parser_limits;
using kv::test::encode;
using kv::test::parse_at_once;
using kv::test::parse_byte_by_byte;
using kv::test::parse_in_pieces;
using kv::test::parse_outcome;
using kv::test::request;

using requests = std::vector<request>;

parse_outcome complete(requests expected) {
    return {std::move(expected), "", 0};
}
parse_outcome malformed(std::string error) {
    return {{}, "Protocol error: " + error, 0};
}

std::string all_bytes() {
    std::string bytes;
    for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
    return bytes;
}

/// Everything that a stream can hold, in one.
std::string mixed_stream() {
    return encode({"SET", "key", all_bytes()}) + "PING\r\n" + encode({"GET", ""}) +
           "set \"a b\\x41\\n\" 'it\\'s'\n" + "*0\r\n\r\n*-1\r\n" + encode({"DEL", "a", "b", "c"}) +
           "  echo   foo\"bar\"  \r\n" + encode({std::string(3000, 'x')});
}

requests mixed_requests() {
    return {{"SET", "key", all_bytes()},
            {"PING"},
            {"GET", ""},
            {"set", "a bA\n", "it's"},
            {},
            {},
            {},
            {"DEL", "a", "b", "c"},
            {"echo", "foobar"},
            {std::string(3000, 'x')}};
}

/// The stream is malformed in the same way however it is cut.
void check_malformed(const std::string& stream, const std::string& error,
                     const parser_limits& limits = {}) {
    INFO("stream: " << stream.substr(0, 100));
    CHECK(parse_at_once(stream, limits) == malformed(error));
    CHECK(parse_byte_by_byte(stream, limits) == malformed(error));
}

void check_complete(const std::string& stream, const requests& expected,
                    const parser_limits& limits = {}) {
    INFO("stream: " << stream.substr(0, 100));
    CHECK(parse_at_once(stream, limits) == complete(expected));
    CHECK(parse_byte_by_byte(stream, limits) == complete(expected));
}

}  // namespace

TEST_CASE("kv parser: one request in one piece") {
    check_complete("*1\r\n$4\r\nPING\r\n", {{"PING"}});
    check_complete("*2\r\n$3\r\nGET\r\n$0\r\n\r\n", {{"GET", ""}});
    check_complete(encode({"SET", "k", all_bytes()}), {{"SET", "k", all_bytes()}});
}

TEST_CASE("kv parser: a request with no arguments is complete and empty") {
    check_complete("*0\r\n", {{}});
    check_complete("*-1\r\n", {{}});
    check_complete("*-9223372036854775808\r\n", {{}});
    check_complete("\r\n", {{}});
    check_complete("\n", {{}});
    check_complete("  \t \r\n", {{}});
}

TEST_CASE("kv parser: arguments are views into the buffer, nothing is copied") {
    std::string stream = encode({"SET", "key", "value"});
    kv::resp_parser parser;
    REQUIRE(parser.parse(stream) == parse_status::complete);
    CHECK(parser.consumed() == stream.size());
    for (const std::string_view argument : parser.arguments()) {
        CHECK(argument.data() > stream.data());
        CHECK(argument.data() + argument.size() < stream.data() + stream.size());
    }
    std::string line = "set 'a key' value\r\n";
    REQUIRE(parser.parse(line) == parse_status::complete);
    CHECK(parser.consumed() == line.size());
    REQUIRE(parser.arguments().size() == 3);
    CHECK(parser.arguments()[2].data() == line.data() + 12);
}

TEST_CASE("kv parser: a stream split at every byte position gives the same requests") {
    const std::string stream = mixed_stream();
    const parse_outcome expected = complete(mixed_requests());
    REQUIRE(parse_at_once(stream) == expected);
    for (std::size_t cut = 1; cut < stream.size(); ++cut) {
        bool first = true;
        const auto outcome = parse_in_pieces(
            stream, {}, [&](std::size_t left) { return std::exchange(first, false) ? cut : left; });
        if (outcome != expected) FAIL("split at byte " << cut);
    }
    CHECK(parse_byte_by_byte(stream) == expected);
}

TEST_CASE("kv parser: random splits give the same requests") {
    const std::string stream = mixed_stream();
    const parse_outcome expected = complete(mixed_requests());
    for (unsigned seed = 0; seed < 300; ++seed) {
        std::mt19937 random(seed);
        std::uniform_int_distribution<std::size_t> size(1, 1 + seed % 50);
        const auto outcome = parse_in_pieces(
            stream, {}, [&](std::size_t left) { return std::min(left, size(random)); });
        if (outcome != expected) FAIL("seed " << seed);
    }
}

TEST_CASE("kv parser: a prefix of a request is incomplete, whatever its length") {
    const std::string stream = encode({"SET", "key", "value"});
    for (std::size_t size = 0; size < stream.size(); ++size) {
        kv::resp_parser parser;
        std::string prefix = stream.substr(0, size);
        CHECK(parser.parse(prefix) == parse_status::incomplete);
        CHECK(parser.least_size() > size);
        CHECK(parser.least_size() <= stream.size());
    }
}

TEST_CASE("kv parser: an announced bulk is known before it arrives") {
    kv::resp_parser parser;
    std::string head = "*1\r\n$1000\r\n";
    REQUIRE(parser.parse(head) == parse_status::incomplete);
    CHECK(parser.least_size() == head.size() + 1002);
}

TEST_CASE("kv parser: invalid numbers of elements") {
    for (const char* count :
         {"", "x", "1x", " 1", "1 ", "+1", "01", "-0", "-", "--1", "0x1", "1.0",
          "9223372036854775808", "99999999999999999999", "1048577", "2147483648"}) {
        check_malformed("*" + std::string(count) + "\r\n", "invalid multibulk length");
    }
    check_malformed("*1\n", "invalid multibulk length");
    check_malformed("*1\r$4\r\n", "invalid multibulk length");
    check_malformed(std::string("*\0\r\n", 4), "invalid multibulk length");
}

TEST_CASE("kv parser: invalid lengths of a bulk") {
    for (const char* length : {"", "x", "-1", "1x", " 1", "+1", "01", "-0", "9223372036854775808",
                               "16777217", "-9223372036854775808"}) {
        check_malformed("*1\r\n$" + std::string(length) + "\r\n", "invalid bulk length");
    }
    check_malformed("*1\r\n$4\nPING\r\n", "invalid bulk length");
}

TEST_CASE("kv parser: a bulk that does not end where its length says") {
    check_malformed("*1\r\n$4\r\nPINGS\r\n", "invalid bulk length");
    check_malformed("*1\r\n$4\r\nPIN\r\n*", "invalid bulk length");
    check_malformed("*1\r\n$4\r\nPING\n\n", "invalid bulk length");
    check_malformed("*1\r\n$4\r\nPING\rx", "invalid bulk length");
}

TEST_CASE("kv parser: an element that is no bulk") {
    check_malformed("*1\r\n+OK\r\n", "expected '$', got '+'");
    check_malformed("*1\r\nx", "expected '$', got 'x'");
    check_malformed("*2\r\n$1\r\na\r\n*1\r\n", "expected '$', got '*'");
    check_malformed("*1\r\n\r\n", "expected '$', got ' '");
    check_malformed("*1\r\n\n", "expected '$', got ' '");
}

TEST_CASE("kv parser: unbalanced quotes") {
    for (const char* line :
         {"\"", "'", "set \"a", "set 'a", "set \"a\"b", "set 'a'b", "set \"a\\\"", "set 'a\\'",
          "set \"\\", "\"a\"\"b\"", "'a''b'", "set a\"b"}) {
        check_malformed(line + std::string("\r\n"), "unbalanced quotes in request");
    }
}

TEST_CASE("kv parser: quotes and escapes of inline requests") {
    check_complete("set \"\" ''\r\n", {{"set", "", ""}});
    check_complete("\"\\n\\r\\t\\b\\a\\q\\\\\\\"\"\n", {{"\n\r\t\b\aq\\\""}});
    check_complete("\"\\x00\\xfF\\x4a\"\n", {{std::string("\0\xff\x4a", 3)}});
    check_complete("\"\\x\\x1\\x1g\\xg1\"\n", {{"xx1x1gxg1"}});
    check_complete("\"\\x1\"\n", {{"x1"}});
    check_complete("'\\n\\x41\\\\x' 'it\\'s'\n", {{"\\n\\x41\\\\x", "it's"}});
    check_complete("a\"b c\" d'e f'\n", {{"ab c", "de f"}});
    check_complete("a\\n b\n", {{"a\\n", "b"}});
    check_complete("\va\fb\tc\r\n", {{"a", "b", "c"}});
    check_complete("\"'\" '\"'\n", {{"'", "\""}});
    check_complete(std::string("a\0b c\n", 6), {{std::string("a\0b", 3), "c"}});
    check_complete("GET /index.html HTTP/1.1\r\n", {{"GET", "/index.html", "HTTP/1.1"}});
}

TEST_CASE("kv parser: the limit on lines counts the line end") {
    const parser_limits limits{.line = 16};
    check_complete(std::string(15, 'a') + "\n", {{std::string(15, 'a')}}, limits);
    check_malformed(std::string(16, 'a') + "\n", "too big inline request", limits);
    check_malformed(std::string(16, 'a'), "too big inline request", limits);
    check_malformed("*" + std::string(15, '1'), "too big mbulk count string", limits);
    check_malformed("*1\r\n$" + std::string(15, '1'), "too big bulk count string", limits);
    CHECK(parse_at_once(std::string(15, 'a'), limits).left == 15);
}

TEST_CASE("kv parser: the default limit on inline requests is that of Redis") {
    const std::string longest(64 * 1024 - 1, 'a');
    CHECK(parse_at_once(longest + "\n") == complete({{longest}}));
    CHECK(parse_at_once(longest + "a") == malformed("too big inline request"));
}

TEST_CASE("kv parser: the limits on bulks and elements are inclusive") {
    const parser_limits limits{.bulk = 4, .elements = 2};
    check_complete(encode({"abcd", "efgh"}), {{"abcd", "efgh"}}, limits);
    check_malformed("*1\r\n$5\r\n", "invalid bulk length", limits);
    check_malformed("*3\r\n", "invalid multibulk length", limits);
}

TEST_CASE("kv parser: the limit on a request counts all of its lines, before they arrive") {
    const std::string frame = encode({"abcd", "efgh"});
    check_complete(frame, {{"abcd", "efgh"}}, {.request = frame.size()});
    check_malformed(frame.substr(0, frame.size() - 6),
                    "request is larger than the query buffer limit", {.request = frame.size() - 1});
}

TEST_CASE("kv parser: an announced number of elements takes no memory") {
    kv::resp_parser parser({.elements = std::size_t{1} << 40});
    std::string head = "*1099511627776\r\n";
    // A reservation of that many elements would throw std::bad_alloc.
    CHECK(parser.parse(head) == parse_status::incomplete);
}

TEST_CASE("kv parser: malformed is final") {
    kv::resp_parser parser;
    std::string wrong = "*x\r\n";
    REQUIRE(parser.parse(wrong) == parse_status::malformed);
    std::string right = "*1\r\n$4\r\nPING\r\n";
    CHECK(parser.parse(right) == parse_status::malformed);
    CHECK(parser.error() == "Protocol error: invalid multibulk length");
}

TEST_CASE("kv parser: a request that arrives byte by byte is not read again and again") {
    // Were each call to look at all bytes of the request again, this would take 10^11 steps, far
    // beyond the limit on a test's time.
    const request many(50'000, "argument");
    for (std::string stream : {encode(many), std::string(65'000, 'x') + " y\n"}) {
        kv::resp_parser parser({.request = std::size_t{1} << 30});
        for (std::size_t size = 1; size < stream.size(); ++size) {
            if (parser.parse(std::span(stream).first(size)) != parse_status::incomplete) FAIL(size);
        }
        CHECK(parser.parse(stream) == parse_status::complete);
        CHECK(parser.consumed() == stream.size());
    }
}
