// SPDX-License-Identifier: MIT
#include "commands.hpp"

#include "parser_support.hpp"
#include "session.hpp"
#include "support/catch.hpp"

#include <memory>
#include <string>
#include <vector>

namespace {

using namespace std::chrono_literals;

/// A server with one client and a clock of its own, without a network.
class client {
public:
    client() {
        server_.settings = {{"save", ""}, {"appendonly", "no"}, {"maxclients", "100"}};
        server_.started = now;
    }

    /// The reply to one request.
    std::string operator()(const kv::test::request& arguments) {
        return send(kv::test::encode(arguments));
    }

    /// The replies to a line or more of inline requests.
    std::string send(std::string_view bytes) {
        std::string replies;
        while (!bytes.empty() && !session_.closing()) {
            const std::span<char> room = session_.room();
            const std::size_t size = std::min(room.size(), bytes.size());
            std::copy_n(bytes.begin(), size, room.begin());
            bytes.remove_prefix(size);
            session_.received(size);
            do {
                session_.execute(now);
                replies += take_replies();
            } while (session_.requests_remain());
        }
        return replies;
    }

    bool closed() const { return session_.closing(); }

    kv::time_point now{1000s};
    kv::store data{4, {1, 2}};

private:
    std::string take_replies() {
        std::vector<std::string_view> pieces;
        session_.replies().gather(pieces);
        std::string bytes;
        for (const std::string_view piece : pieces) bytes += piece;
        session_.replies().clear();
        return bytes;
    }

    kv::server_information server_;
    kv::session session_{data, server_, {}};
};

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

constexpr const char* not_an_integer = "-ERR value is not an integer or out of range\r\n";
constexpr const char* syntax_error = "-ERR syntax error\r\n";

}  // namespace

