// SPDX-License-Identifier: MIT
#include "session.hpp"

#include "input_buffer.hpp"
#include "parser_support.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using kv::test::encode;

struct server {
    kv::store data{4, {1, 2}};
    kv::server_information information;
};

std::string take_replies(kv::session& session) {
    std::vector<std::string_view> pieces;
    session.replies().gather(pieces);
    std::string bytes;
    for (const std::string_view piece : pieces) bytes += piece;
    session.replies().clear();
    return bytes;
}

/// Puts bytes into the room of a session and returns how many found place.
std::size_t deliver(kv::session& session, std::string_view bytes) {
    const std::span<char> room = session.room();
    const std::size_t size = std::min(room.size(), bytes.size());
    std::copy_n(bytes.begin(), size, room.begin());
    session.received(size);
    return size;
}

std::string converse(kv::session& session, std::string_view bytes, std::size_t piece) {
    std::string replies;
    while (!bytes.empty() && !session.closing()) {
        bytes.remove_prefix(deliver(session, bytes.substr(0, piece)));
        do {
            session.execute(kv::time_point{1s});
            replies += take_replies(session);
        } while (session.requests_remain());
    }
    return replies;
}

}  // namespace

TEST_CASE("kv session: all requests that have arrived are answered together") {
    server one;
    kv::session session(one.data, one.information, {});
    std::string requests;
    for (int i = 0; i < 16; ++i) requests += "INCR n\r\n";
    REQUIRE(deliver(session, requests + "PIN") == requests.size() + 3);
    session.execute(kv::time_point{1s});
    CHECK(!session.requests_remain());
    std::string expected;
    for (int i = 1; i <= 16; ++i) expected += ":" + std::to_string(i) + "\r\n";
    CHECK(take_replies(session) == expected);
    CHECK(one.information.counters.commands_processed == 16);
    CHECK(converse(session, "G\r\n", 3) == "+PONG\r\n");
}

