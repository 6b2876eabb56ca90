// SPDX-License-Identifier: MIT
#include "connection.hpp"
#include "store.hpp"
#include "support/catch.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/net/tcp.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/task.hpp>
#include <weft/yield.hpp>

// Memory that is refused: operator new of this program can be told to fail once, at its i-th call.
// Each operation is run for every i until it comes through. Where it fails it must have changed
// nothing.

namespace {

/// Calls of operator new that are left before one fails; negative: none fails.
std::atomic<std::int64_t> calls_left{-1};

void* allocate(std::size_t size) {
    if (calls_left.load(std::memory_order_relaxed) >= 0 &&
        calls_left.fetch_sub(1, std::memory_order_relaxed) == 0) {
        throw std::bad_alloc();
    }
    if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
    throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) {
    return allocate(size);
}
// The form that reports by null is not made to fail, but must come from where delete gives back to.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace {

using namespace std::chrono_literals;
using kv::never;
using kv::store;
using kv::time_point;

constexpr time_point start{1000s};

/// Longer than what a std::string keeps within itself.
const std::string fresh_key(40, 'f');
const std::string lasting_key(40, 'l');
const std::string expiring_key(40, 'e');

/// What a store says about the three keys.
struct contents {
    struct state {
        std::string bytes;
        std::optional<time_point> expiry;
        bool operator==(const state&) const = default;
    };
    state fresh, lasting, expiring;
    std::size_t size, with_expiry;
    bool operator==(const contents&) const = default;
};

contents::state look(store& data, const std::string& key) {
    const auto expiry = data.expiry(key, start);
    if (!expiry) return {"(nil)", expiry};
    const kv::value found = data.get(key, start);
    return {found == nullptr ? "(no value)" : *found, expiry};
}

contents look(store& data) {
    return {look(data, fresh_key), look(data, lasting_key), look(data, expiring_key), data.size(),
            data.expiring()};
}

void fill(store& data) {
    data.set(lasting_key, std::make_shared<const std::string>("5"), {}, start);
    data.set(expiring_key, std::make_shared<const std::string>("6"), {.expiry = start + 100s},
             start);
}

/// Fails each allocation of an operation in turn and tells how many there were. Fails the test
/// where the operation has then changed something, or does nothing when it is repeated.
template <class Operation>
int fail_each_allocation(Operation operation) {
    for (int call = 0;; ++call) {
        store data(1, {1, 2});
        fill(data);
        const contents before = look(data);
        calls_left = call;
        bool failed = false;
        try {
            operation(data);
        } catch (const std::bad_alloc&) { failed = true; }
        calls_left = -1;
        if (!failed) return call;
        if (!(look(data) == before)) FAIL("allocation " << call << " failed and left a change");
        operation(data);
        if (look(data) == before) FAIL("nothing happens after allocation " << call << " failed");
    }
}

}  // namespace

TEST_CASE("kv store: an operation that gets no memory has changed nothing") {
    CHECK(fail_each_allocation([](store& data) { data.increment(fresh_key, 1, start); }) > 2);
    CHECK(fail_each_allocation([](store& data) { data.increment(lasting_key, 1, start); }) > 0);
    const kv::value bytes = std::make_shared<const std::string>("new");
    const auto set = [&](const std::string& key, const kv::set_options& options) {
        return [&key, &bytes, options](store& data) { data.set(key, bytes, options, start); };
    };
    CHECK(fail_each_allocation(set(fresh_key, {})) > 1);
    CHECK(fail_each_allocation(set(fresh_key, {.expiry = start + 10s})) > 2);
    CHECK(fail_each_allocation(set(lasting_key, {.expiry = start + 10s})) > 0);
    CHECK(fail_each_allocation(set(expiring_key, {.expiry = start + 10s})) >= 0);
    const auto expire = [](const std::string& key) {
        return [&key](store& data) { data.set_expiry(key, start + 10s, start); };
    };
    CHECK(fail_each_allocation(expire(lasting_key)) > 0);
    CHECK(fail_each_allocation(expire(expiring_key)) >= 0);
}

