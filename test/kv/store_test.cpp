// SPDX-License-Identifier: MIT
#include "store.hpp"

#include "integer.hpp"
#include "sip_hash.hpp"
#include "support/catch.hpp"
#include "support/scale.hpp"

#include <atomic>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using kv::never;
using kv::store;
using kv::time_point;

constexpr time_point start{1000s};

kv::value text(std::string_view bytes) {
    return std::make_shared<const std::string>(bytes);
}

std::string get(store& data, std::string_view key, time_point now = start) {
    const kv::value found = data.get(key, now);
    return found ? *found : "(nil)";
}

void set(store& data, std::string_view key, std::string_view bytes, time_point expiry = never,
         time_point now = start) {
    REQUIRE(data.set(key, text(bytes), {.expiry = expiry}, now).written);
}

std::size_t clear(store& data) {
    std::size_t removed = 0;
    for (std::size_t shard = 0; shard < data.shards(); ++shard) removed += data.clear(shard);
    return removed;
}

store make_store(std::size_t shards = 4) {
    return store(shards, {1, 2});
}

}  // namespace

TEST_CASE("kv integers: the one form that Redis accepts") {
    CHECK(kv::parse_integer("0") == 0);
    CHECK(kv::parse_integer("-1") == -1);
    CHECK(kv::parse_integer("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
    CHECK(kv::parse_integer("-9223372036854775808") == std::numeric_limits<std::int64_t>::min());
    for (const char* wrong : {"", "-", "+1", "-0", "00", "01", "-01", " 1", "1 ", "1.0", "0x1", "a",
                              "9223372036854775808", "-9223372036854775809"}) {
        CHECK(!kv::parse_integer(wrong));
    }
}

TEST_CASE("kv hash: known results of SipHash-1-3") {
    // Key 00 01 .. 0f, text 00 01 .. (n - 1). Computed by a second implementation, on numbers of
    // arbitrary precision, that gives the published result of SipHash-2-4 for 15 bytes.
    const kv::sip_hash hash({0x0706050403020100U, 0x0f0e0d0c0b0a0908U});
    std::string bytes;
    for (int byte = 0; byte < 16; ++byte) bytes += static_cast<char>(byte);
    const std::string_view text = bytes;
    CHECK(hash(text.substr(0, 0)) == 0xabac0158050fc4dcU);
    CHECK(hash(text.substr(0, 1)) == 0xc9f49bf37d57ca93U);
    CHECK(hash(text.substr(0, 7)) == 0xd3927d989bb11140U);
    CHECK(hash(text.substr(0, 8)) == 0x369095118d299a8eU);
    CHECK(hash(text.substr(0, 9)) == 0x25a48eb36c063de4U);
    CHECK(hash(text.substr(0, 15)) == 0xd320d86d2a519956U);
    CHECK(hash(text.substr(0, 16)) == 0xcc4fdd1a7d908b66U);
    CHECK(kv::sip_hash({1, 2})("") != kv::sip_hash({1, 3})(""));
}

TEST_CASE("kv store: what was set is found, what was removed is not") {
    store data = make_store();
    CHECK(get(data, "key") == "(nil)");
    CHECK(!data.contains("key", start));
    set(data, "key", "value");
    set(data, "", "the empty key is a key");
    CHECK(get(data, "key") == "value");
    CHECK(data.contains("key", start));
    CHECK(get(data, "") == "the empty key is a key");
    set(data, "key", "other");
    CHECK(get(data, "key") == "other");
    CHECK(data.size() == 2);
    CHECK(data.remove("key", start));
    CHECK(!data.remove("key", start));
    CHECK(get(data, "key") == "(nil)");
    CHECK(data.size() == 1);
}

TEST_CASE("kv store: many keys in many shards and in one") {
    for (const std::size_t shards : {std::size_t{1}, std::size_t{7}, std::size_t{64}}) {
        store data = make_store(shards);
        for (int i = 0; i < 5000; ++i) set(data, "k" + std::to_string(i), std::to_string(i));
        CHECK(data.size() == 5000);
        int wrong = 0;
        for (int i = 0; i < 5000; ++i) {
            wrong += get(data, "k" + std::to_string(i)) != std::to_string(i) ? 1 : 0;
        }
        CHECK(wrong == 0);
        CHECK(clear(data) == 5000);
        CHECK(data.size() == 0);
        CHECK(get(data, "k1") == "(nil)");
    }
}

TEST_CASE("kv store: conditions of set") {
    store data = make_store();
    const kv::set_options if_absent{.condition = kv::set_condition::if_absent};
    const kv::set_options if_present{.condition = kv::set_condition::if_present};
    CHECK(!data.set("key", text("a"), if_present, start).written);
    CHECK(data.size() == 0);
    auto result = data.set("key", text("b"), if_absent, start);
    CHECK(result.written);
    CHECK(result.previous == nullptr);
    result = data.set("key", text("c"), if_absent, start);
    CHECK(!result.written);
    CHECK(*result.previous == "b");
    CHECK(get(data, "key") == "b");
    result = data.set("key", text("d"), if_present, start);
    CHECK(result.written);
    CHECK(*result.previous == "b");
    CHECK(get(data, "key") == "d");
}

TEST_CASE("kv store: a value that was read stays after it is replaced") {
    store data = make_store();
    set(data, "key", "first");
    const kv::value held = data.get("key", start);
    set(data, "key", "second");
    clear(data);
    CHECK(*held == "first");
}

TEST_CASE("kv store: a key is gone from its expiry on") {
    store data = make_store();
    set(data, "key", "value", start + 10ms);
    CHECK(data.expiring() == 1);
    CHECK(get(data, "key", start + 9ms) == "value");
    CHECK(data.size() == 1);
    CHECK(get(data, "key", start + 10ms) == "(nil)");
    CHECK(data.size() == 0);
    CHECK(data.expiring() == 0);
    CHECK(data.expired() == 1);
    // Gone for good, also for somebody who is told an earlier time.
    CHECK(get(data, "key", start) == "(nil)");
}

TEST_CASE("kv store: what has expired is absent for every operation") {
    const time_point later = start + 1s;
    const auto expired = [] {
        auto data = std::make_unique<store>(4, std::array<std::uint64_t, 2>{1, 2});
        REQUIRE(data->set("key", text("5"), {.expiry = start + 1s}, start).written);
        return data;
    };
    CHECK(!expired()->contains("key", later));
    CHECK(!expired()->remove("key", later));
    CHECK(!expired()->set_expiry("key", later + 1s, later));
    CHECK(!expired()->expiry("key", later));
    CHECK(expired()->increment("key", 1, later).number == 1);
    CHECK(!expired()
               ->set("key", text("x"), {.condition = kv::set_condition::if_present}, later)
               .written);
    const auto data = expired();
    const auto result =
        data->set("key", text("x"), {.condition = kv::set_condition::if_absent}, later);
    CHECK(result.written);
    CHECK(result.previous == nullptr);
    CHECK(data->expiry("key", later) == never);
}

TEST_CASE("kv store: set replaces the expiry unless it is told to keep it") {
    store data = make_store();
    set(data, "key", "a", start + 1s);
    REQUIRE(data.set("key", text("b"), {.keep_expiry = true}, start).written);
    CHECK(data.expiry("key", start) == start + 1s);
    set(data, "key", "c", start + 5s);
    CHECK(data.expiry("key", start) == start + 5s);
    set(data, "key", "d");
    CHECK(data.expiry("key", start) == never);
    CHECK(data.expiring() == 0);
    CHECK(!data.expiry("other", start));
}

TEST_CASE("kv store: set_expiry") {
    store data = make_store();
    CHECK(!data.set_expiry("key", start + 1s, start));
    set(data, "key", "value");
    CHECK(data.set_expiry("key", start + 1s, start));
    CHECK(data.expiry("key", start) == start + 1s);
    CHECK(data.set_expiry("key", never, start));
    CHECK(data.expiry("key", start) == never);
    CHECK(data.set_expiry("key", start, start));
    CHECK(data.size() == 0);
}

TEST_CASE("kv store: increment") {
    store data = make_store();
    CHECK(data.increment("n", 1, start).number == 1);
    CHECK(data.increment("n", 41, start).number == 42);
    CHECK(get(data, "n") == "42");
    set(data, "n", "-5", start + 1s);
    CHECK(data.increment("n", 1, start).number == -4);
    CHECK(data.expiry("n", start) == start + 1s);
    for (const char* wrong : {"", "abc", "1.5", " 1", "9223372036854775808"}) {
        set(data, "n", wrong);
        CHECK(data.increment("n", 1, start).status == kv::increment_status::not_an_integer);
        CHECK(get(data, "n") == wrong);
    }
    set(data, "n", "9223372036854775806");
    CHECK(data.increment("n", 1, start).number == std::numeric_limits<std::int64_t>::max());
    CHECK(data.increment("n", 1, start).status == kv::increment_status::overflow);
    CHECK(get(data, "n") == "9223372036854775807");
    set(data, "n", "-9223372036854775808");
    CHECK(data.increment("n", -1, start).status == kv::increment_status::overflow);
}

TEST_CASE("kv store: a sweep removes what has expired, in batches, earliest first") {
    store data = make_store(1);
    for (int i = 0; i < 100; ++i) {
        set(data, "k" + std::to_string(i), "v", start + std::chrono::milliseconds(i));
    }
    set(data, "stays", "v");
    kv::sweep_result swept = data.sweep(0, start + 49ms, 30);
    CHECK(swept.removed == 30);
    CHECK(swept.next == start + 30ms);
    swept = data.sweep(0, start + 49ms, 30);
    CHECK(swept.removed == 20);
    CHECK(swept.next == start + 50ms);
    CHECK(data.size() == 51);
    CHECK(data.expired() == 50);
    swept = data.sweep(0, never - 1ms, 1000);
    CHECK(swept.removed == 50);
    CHECK(swept.next == never);
    CHECK(get(data, "stays") == "v");
    CHECK(data.sweep(0, never - 1ms, 1000).removed == 0);
}

TEST_CASE("kv store: keys that expire at the same time") {
    store data = make_store(1);
    for (int i = 0; i < 10; ++i) set(data, "k" + std::to_string(i), "v", start + 1s);
    CHECK(data.expiring() == 10);
    CHECK(data.remove("k3", start));
    CHECK(data.expiring() == 9);
    CHECK(data.sweep(0, start + 1s, 100).removed == 9);
}

TEST_CASE("kv store: the listener hears of each earlier expiry, and of nothing else") {
    store data = make_store(1);
    std::vector<time_point> heard;
    data.on_earlier_expiry([&](std::size_t shard, time_point earliest) {
        CHECK(shard == 0);
        // Called without the lock: the store may be used here.
        CHECK(data.size() > 0);
        heard.push_back(earliest);
    });
    set(data, "a", "v");
    CHECK(heard.empty());
    set(data, "a", "v", start + 10s);
    set(data, "b", "v", start + 20s);
    set(data, "c", "v", start + 5s);
    CHECK(heard == std::vector{start + 10s, start + 5s});
    CHECK(data.set_expiry("a", start + 1s, start));
    CHECK(data.set_expiry("b", start + 2s, start));
    CHECK(heard == std::vector{start + 10s, start + 5s, start + 1s});
    heard.clear();
    CHECK(data.set_expiry("a", start + 100s, start));
    CHECK(data.remove("b", start));
    CHECK(data.increment("n", 1, start).number == 1);
    CHECK(heard.empty());
    clear(data);
    set(data, "z", "v", start + 50s);
    CHECK(heard == std::vector{start + 50s});
}

TEST_CASE("kv store: threads that work on the same keys lose nothing") {
    store data = make_store(3);
    constexpr int thread_count = 4;
    const int rounds = static_cast<int>(weft::test::scaled_count(20'000, 500'000));
    std::atomic<int> removed{0};
    std::vector<std::thread> threads;
    for (int id = 0; id < thread_count; ++id) {
        threads.emplace_back([&, id] {
            for (int i = 0; i < rounds; ++i) {
                const std::string key = "k" + std::to_string(i % 16);
                data.increment("sum", 1, start);
                data.set(key, text("v"), {.expiry = start + std::chrono::milliseconds(i % 7)},
                         start);
                // Relaxed: read after the threads were joined.
                if (data.remove(key, start)) removed.fetch_add(1, std::memory_order_relaxed);
                if (i % 64 == id) data.sweep(static_cast<std::size_t>(i % 3), start + 3ms, 4);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(get(data, "sum") == std::to_string(thread_count * rounds));
    CHECK(removed.load() > 0);
    for (std::size_t shard = 0; shard < 3; ++shard) data.sweep(shard, never - 1ms, 1000);
    CHECK(data.size() == 1);
    CHECK(data.expiring() == 0);
}
