// SPDX-License-Identifier: MIT
#include "stress/hurried.hpp"
#include "stress/random_stop.hpp"
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
using weft::test::hurried;
using weft::test::side_by_side;
using weft::test::with_random_stop;

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
            const auto got = co_await hurried(from.recv(), random);
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
        co_await with_random_stop(receive_some(from, all, own, static_cast<unsigned>(random())),
                                  random);
        dog.progress();
    }
    all.received += own.received;
    all.lost += own.lost;
    if (own.received + own.lost != expected) ++all.wrong;
}

weft::task<> storm_task(std::size_t capacity, std::uint64_t count, unsigned seed, account& all,
                        weft::test::watchdog& dog) {
    weft::broadcast<message> values(capacity);
    std::vector<weft::task<>> sending;
    std::vector<weft::task<>> receiving;
    for (unsigned i = 0; i < receivers; ++i) {
        receiving.push_back(
            receive_all(values.subscribe(), all, senders * count, seed + 100 + i, dog));
    }
    for (unsigned who = 0; who < senders; ++who) {
        sending.push_back(send_all(values, all, who, count, seed + who));
    }
    auto received = weft::co_spawn(side_by_side(std::move(receiving)));
    co_await side_by_side(std::move(sending));
    values.close();
    co_await std::move(received);
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
    CHECK(all.stopped != 0);
}

// -------------------------------------------------------------------------------------------------
// A watch.

using change_receiver = weft::watch<std::uint64_t>::receiver;

/// What one receiver has seen.
struct seen_so_far {
    std::uint64_t value = 0;
    bool ended = false;
};

/// Waits for changes for a while, or until it is stopped.
weft::task<> see_some(change_receiver& from, account& all, seen_so_far& seen, unsigned seed) {
    std::minstd_rand random(seed);
    for (std::size_t left = 1 + random() % 100; left != 0 && !seen.ended; --left) {
        const auto changed = random() % 4 == 0 ? co_await hurried(from.changed(), random)
                                               : co_await weft::as_result(from.changed());
        if (!changed) {
            if (changed.error() == std::errc::timed_out) {
                ++all.late;
                continue;
            }
            if (changed.error() != std::errc::operation_canceled) ++all.wrong;
            ++all.stopped;
            co_return;
        }
        if (*changed == nullptr) {
            seen.ended = true;
            co_return;
        }
        if (**changed <= seen.value) ++all.wrong;
        seen.value = **changed;
        ++all.received;
    }
}

weft::task<> see_changes(change_receiver from, account& all, std::uint64_t last, unsigned seed,
                         weft::test::watchdog& dog) {
    std::minstd_rand random(seed);
    seen_so_far seen;
    while (!seen.ended) {
        co_await with_random_stop(see_some(from, all, seen, static_cast<unsigned>(random())),
                                  random);
        dog.progress();
    }
    if (seen.value != last) ++all.wrong;
}

weft::task<> watch_task(std::uint64_t count, unsigned seed, account& all,
                        weft::test::watchdog& dog) {
    weft::watch<std::uint64_t> value(0);
    std::minstd_rand random(seed);
    std::vector<weft::task<>> receiving;
    for (unsigned i = 0; i < receivers; ++i) {
        receiving.push_back(see_changes(value.subscribe(), all, count, seed + 1 + i, dog));
    }
    auto seeing = weft::co_spawn(side_by_side(std::move(receiving)));
    for (std::uint64_t i = 1; i <= count; ++i) {
        value.set(i);
        ++all.sent;
        if (random() % 4 == 0) co_await weft::yield();
    }
    value.close();
    co_await std::move(seeing);
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
    CHECK(all.stopped != 0);
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