TEST_CASE("kv session: pieces of every size give the same replies") {
    const std::string large(40'000, 'v');
    const std::string stream = encode({"SET", "a", large}) + "PING\r\n" + encode({"GET", "a"}) +
                               "\r\nINCR n\n" + encode({"ECHO", large}) + encode({"DEL", "a", "n"});
    const std::string value = "$40000\r\n" + large + "\r\n";
    const std::string expected = "+OK\r\n+PONG\r\n" + value + ":1\r\n" + value + ":2\r\n";
    for (const std::size_t piece : {1, 2, 3, 7, 100, 1000, 1024, 5000, 16384, 1'000'000}) {
        server one;
        kv::session session(one.data, one.information, {});
        if (converse(session, stream, piece) != expected) FAIL("pieces of " << piece);
    }
    CHECK(expected.size() > 80'000);
}

TEST_CASE("kv session: a client that does not read its replies is not served further") {
    server one;
    kv::session session(one.data, one.information, {});
    const std::string value(10'000, 'v');
    CHECK(converse(session, encode({"SET", "k", value}), 100'000) == "+OK\r\n");
    std::string requests;
    for (int i = 0; i < 100; ++i) requests += "GET k\n";
    REQUIRE(deliver(session, requests) == requests.size());
    session.execute(kv::time_point{1s});
    CHECK(session.requests_remain());
    const std::size_t held = session.replies().size();
    CHECK(held >= kv::session::reply_limit);
    CHECK(held < kv::session::reply_limit + value.size() + 20);
    // Nothing more is executed before the replies are sent.
    session.execute(kv::time_point{1s});
    CHECK(session.replies().size() == held);
    std::size_t total = 0;
    while (session.requests_remain() || !session.replies().empty()) {
        total += take_replies(session).size();
        session.execute(kv::time_point{1s});
    }
    CHECK(total == 100 * (value.size() + 10));
}

TEST_CASE("kv session: a long batch ends for others' sake") {
    server one;
    kv::session session(one.data, one.information, {});
    // Makes the buffer large enough to hold many small requests at once.
    const std::string large(100'000, 'x');
    std::string requests = encode({"ECHO", large});
    for (std::size_t i = 0; i < 2 * kv::session::batch_limit; ++i) requests += "PING\n";
    std::size_t most = 0;
    std::size_t replies = 0;
    for (std::string_view rest = requests; !rest.empty();) {
        rest.remove_prefix(deliver(session, rest));
        do {
            const auto before = one.information.counters.commands_processed.load();
            session.execute(kv::time_point{1s});
            most = std::max(most, one.information.counters.commands_processed.load() - before);
            replies += take_replies(session).size();
        } while (session.requests_remain());
    }
    CHECK(replies == 2 * kv::session::batch_limit * 7 + large.size() + 11);
    CHECK(most <= kv::session::batch_limit);
    CHECK(most > 100);
}

namespace {

/// Sends one request; returns its replies and the most keys that the store loses in one turn.
std::string send_in_turns(server& one, const kv::test::request& words, std::size_t& most_removed) {
    kv::session session(one.data, one.information, {});
    const std::string bytes = encode(words);
    std::string replies;
    most_removed = 0;
    for (std::string_view rest = bytes; !rest.empty();) {
        rest.remove_prefix(deliver(session, rest));
        do {
            const std::size_t before = one.data.size();
            session.execute(kv::time_point{1s});
            most_removed = std::max(most_removed, before - one.data.size());
            replies += take_replies(session);
        } while (session.requests_remain());
    }
    return replies;
}

kv::test::request keys_after(std::string name, int count) {
    kv::test::request words{std::move(name)};
    for (int i = 0; i < count; ++i) words.push_back(std::to_string(i));
    return words;
}

void fill(server& one, int count) {
    const kv::value bytes = std::make_shared<const std::string>("v");
    for (int i = 0; i < count; ++i) one.data.set(std::to_string(i), bytes, {}, kv::time_point{1s});
}

}  // namespace

TEST_CASE("kv session: a command over many keys lets others in between") {
    server one;
    constexpr int keys = 20'000;
    fill(one, keys);
    std::size_t most = 0;
    CHECK(send_in_turns(one, keys_after("EXISTS", keys), most) == ":20000\r\n");
    CHECK(one.information.counters.commands_processed == 1);
    CHECK(send_in_turns(one, keys_after("DEL", keys), most) == ":20000\r\n");
    CHECK(one.data.size() == 0);
    CHECK(most <= kv::session::batch_limit);
    CHECK(most > 100);
    fill(one, keys);
    CHECK(send_in_turns(one, {"FLUSHALL"}, most) == "+OK\r\n");
    CHECK(one.data.size() == 0);
    // One of the four shards in each turn.
    CHECK(most < keys / 2);
}

TEST_CASE("kv session: a turn ends in the middle of a request for the keys of those before") {
    server one;
    fill(one, 3000);
    kv::session session(one.data, one.information, {});
    std::string requests = encode(keys_after("DEL", 1500)) + encode(keys_after("DEL", 3000)) +
                           encode(keys_after("EXISTS", 3000)) + "PING\r\n";
    CHECK(converse(session, requests, requests.size()) == ":1500\r\n:1500\r\n:0\r\n+PONG\r\n");
    CHECK(one.information.counters.commands_processed == 4);
}

TEST_CASE("kv session: no request makes a reply of unbounded size") {
    for (const char* subcommand : {"INFO", "DOCS"}) {
        for (const std::size_t names : {1022U, 1023U, 200'000U}) {
            server one;
            kv::session session(one.data, one.information, {});
            kv::test::request words(names + 2, "set");
            words[0] = "COMMAND";
            words[1] = subcommand;
            const std::string replies = converse(session, encode(words), 1 << 20);
            if (names > 1022) {
                CHECK(replies == "-ERR too many arguments for 'command' command\r\n");
            } else {
                CHECK(replies.size() > 50'000);
                CHECK(replies.size() < (256 << 10));
            }
            CHECK(!session.closing());
        }
    }
}

TEST_CASE("kv session: the list of arguments counts as memory for requests, and is given back") {
    server one;
    kv::memory_budget& memory = one.information.input_memory;
    kv::session session(one.data, one.information, {});
    constexpr std::size_t arguments = 100'000;
    std::string request = encode(kv::test::request(arguments, ""));
    request.insert(request.find("$0"), "$3\r\nDEL\r\n");
    request.replace(0, request.find('\r'), "*" + std::to_string(arguments + 1));
    const std::string first = request.substr(0, request.size() - 1);
    CHECK(converse(session, first, first.size()).empty());
    CHECK(memory.used() >= first.size() + arguments * sizeof(kv::slice));
    CHECK(converse(session, "\n", 1) == ":0\r\n");
    CHECK(converse(session, "PING\r\n", 6) == "+PONG\r\n");
    CHECK(!session.room().empty());
    CHECK(memory.used() <= kv::input_buffer::smallest + 1024 * sizeof(kv::slice));
}

TEST_CASE("kv session: a request whose arguments exceed the memory is refused") {
    kv::store data{4, {1, 2}};
    kv::server_information information{.counters = {},
                                       .input_memory = kv::memory_budget(1 << 20),
                                       .settings = {},
                                       .report_runtime = {},
                                       .started = {}};
    {
        kv::session session(data, information, {});
        // The bytes alone, 600 KB, are within the budget.
        const std::string request = encode(kv::test::request(100'000, ""));
        CHECK(converse(session, request, 1 << 20) ==
              "-ERR the server has no memory left for the requests of its clients\r\n");
        CHECK(session.closing());
        CHECK(information.input_memory.used() <= (1 << 20));
    }
    CHECK(information.input_memory.used() == 0);
}

TEST_CASE("kv session: a malformed request is answered, counted, and ends the connection") {
    server one;
    kv::session session(one.data, one.information, {});
    CHECK(converse(session, "PING\r\n*1\r\nfoo\r\nPING\r\n", 1000) ==
          "+PONG\r\n-ERR Protocol error: expected '$', got 'f'\r\n");
    CHECK(session.closing());
    CHECK(!session.requests_remain());
    CHECK(one.information.counters.protocol_errors == 1);
}

TEST_CASE("kv session: a connection that waits holds little, and all is given back at its end") {
    server one;
    const kv::memory_budget& memory = one.information.input_memory;
    {
        kv::session session(one.data, one.information, {});
        CHECK(memory.used() == 0);
        CHECK(!session.room().empty());
        CHECK(memory.used() == kv::input_buffer::smallest);
        const std::string large(1'000'000, 'v');
        CHECK(converse(session, encode({"SET", "k", large}), 1 << 20) == "+OK\r\n");
        CHECK(memory.used() > 1'000'000);
        CHECK(!session.room().empty());
        // A short list of arguments stays for the next request.
        CHECK(memory.used() <= kv::input_buffer::smallest + 8 * sizeof(kv::slice));
    }
    CHECK(memory.used() == 0);
}

TEST_CASE("kv session: an announced bulk takes no memory before it arrives") {
    server one;
    kv::session session(one.data, one.information, {});
    CHECK(converse(session, "*1\r\n$16777216\r\nx", 100).empty());
    CHECK(!session.room().empty());
    CHECK(one.information.input_memory.used() <= kv::input_buffer::kept);
}

TEST_CASE("kv session: the memory for requests is shared and limited") {
    kv::store data{4, {1, 2}};
    kv::server_information information{.counters = {},
                                       .input_memory = kv::memory_budget(64 << 10),
                                       .settings = {},
                                       .report_runtime = {},
                                       .started = {}};
    kv::session session(data, information, {});
    CHECK(converse(session, "PING\r\n", 100) == "+PONG\r\n");
    const std::string replies =
        converse(session, encode({"ECHO", std::string(100'000, 'x')}), 5000);
    CHECK(replies == "-ERR the server has no memory left for the requests of its clients\r\n");
    CHECK(session.closing());
    CHECK(information.input_memory.used() <= (64 << 10));
}

TEST_CASE("kv budget: takes all or nothing") {
    kv::memory_budget budget(100);
    CHECK(budget.try_take(60));
    CHECK(!budget.try_take(41));
    CHECK(budget.used() == 60);
    CHECK(budget.try_take(40));
    CHECK(!budget.try_take(1));
    budget.give_back(100);
    CHECK(budget.try_take(100));
}

TEST_CASE("kv buffer: a random sequence of reads and consumptions keeps the bytes in order") {
    for (unsigned seed = 0; seed < 50; ++seed) {
        std::mt19937 random(seed);
        const auto up_to = [&random](std::size_t most) {
            return std::uniform_int_distribution<std::size_t>(0, most)(random);
        };
        kv::memory_budget budget;
        kv::input_buffer buffer(budget);
        unsigned char written = 0;
        unsigned char consumed = 0;
        bool ordered = true;
        for (int round = 0; round < 500; ++round) {
            REQUIRE(buffer.make_room(up_to(100'000)));
            REQUIRE(!buffer.room().empty());
            const std::size_t size = up_to(buffer.room().size());
            for (std::size_t i = 0; i < size; ++i) {
                buffer.room()[i] = static_cast<char>(written++);
            }
            buffer.commit(size);
            const std::size_t eaten = up_to(buffer.data().size());
            for (std::size_t i = 0; i < eaten; ++i) {
                ordered &= buffer.data()[i] == static_cast<char>(consumed++);
            }
            buffer.consume(eaten);
        }
        if (!ordered) FAIL("seed " << seed);
    }
}
