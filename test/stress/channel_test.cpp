// SPDX-License-Identifier: MIT
#include "stress/hurried.hpp"
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <system_error>
#include <vector>

// Storms at a channel: many send and receive, some are stopped on the way, and it is closed at some
// moment (Tokio 2854, 3215, 7714 and 8074; futures-rs 282 and 909). Each value is received once or
// stays with its sender, and whatever a sender sends is received in its order.

using namespace std::chrono_literals;
using weft::test::hurried;

namespace {

/// A value that cannot be copied, whose number tells its sender and place.
using message = std::unique_ptr<std::uint64_t>;

constexpr unsigned parties = 4;

struct account {
    explicit account(weft::test::watchdog& all_of) : dog(all_of) {}

    weft::test::watchdog& dog;
    std::atomic<std::uint64_t> made{0}, sent{0}, kept{0}, received{0}, wrong{0};
};

weft::task<> send_all(weft::channel<message>& to, account& all, unsigned who, std::size_t count,
                      unsigned seed) {
    std::minstd_rand random(seed);
    for (std::uint64_t i = 1; i <= count; ++i) {
        auto value = std::make_unique<std::uint64_t>((std::uint64_t{who} << 48) | i);
        ++all.made;
        while (value != nullptr) {
            std::error_code error;
            if (random() % 4 == 0) {
                if (const auto sent = co_await hurried(to.send(std::move(value)), random); !sent) {
                    error = sent.error();
                }
            } else if (const auto sent = co_await weft::as_result(to.send(std::move(value)));
                       !sent) {
                error = sent.error();
            }
            if (!error) {
                ++all.sent;
                if (value != nullptr) ++all.wrong;
                break;
            }
            if (value == nullptr) {
                ++all.wrong;  // It failed and took the value all the same.
                break;
            }
            if (error == weft::errc::closed) {
                ++all.kept;
                co_return;
            }
            if (error != std::errc::timed_out) ++all.wrong;
        }
    }
}

weft::task<> receive_all(weft::channel<message>& from, account& all, unsigned seed) {
    std::minstd_rand random(seed);
    std::uint64_t last[parties] = {};
    for (;;) {
        std::optional<message> got;
        if (random() % 4 == 0) {
            auto result = co_await hurried(from.recv(), random);
            if (!result) {
                if (result.error() != std::errc::timed_out) ++all.wrong;
                continue;
            }
            got = *std::move(result);
        } else {
            got = co_await from.recv();
        }
        if (!got) co_return;
        ++all.received;
        all.dog.progress();
        const std::uint64_t who = **got >> 48;
        const std::uint64_t place = **got & 0xffff'ffff'ffff;
        // One receiver sees the values of one sender in their order.
        if (who >= parties || place <= last[who]) ++all.wrong;
        last[who] = place;
    }
}

weft::task<> storm_task(std::size_t capacity, std::size_t count, bool close_early, unsigned seed,
                        account& all) {
    weft::channel<message> values(capacity);
    std::vector<weft::join_handle<void>> senders;
    std::vector<weft::join_handle<void>> receivers;
    for (unsigned who = 0; who < parties; ++who) {
        senders.push_back(weft::co_spawn(send_all, std::ref(values), std::ref(all), who, count,
                                         seed + who));
        receivers.push_back(
            weft::co_spawn(receive_all, std::ref(values), std::ref(all), seed + 100 + who));
    }
    if (close_early) {
        std::minstd_rand random(seed + 200);
        const std::uint64_t until = 1 + random() % (parties * count);
        while (all.received < until) co_await weft::yield();
        values.close();
    }
    for (auto& each : senders) co_await std::move(each);
    values.close();
    for (auto& each : receivers) co_await std::move(each);
}

void storm(unsigned processors, std::size_t capacity, bool close_early) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed << ", capacity " << capacity);
    const std::size_t rounds = close_early ? 20 : 1;
    const std::size_t total = weft::test::scaled_count(100'000, 1'000'000);
    const std::size_t count = total / (parties * rounds);
    weft::runtime runtime({.processors = processors});
    weft::test::watchdog dog(20s, [&] { return weft::test::describe(runtime.statistics()); });
    for (std::size_t i = 0; i < rounds; ++i) {
        account all(dog);
        runtime
            .co_spawn(storm_task, capacity, count, close_early, seed + static_cast<unsigned>(i),
                      std::ref(all))
            .get();
        CHECK(all.wrong == 0);
        CHECK(all.made == all.sent + all.kept);
        CHECK(all.sent == all.received);
        if (!close_early) CHECK(all.received == parties * count);
    }
}

}  // namespace

TEST_CASE("stress: a channel loses and doubles no value, 2 processors", "[stress]") {
    for (const std::size_t capacity : {0U, 1U, 16U}) storm(2, capacity, false);
}

TEST_CASE("stress: a channel loses and doubles no value, 8 processors", "[stress]") {
    for (const std::size_t capacity : {0U, 1U, 16U}) storm(8, capacity, false);
}

TEST_CASE("regress: a send that meets a close is received or keeps its value", "[stress]") {
    for (const unsigned processors : {2U, 8U}) {
        for (const std::size_t capacity : {0U, 3U}) storm(processors, capacity, true);
    }
}
