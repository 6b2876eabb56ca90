// SPDX-License-Identifier: MIT
#include "expirer.hpp"

#include "store.hpp"
#include "support/catch.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include <weft/runtime.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/task.hpp>
#include <weft/yield.hpp>

namespace {

using namespace std::chrono_literals;
using kv::current_time;

void set(kv::store& data, std::string_view key, std::chrono::milliseconds lifetime) {
    const auto now = current_time();
    data.set(key, std::make_shared<const std::string>("v"), {.expiry = now + lifetime}, now);
}

/// Waits until a condition holds; the time limit of the test is the watchdog.
template <class Condition>
weft::task<> until(Condition condition) {
    while (!condition()) co_await weft::sleep_for(1ms);
}

std::uint64_t tasks_alive() {
    return weft::this_runtime::statistics().tasks_alive();
}

weft::task<> remove_untouched_keys(kv::store& data, kv::expirer& expiry) {
    CHECK(tasks_alive() == 1);
    // Ever shorter lifetimes: each key expires before what its shard's task was waiting for.
    for (int i = 1000; i > 0; --i) set(data, std::to_string(i), i / 10 * 1ms + 1ms);
    set(data, "lives", 1h);
    co_await until([&] { return data.size() == 1; });
    CHECK(data.expired() == 1000);
    CHECK(data.contains("lives", current_time()));
    // The shards without keys that expire have no task any more, the one that waits an hour has.
    co_await until([] { return tasks_alive() == 2; });
    co_await expiry.stop();
    CHECK(tasks_alive() == 1);
}

weft::task<> sleep_again_for_what_is_left(kv::store& data, kv::expirer& expiry) {
    for (int round = 0; round < 5; ++round) {
        set(data, "first", 5ms);
        set(data, "second", 20ms);
        set(data, "third", 10ms);
        co_await until([&] { return data.size() == 0; });
    }
    // A key that is given more time, or is removed, before its time has come.
    set(data, "a", 5ms);
    set(data, "b", 10ms);
    const auto now = current_time();
    CHECK(data.set_expiry("a", now + 1h, now));
    co_await until([&] { return data.size() == 1; });
    CHECK(data.contains("a", current_time()));
    co_await expiry.stop();
    // Stopped: nothing wakes for this key, and no task is started.
    set(data, "c", 1ms);
    co_await until([] { return tasks_alive() == 1; });
}

weft::task<> expire_in_the_far_future(kv::store& data, kv::expirer& expiry) {
    // Lifetimes that nanoseconds in 64 bits do not hold.
    const auto now = current_time();
    data.set("far", std::make_shared<const std::string>("v"), {.expiry = kv::never - 1ms}, now);
    set(data, "near", 5ms);
    co_await until([&] { return data.size() == 1; });
    CHECK(data.contains("far", current_time()));
    co_await expiry.stop();
}

weft::task<> set_for_ever(kv::store& data, std::string key, std::atomic<int>& running) {
    // Relaxed: only counted.
    running.fetch_add(1, std::memory_order_relaxed);
    for (auto lifetime = 1'000'000ms;; lifetime -= 1ms) {
        set(data, key, lifetime);
        co_await weft::yield();
    }
}

/// Ends as the server does: what stops the clients is the end of the runtime.
weft::task<> end_before_the_clients(kv::store& data, kv::expirer& expiry,
                                    std::atomic<int>& running) {
    for (int id = 0; id < 8; ++id) {
        weft::co_spawn(set_for_ever(data, std::to_string(id), running)).detach();
    }
    co_await until([&] { return running.load(std::memory_order_relaxed) == 8; });
    co_await expiry.stop();
}

/// Runs a test in a runtime that begins after the expirer and ends before it.
void run(weft::task<> (*test)(kv::store&, kv::expirer&), std::size_t shards,
         unsigned processors = 0) {
    kv::store data(shards, {1, 2});
    kv::expirer expiry(data);
    weft::run(test(data, expiry), weft::runtime_options{.processors = processors});
}

}  // namespace

TEST_CASE("kv expirer: keys that nobody asks for are removed") {
    for (const unsigned processors : {1U, 4U}) run(remove_untouched_keys, 4, processors);
}

TEST_CASE("kv expirer: it goes on with what expires next") {
    run(sleep_again_for_what_is_left, 1);
}

TEST_CASE("kv expirer: lifetimes beyond the runtime's clock") {
    run(expire_in_the_far_future, 1);
}

TEST_CASE("kv expirer: clients that set expiries until the runtime has ended") {
    for (int round = 0; round < 20; ++round) {
        kv::store data(4, {1, 2});
        kv::expirer expiry(data);
        std::atomic<int> running{0};
        weft::run(end_before_the_clients(data, expiry, running),
                  weft::runtime_options{.processors = 4});
    }
}