TEST_CASE("kv commands: PING and ECHO") {
    client ask;
    CHECK(ask({"PING"}) == "+PONG\r\n");
    CHECK(ask({"ping", "hello"}) == "$5\r\nhello\r\n");
    CHECK(ask({"PING", "a", "b"}) == "-ERR wrong number of arguments for 'ping' command\r\n");
    CHECK(ask({"ECHO", "a\r\nb"}) == "$4\r\na\r\nb\r\n");
    CHECK(ask({"ECHO"}) == "-ERR wrong number of arguments for 'echo' command\r\n");
    const std::string large(100'000, 'x');
    CHECK(ask({"ECHO", large}) == "$100000\r\n" + large + "\r\n");
}

TEST_CASE("kv commands: SET and GET") {
    client ask;
    CHECK(ask({"GET", "key"}) == "$-1\r\n");
    CHECK(ask({"SET", "key", "value"}) == "+OK\r\n");
    CHECK(ask({"GET", "key"}) == "$5\r\nvalue\r\n");
    CHECK(ask({"SET", "key", ""}) == "+OK\r\n");
    CHECK(ask({"GET", "key"}) == "$0\r\n\r\n");
    const std::string large(1'000'000, 'x');
    CHECK(ask({"SET", "large", large}) == "+OK\r\n");
    CHECK(ask({"GET", "large"}) == "$1000000\r\n" + large + "\r\n");
}

TEST_CASE("kv commands: SET with a lifetime") {
    client ask;
    CHECK(ask({"SET", "key", "v", "EX", "10"}) == "+OK\r\n");
    CHECK(ask({"TTL", "key"}) == ":10\r\n");
    CHECK(ask({"SET", "key", "v", "px", "1500"}) == "+OK\r\n");
    CHECK(ask({"TTL", "key"}) == ":2\r\n");
    ask.now += 1499ms;
    CHECK(ask({"GET", "key"}) == "$1\r\nv\r\n");
    CHECK(ask({"TTL", "key"}) == ":0\r\n");
    ask.now += 1ms;
    CHECK(ask({"GET", "key"}) == "$-1\r\n");
    CHECK(ask({"TTL", "key"}) == ":-2\r\n");
}

TEST_CASE("kv commands: SET with wrong lifetimes") {
    client ask;
    const std::string invalid = "-ERR invalid expire time in 'set' command\r\n";
    for (const char* option : {"EX", "PX"}) {
        CHECK(ask({"SET", "k", "v", option, "0"}) == invalid);
        CHECK(ask({"SET", "k", "v", option, "-1"}) == invalid);
        CHECK(ask({"SET", "k", "v", option, "9223372036854775807"}) == invalid);
        CHECK(ask({"SET", "k", "v", option, "x"}) == not_an_integer);
        CHECK(ask({"SET", "k", "v", option, "1.5"}) == not_an_integer);
        CHECK(ask({"SET", "k", "v", option, "9223372036854775808"}) == not_an_integer);
        CHECK(ask({"SET", "k", "v", option}) == syntax_error);
    }
    CHECK(ask({"SET", "k", "v", "EX", "9223372036854776"}) == invalid);
    CHECK(ask({"GET", "k"}) == "$-1\r\n");
    CHECK(ask({"SET", "k", "v", "EX", "9223372036"}) == "+OK\r\n");
    CHECK(ask({"TTL", "k"}) == ":9223372036\r\n");
}

TEST_CASE("kv commands: SET with conditions and GET") {
    client ask;
    CHECK(ask({"SET", "k", "a", "XX"}) == "$-1\r\n");
    CHECK(ask({"SET", "k", "a", "nx"}) == "+OK\r\n");
    CHECK(ask({"SET", "k", "b", "NX"}) == "$-1\r\n");
    CHECK(ask({"SET", "k", "c", "XX", "GET"}) == "$1\r\na\r\n");
    CHECK(ask({"SET", "k", "d", "NX", "GET"}) == "$1\r\nc\r\n");
    CHECK(ask({"GET", "k"}) == "$1\r\nc\r\n");
    CHECK(ask({"SET", "other", "x", "GET"}) == "$-1\r\n");
    CHECK(ask({"GET", "other"}) == "$1\r\nx\r\n");
    CHECK(ask({"SET", "k", "e", "EX", "100"}) == "+OK\r\n");
    CHECK(ask({"SET", "k", "f", "KEEPTTL"}) == "+OK\r\n");
    CHECK(ask({"TTL", "k"}) == ":100\r\n");
    CHECK(ask({"SET", "k", "g"}) == "+OK\r\n");
    CHECK(ask({"TTL", "k"}) == ":-1\r\n");
}

TEST_CASE("kv commands: SET with options that do not go together") {
    client ask;
    const std::vector<kv::test::request> wrong = {
        {"SET", "k", "v", "FOO"},
        {"SET", "k", "v", ""},
        {"SET", "k", "v", "NX", "XX"},
        {"SET", "k", "v", "XX", "NX"},
        {"SET", "k", "v", "EX", "1", "PX", "1"},
        {"SET", "k", "v", "EX", "1", "KEEPTTL"},
        {"SET", "k", "v", "KEEPTTL", "PX", "1"},
        {"SET", "k", "v", "NX", "EX"},
        {"SET", "k", "v", "EX", "1", "2"},
    };
    for (const auto& request : wrong) CHECK(ask(request) == syntax_error);
    CHECK(ask({"DBSIZE"}) == ":0\r\n");
    CHECK(ask({"SET", "k", "v", "EX", "1", "EX", "7", "NX", "NX"}) == "+OK\r\n");
    CHECK(ask({"TTL", "k"}) == ":7\r\n");
}

TEST_CASE("kv commands: DEL, EXISTS, DBSIZE, FLUSHALL") {
    client ask;
    for (const char* key : {"a", "b", "c"}) CHECK(ask({"SET", key, "v"}) == "+OK\r\n");
    CHECK(ask({"DBSIZE"}) == ":3\r\n");
    CHECK(ask({"EXISTS", "a", "a", "x", "b"}) == ":3\r\n");
    CHECK(ask({"DEL", "a", "a", "x"}) == ":1\r\n");
    CHECK(ask({"EXISTS", "a"}) == ":0\r\n");
    CHECK(ask({"FLUSHALL", "NOW"}) == syntax_error);
    CHECK(ask({"FLUSHALL", "ASYNC", "SYNC"}) == syntax_error);
    CHECK(ask({"DBSIZE"}) == ":2\r\n");
    CHECK(ask({"FLUSHALL"}) == "+OK\r\n");
    CHECK(ask({"DBSIZE"}) == ":0\r\n");
    CHECK(ask({"flushall", "async"}) == "+OK\r\n");
    CHECK(ask({"FLUSHALL", "sync"}) == "+OK\r\n");
}

TEST_CASE("kv commands: INCR") {
    client ask;
    CHECK(ask({"INCR", "n"}) == ":1\r\n");
    CHECK(ask({"INCR", "n"}) == ":2\r\n");
    CHECK(ask({"GET", "n"}) == "$1\r\n2\r\n");
    CHECK(ask({"SET", "n", "abc"}) == "+OK\r\n");
    CHECK(ask({"INCR", "n"}) == not_an_integer);
    CHECK(ask({"SET", "n", "9223372036854775807"}) == "+OK\r\n");
    CHECK(ask({"INCR", "n"}) == "-ERR increment or decrement would overflow\r\n");
}

TEST_CASE("kv commands: EXPIRE and TTL") {
    client ask;
    CHECK(ask({"EXPIRE", "k", "10"}) == ":0\r\n");
    CHECK(ask({"TTL", "k"}) == ":-2\r\n");
    CHECK(ask({"SET", "k", "v"}) == "+OK\r\n");
    CHECK(ask({"TTL", "k"}) == ":-1\r\n");
    CHECK(ask({"EXPIRE", "k", "10"}) == ":1\r\n");
    ask.now += 3s;
    CHECK(ask({"TTL", "k"}) == ":7\r\n");
    CHECK(ask({"EXPIRE", "k", "x"}) == not_an_integer);
    const std::string invalid = "-ERR invalid expire time in 'expire' command\r\n";
    CHECK(ask({"EXPIRE", "k", "9223372036854775807"}) == invalid);
    CHECK(ask({"EXPIRE", "k", "-9223372036854775808"}) == invalid);
    CHECK(ask({"EXPIRE", "k", "10", "NX"}) == "-ERR Unsupported option NX\r\n");
    CHECK(ask({"TTL", "k"}) == ":7\r\n");
    CHECK(ask({"EXPIRE", "k", "0"}) == ":1\r\n");
    CHECK(ask({"EXISTS", "k"}) == ":0\r\n");
    CHECK(ask({"SET", "k", "v"}) == "+OK\r\n");
    CHECK(ask({"EXPIRE", "k", "-5"}) == ":1\r\n");
    CHECK(ask({"DBSIZE"}) == ":0\r\n");
}

TEST_CASE("kv commands: wrong numbers of arguments, for each command") {
    client ask;
    for (const kv::command& each : kv::all_commands()) {
        const auto name = std::string(each.name);
        const std::string error = "-ERR wrong number of arguments for '" + name + "' command\r\n";
        const auto least = static_cast<std::size_t>(std::abs(each.arity));
        if (least > 1) {
            kv::test::request few(least - 1, "x");
            few[0] = name;
            CHECK(ask(few) == error);
        }
        if (each.arity > 0) {
            kv::test::request many(least + 1, "x");
            many[0] = name;
            CHECK(ask(many) == error);
        }
    }
}

TEST_CASE("kv commands: unknown commands are quoted as Redis 7 does") {
    client ask;
    CHECK(ask({"FOO"}) == "-ERR unknown command 'FOO', with args beginning with: \r\n");
    CHECK(ask({"foo", "a", "b c"}) ==
          "-ERR unknown command 'foo', with args beginning with: 'a' 'b c' \r\n");
    CHECK(ask({"fo\r\no", "\n"}) ==
          "-ERR unknown command 'fo  o', with args beginning with: ' ' \r\n");
    CHECK(ask({""}) == "-ERR unknown command '', with args beginning with: \r\n");
    CHECK(ask({std::string(200, 'n'), std::string(100, 'a'), std::string(100, 'b'), "c"}) ==
          "-ERR unknown command '" + std::string(128, 'n') + "', with args beginning with: '" +
              std::string(100, 'a') + "' '" + std::string(25, 'b') + "' \r\n");
    CHECK(ask({"GETX", "a"}) == "-ERR unknown command 'GETX', with args beginning with: 'a' \r\n");
}

TEST_CASE("kv commands: names are found in any case, and only whole") {
    CHECK(kv::find_command("GeT")->name == "get");
    CHECK(kv::find_command("ge") == nullptr);
    CHECK(kv::find_command("") == nullptr);
    CHECK(kv::find_command(std::string(1000, 'g')) == nullptr);
    for (const kv::command& each : kv::all_commands()) {
        CHECK(kv::find_command(each.name) == &each);
    }
}

TEST_CASE("kv commands: COMMAND") {
    client ask;
    const std::string count = std::to_string(kv::all_commands().size());
    CHECK(ask({"COMMAND", "COUNT"}) == ":" + count + "\r\n");
    CHECK(ask({"COMMAND", "COUNT", "x"}) ==
          "-ERR wrong number of arguments for 'command|count' command\r\n");
    const std::string get =
        "*10\r\n$3\r\nget\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n"
        "*0\r\n*0\r\n*0\r\n*0\r\n";
    CHECK(ask({"COMMAND", "INFO", "GET", "nothing"}) == "*2\r\n" + get + "$-1\r\n");
    const std::string all = ask({"COMMAND"});
    CHECK(all.starts_with("*" + count + "\r\n*10\r\n$7\r\ncommand\r\n"));
    CHECK(contains(all, get));
    const std::string docs = ask({"COMMAND", "DOCS"});
    CHECK(docs.starts_with("*" + std::to_string(kv::all_commands().size() * 2) + "\r\n"));
    CHECK(ask({"COMMAND", "DOCS", "ttl", "nothing"}).starts_with("*2\r\n$3\r\nttl\r\n*6\r\n"));
    CHECK(ask({"COMMAND", "FOO"}) == "-ERR unknown subcommand 'FOO'. Try COMMAND HELP.\r\n");
}

TEST_CASE("kv commands: CONFIG GET") {
    client ask;
    CHECK(ask({"CONFIG", "GET", "save"}) == "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
    CHECK(ask({"config", "get", "appendonly"}) == "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n");
    CHECK(ask({"CONFIG", "GET", "nothing"}) == "*0\r\n");
    CHECK(ask({"CONFIG", "GET", "*"}).starts_with("*6\r\n"));
    CHECK(ask({"CONFIG", "GET", "s*", "max*"}).starts_with("*4\r\n"));
    CHECK(ask({"CONFIG", "GET"}) == "-ERR wrong number of arguments for 'config|get' command\r\n");
    CHECK(ask({"CONFIG", "SET", "save", ""}) ==
          "-ERR unknown subcommand 'SET'. Try CONFIG HELP.\r\n");
}

TEST_CASE("kv commands: INFO") {
    client ask;
    CHECK(ask({"SET", "k", "v", "EX", "5"}) == "+OK\r\n");
    ask.now += 2s;
    const std::string all = ask({"INFO"});
    for (const char* line : {"# Server\r\n", "uptime_in_seconds:2\r\n", "# Clients\r\n",
                             "total_commands_processed:1\r\n", "# Keyspace\r\n",
                             "db0:keys=1,expires=1,avg_ttl=0\r\n"}) {
        CHECK(contains(all, line));
    }
    const std::string keys = ask({"INFO", "KeySpace"});
    CHECK(contains(keys, "# Keyspace\r\n"));
    CHECK(!contains(keys, "# Server\r\n"));
    CHECK(contains(ask({"INFO", "server", "keyspace"}), "# Keyspace\r\n"));
    CHECK(ask({"INFO", "nothing"}) == "$0\r\n\r\n");
}

TEST_CASE("kv commands: QUIT") {
    client ask;
    CHECK(ask.send("PING\r\nQUIT\r\nPING\r\n") == "+PONG\r\n+OK\r\n");
    CHECK(ask.closed());
}
