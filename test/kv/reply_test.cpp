// SPDX-License-Identifier: MIT
#include "reply.hpp"

#include "support/catch.hpp"

#include <limits>
#include <memory>
#include <string>

namespace {

std::string sent(const kv::reply& out) {
    std::vector<std::string_view> pieces;
    out.gather(pieces);
    std::string bytes;
    for (const std::string_view piece : pieces) bytes += piece;
    return bytes;
}

}  // namespace

TEST_CASE("kv reply: each type in RESP2") {
    kv::reply out;
    CHECK(out.empty());
    out.status("OK");
    out.error("ERR no");
    out.integer(0);
    out.integer(std::numeric_limits<std::int64_t>::min());
    out.null();
    out.bulk("");
    out.bulk("a\r\nb");
    out.bulk(std::make_shared<const std::string>("value"));
    out.array(2);
    const std::string expected =
        "+OK\r\n-ERR no\r\n:0\r\n:-9223372036854775808\r\n$-1\r\n$0\r\n\r\n$4\r\na\r\nb\r\n"
        "$5\r\nvalue\r\n*2\r\n";
    CHECK(sent(out) == expected);
    CHECK(out.size() == expected.size());
    out.clear();
    CHECK(out.empty());
    CHECK(out.size() == 0);
    CHECK(sent(out).empty());
}

TEST_CASE("kv reply: an error is one line, whatever it quotes") {
    kv::reply out;
    out.error("ERR unknown command 'a\r\nb'");
    CHECK(sent(out) == "-ERR unknown command 'a  b'\r\n");
}

TEST_CASE("kv reply: long bulks are referred to, in their place, and kept alive") {
    const std::string argument(kv::reply::long_bulk, 'a');
    auto stored = std::make_shared<const std::string>(kv::reply::long_bulk + 1, 'v');
    kv::reply out;
    out.bulk(argument);
    out.integer(1);
    out.bulk(stored);
    out.bulk(stored);
    out.status("OK");
    const std::string value = "$16385\r\n" + *stored + "\r\n";
    const std::string expected = "$16384\r\n" + argument + "\r\n:1\r\n" + value + value + "+OK\r\n";
    CHECK(out.size() == expected.size());
    CHECK(stored.use_count() == 3);
    const std::weak_ptr<const std::string> watched = stored;
    stored.reset();
    CHECK(sent(out) == expected);
    std::vector<std::string_view> pieces;
    out.gather(pieces);
    CHECK(pieces.size() == 7);
    CHECK(pieces[1].data() == argument.data());
    out.clear();
    CHECK(watched.expired());
}
