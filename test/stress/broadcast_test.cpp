// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

// Storms at broadcasts and watches: several send, many receive, and are late and stopped on the
// way. What a receiver has got and what it was told that it has lost must be all that was sent, in
// order, and each must see the last value and the end.

using namespace std::chrono_literals;

namespace {

constexpr unsigned senders = 2;
constexpr unsigned receivers = 5;

/// A value that tells its sender and place.
struct message {
    unsigned who;
    std::uint64_t place;
};

struct account {
    std::atomic<std::uint64_t> sent{0}, received{0}, lost{0}, late{0}, stopped{0}, wrong{0};
};

/// What one receiver has got.
struct received_so_far {
    std::uint64_t received = 0;
    std::uint64_t lost = 0;
    std::uint64_t last[senders] = {};
    bool ended = false;
};

weft::task<> send_all(weft::broadcast<message>& to, account& all, unsigned who, std::uint64_t count,
                      unsigned seed) {
    std::minstd_rand random(seed);
    for (std::uint64_t place = 1; place <= count; ++place) {
        if (!to.send({who, place})) ++all.wrong;
        ++all.sent;
        if (random() % 4 == 0) co_await weft::yield();
    }
}

void note(const weft::broadcast_message<message>& got, account& all, received_so_far& own) {
    if (!got) {
        own.ended = true;
        return;
    }
    ++own.received;
    own.lost += got.lost;
    std::uint64_t& last = own.last[got->who % senders];
    if (got->who >= senders || got->place <= last) ++all.wrong;
    last = got->place;
}

/// Receives for a while, or until it is stopped.
weft::task<> receive_some(weft::broadcast<message>::receiver& from, account& all,
                          received_so_far& own, unsigned seed) {
    std::minstd_rand random(seed);
    for (std::size_t left = 1 + random() % 100; left != 0 && !own.ended; --left) {
        if (random() % 4 == 0) {
            const auto got = co_await weft::as_result(
                weft::with_timeout(std::chrono::nanoseconds(random() % 8'000), from.recv()));
            if (got) {
                note(*got, all, own);
            } else if (got.error() == std::errc::timed_out) {
                ++all.late;
            } else {
                ++all.stopped;
                co_return;
            }
        } else {
            const auto got = co_await weft::as_result(from.recv());
            if (!got) {
                if (got.error() != std::errc::operation_canceled) ++all.wrong;
                ++all.stopped;
                co_return;
            }
            note(*got, all, own);
        }
        if (random() % 32 == 0) co_await weft::yield();
    }
}

weft::task<> receive_all(weft::broadcast<message>::receiver from, account& all,
                         std::uint64_t expected, unsigned seed, weft::test::watchdog& dog) {
    std::minstd_rand random(seed);
    received_so_far own;
    while (!own.ended) {
        auto inner = weft::co_spawn(receive_some, std::ref(from), std::ref(all), std::ref(own),
                                    static_cast<unsigned>(random()));
        if (random() % 2 == 0) {
            for (unsigned yields = random() % 16; yields != 0; --yields) co_await weft::yield();
            inner.request_stop();
        }
        // One that was stopped before it started is destroyed, and throws.
        static_cast<void>(co_await weft::as_result(std::move(inner)));
        dog.progress();
    }
    all.received += own.received;
    all.lost += own.lost;
    if (own.received + own.lost != expected) ++all.wrong;
}

weft::task<> storm_task(std::size_t capacity, std::uint64_t count, unsigned seed, account& all,
                        weft::test::watchdog& dog) {
    weft::broadcast<message> values(capacity);
    std::vector<weft::join_handle<void>> sending;
    std::vector<weft::join_handle<void>> receiving;
    for (unsigned i = 0; i < receivers; ++i) {
        receiving.push_back(weft::co_spawn(receive_all, values.subscribe(), std::ref(all),
                                           senders * count, seed + 100 + i, std::ref(dog)));
    }
    for (unsigned who = 0; who < senders; ++who) {
        sending.push_back(weft::co_spawn(send_all, std::ref(values), std::ref(all), unsigned(who),
                                         std::uint64_t(count), seed + who));
    }
    for (auto& each : sending) co_await std::move(each);
    values.close();
    for (auto& each : receiving) co_await std::move(each);
}

void storm(unsigned processors, std::size_t capacity) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed << ", capacity " << capacity);
    const std::uint64_t count = weft::test::scaled_count(100'000, 1'000'000) / senders;
    weft::runtime runtime({.processors = processors});
    weft::test::watchdog dog(60s, [&] { return weft::test::describe(runtime.statistics()); });
    account all;
    runtime
        .co_spawn(storm_task, std::size_t(capacity), std::uint64_t(count), seed, std::ref(all),
                  std::ref(dog))
        .get();
    CHECK(all.wrong == 0);
    CHECK(all.sent == senders * count);
    CHECK(all.received + all.lost == receivers * all.sent);
    CHECK(all.received >= receivers);
}

// -------------------------------------------------------------------------------------------------
// A watch.

weft::task<> see_changes(weft::watch<std::uint64_t>::receiver from, account& all,
                         std::uint64_t last, unsigned seed, weft::test::watchdog& dog) {
    std::minstd_rand random(seed);
    std::uint64_t seen = 0;
    for (;;) {
        std::shared_ptr<const std::uint64_t> value;
        if (random() % 4 == 0) {
            const auto changed = co_await weft::as_result(
                weft::with_timeout(std::chrono::nanoseconds(random() % 8'000), from.changed()));
            if (!changed) {
                if (changed.error() != std::errc::timed_out) ++all.wrong;
                ++all.late;
                continue;
            }
            value = *changed;
        } else {
            value = co_await from.changed();
        }
        if (value == nullptr) break;
        if (*value <= seen) ++all.wrong;
        seen = *value;
        ++all.received;
        dog.progress();
    }
    if (seen != last) ++all.wrong;
}

weft::task<> watch_task(std::uint64_t count, unsigned seed, account& all,
                        weft::test::watchdog& dog) {
    weft::watch<std::uint64_t> value(0);
    std::minstd_rand random(seed);
    std::vector<weft::join_handle<void>> receiving;
    for (unsigned i = 0; i < receivers; ++i) {
        receiving.push_back(weft::co_spawn(see_changes, value.subscribe(), std::ref(all),
                                           std::uint64_t(count), seed + 1 + i, std::ref(dog)));
    }
    for (std::uint64_t i = 1; i <= count; ++i) {
        value.set(i);
        ++all.sent;
        if (random() % 4 == 0) co_await weft::yield();
    }
    value.close();
    for (auto& each : receiving) co_await std::move(each);
}

void watch_storm(unsigned processors) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    const std::uint64_t count = weft::test::scaled_count(100'000, 1'000'000);
    weft::runtime runtime({.processors = processors});
    weft::test::watchdog dog(60s, [&] { return weft::test::describe(runtime.statistics()); });
    account all;
    runtime.co_spawn(watch_task, std::uint64_t(count), seed, std::ref(all), std::ref(dog)).get();
    CHECK(all.wrong == 0);
    CHECK(all.sent == count);
    CHECK(all.received >= receivers);
}

}  // namespace

TEST_CASE("stress: what is received of a broadcast and what is lost is all of it", "[stress]") {
    for (const unsigned processors : {2U, 8U}) {
        for (const std::size_t capacity : {1U, 16U, 1'000U}) storm(processors, capacity);
    }
}

TEST_CASE("stress: the receivers of a watch see the last change", "[stress]") {
    for (const unsigned processors : {2U, 8U}) watch_storm(processors);
}