TEST_CASE("kv store: a sweep that gets no memory loses no key without counting it") {
    for (int call = 0;; ++call) {
        store data(1, {1, 2});
        fill(data);
        calls_left = call;
        bool failed = false;
        try {
            data.sweep(0, start + 1000s, 100);
        } catch (const std::bad_alloc&) { failed = true; }
        calls_left = -1;
        CHECK(data.expired() + data.size() == 2);
        if (!failed) break;
        CHECK(data.sweep(0, start + 1000s, 100).removed == 1);
    }
}

TEST_CASE("kv store: what is set stays although its listener gets no memory, and is told again") {
    store data(1, {1, 2});
    int told = 0;
    data.on_earlier_expiry([&told](std::size_t, time_point) {
        if (++told == 1) throw std::bad_alloc();
    });
    const kv::value bytes = std::make_shared<const std::string>("v");
    CHECK(data.set("a", bytes, {.expiry = start + 10s}, start).written);
    CHECK(told == 1);
    CHECK(data.expiry("a", start) == start + 10s);
    // Later than the first, of which the listener does not know.
    CHECK(data.set("b", bytes, {.expiry = start + 20s}, start).written);
    CHECK(told == 2);
    CHECK(data.set("c", bytes, {.expiry = start + 20s}, start).written);
    CHECK(told == 2);
}

namespace {

/// A server in a runtime of its own, with clients that take no memory.
class accepting_server {
public:
    explicit accepting_server(std::int64_t failing_call) : failing_call_(failing_call) {}

    /// Serves two clients, for the first of which an allocation fails.
    void run() {
        try {
            weft::run(serve(), weft::runtime_options{.processors = 1});
        } catch (const std::bad_alloc&) {
            // It has ended, and the second client finds nobody.
        }
        client_.join();
    }

    bool first_served = false;
    bool failed = false;
    bool second_served = false;

private:
    weft::task<> serve() {
        auto listener = weft::net::tcp_listener::bind(weft::net::endpoint::parse("127.0.0.1:0"));
        const std::uint16_t port = listener.local_endpoint().port();
        weft::spawn_options accepting{.name = "accept", .stop_token = served_.get_token()};
        auto accepted = weft::co_spawn(kv::accept_clients(listener, server_), accepting);
        co_await weft::yield();  // Now the task has run, and waits.
        client_ = std::thread([this, port] { be_clients(port); });
        co_await std::move(accepted);
    }

    void be_clients(std::uint16_t port) {
        calls_left = failing_call_;
        first_served = ping(port);
        failed = calls_left < 0;
        calls_left = -1;
        second_served = ping(port);
        served_.request_stop();
    }

    static bool ping(std::uint16_t port) {
        const int one = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const timeval patience{.tv_sec = 30, .tv_usec = 0};
        ::setsockopt(one, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        bool served = false;
        if (::connect(one, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
            char answer[16];
            constexpr std::string_view request = "PING\r\n";
            const bool sent = ::send(one, request.data(), request.size(), MSG_NOSIGNAL) > 0;
            const ssize_t size = sent ? ::recv(one, answer, sizeof answer, 0) : 0;
            served = size > 0 && answer[0] == '+';
        }
        ::close(one);
        return served;
    }

    std::int64_t failing_call_;
    store data_{4, {1, 2}};
    kv::server_information information_;
    kv::server_context server_{data_, information_, {}, 100};
    std::stop_source served_;
    std::thread client_;
};

}  // namespace

TEST_CASE("kv server: clients are accepted again after there was no memory for one") {
    int failures = 0;
    for (int call = 0;; ++call) {
        accepting_server one(call);
        one.run();
        if (!one.second_served) FAIL("nobody is served after allocation " << call << " failed");
        if (one.first_served && !one.failed) break;
        ++failures;
    }
    CHECK(failures > 2);
}
