// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <system_error>
#include <variant>
#include <vector>

// Storms of selects: each task sends to whichever of several channels takes its value, or receives
// from whichever has one, beside timers that fire and stops that come at any moment. Each value is
// received once or stays with its sender, and whoever waits is served.

using namespace std::chrono_literals;

namespace {

using message = std::unique_ptr<std::uint64_t>;

constexpr unsigned parties = 4;

struct account {
    explicit account(weft::test::watchdog& all_of) : dog(all_of) {}

    weft::test::watchdog& dog;
    std::atomic<std::uint64_t> made{0}, sent{0}, kept{0}, received{0}, times{0}, wrong{0};
    std::atomic<std::uint64_t> sum_sent{0}, sum_received{0};
};

struct channels {
    explicit channels(std::size_t capacity) : one(capacity), two(0), three(capacity) {}
    weft::channel<message> one, two, three;
};

std::chrono::nanoseconds a_while(std::minstd_rand& random) {
    return std::chrono::nanoseconds(random() % 20'000);
}

/// The ways of one step: stopped by a deadline, beside a timer, without waiting, or plainly. The
/// index of the case that was made; the timer and the case of not waiting count as `cases`.
template <class... Cases>
weft::task<weft::result<std::size_t>> one_step(std::minstd_rand& random, account& all,
                                               Cases... cases) {
    constexpr std::size_t none = sizeof...(Cases);
    switch (random() % 6) {
        case 0: {
            const auto made = co_await weft::as_result(
                weft::with_timeout(a_while(random), weft::select(cases...)));
            if (made) co_return made->index();
            if (made.error() == std::errc::timed_out) co_return none;
            co_return weft::failure(made.error());
        }
        case 1: {
            const auto made = co_await weft::as_result(
                weft::select(cases..., weft::sleep_for(a_while(random))));
            if (!made) co_return weft::failure(made.error());
            if (made->index() == none) ++all.times;
            co_return made->index();
        }
        case 2: {
            const auto made = co_await weft::as_result(weft::select(cases..., weft::otherwise));
            if (!made) co_return weft::failure(made.error());
            co_return made->index();
        }
        default: {
            const auto made = co_await weft::as_result(weft::select(cases...));
            if (!made) co_return weft::failure(made.error());
            co_return made->index();
        }
    }
}

weft::task<> send_all(channels& to, account& all, unsigned who, std::size_t count, unsigned seed) {
    std::minstd_rand random(seed);
    for (std::uint64_t i = 1; i <= count; ++i) {
        const std::uint64_t number = (std::uint64_t{who} << 32) | i;
        // One of the three is sent; the others stay where they are.
        message values[3];
        for (auto& each : values) each = std::make_unique<std::uint64_t>(number);
        ++all.made;
        for (;;) {
            const auto made = co_await one_step(random, all, to.one.send(std::move(values[0])),
                                                to.two.send(std::move(values[1])),
                                                to.three.send(std::move(values[2])));
            std::size_t gone = 0;
            for (const auto& each : values) gone += each == nullptr ? 1 : 0;
            if (!made || *made == 3) {
                if (gone != 0) ++all.wrong;  // It made no case and took a value all the same.
                if (made) continue;
                if (made.error() != weft::errc::closed) ++all.wrong;
                ++all.kept;
                co_return;
            }
            if (gone != 1 || values[*made] != nullptr) ++all.wrong;
            ++all.sent;
            all.sum_sent += number;
            break;
        }
    }
}

/// What a receive case of a select gave.
template <class Made>
std::optional<message> value_of(Made& made) {
    switch (made.index()) {
        case 0: return std::get<0>(std::move(made));
        case 1: return std::get<1>(std::move(made));
        default: return std::get<2>(std::move(made));
    }
}

weft::task<> receive_all(channels& from, account& all, unsigned seed) {
    std::minstd_rand random(seed);
    bool open[3] = {true, true, true};
    while (open[0] || open[1] || open[2]) {
        std::optional<message> got;
        std::size_t index = 0;
        const auto wait = [&] {
            return weft::select(from.one.recv(), from.two.recv(), from.three.recv());
        };
        if (random() % 4 == 0) {
            auto made = co_await weft::as_result(weft::with_timeout(a_while(random), wait()));
            if (!made) {
                if (made.error() != std::errc::timed_out) ++all.wrong;
                continue;
            }
            index = made->index();
            got = value_of(*made);
        } else if (random() % 4 == 0) {
            auto made = co_await weft::select(from.one.recv(), from.two.recv(), from.three.recv(),
                                              weft::sleep_for(a_while(random)));
            if (made.index() == 3) {
                ++all.times;
                continue;
            }
            index = made.index();
            got = value_of(made);
        } else if (random() % 8 == 0 && open[1]) {
            index = 1;
            got = co_await from.two.recv();
        } else {
            auto made = co_await wait();
            index = made.index();
            got = value_of(made);
        }
        if (!got) {
            open[index] = false;
            continue;
        }
        ++all.received;
        all.dog.progress();
        all.sum_received += **got;
    }
}

weft::task<> storm_task(std::size_t capacity, std::size_t count, bool close_early, unsigned seed,
                        account& all) {
    channels between(capacity);
    std::vector<weft::join_handle<void>> senders;
    std::vector<weft::join_handle<void>> receivers;
    for (unsigned who = 0; who < parties; ++who) {
        senders.push_back(weft::co_spawn(send_all, std::ref(between), std::ref(all), who, count,
                                         seed + who));
        receivers.push_back(
            weft::co_spawn(receive_all, std::ref(between), std::ref(all), seed + 100 + who));
    }
    if (close_early) {
        std::minstd_rand random(seed + 200);
        const std::uint64_t until = 1 + random() % (parties * count);
        while (all.received < until) co_await weft::yield();
        between.two.close();
        between.one.close();
        between.three.close();
    }
    for (auto& each : senders) co_await std::move(each);
    for (auto* each : {&between.one, &between.two, &between.three}) each->close();
    for (auto& each : receivers) co_await std::move(each);
}

void storm(unsigned processors, std::size_t capacity, bool close_early) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed << ", capacity " << capacity);
    const std::size_t rounds = close_early ? 20 : 1;
    const std::size_t total = weft::test::scaled_count(50'000, 1'000'000);
    const std::size_t count = total / (parties * rounds);
    weft::runtime runtime({.processors = processors});
    weft::test::watchdog dog(60s, [&] { return weft::test::describe(runtime.statistics()); });
    for (std::size_t i = 0; i < rounds; ++i) {
        account all(dog);
        runtime
            .co_spawn(storm_task, capacity, count, close_early, seed + static_cast<unsigned>(i),
                      std::ref(all))
            .get();
        CHECK(all.wrong == 0);
        CHECK(all.made == all.sent + all.kept);
        CHECK(all.sent == all.received);
        CHECK(all.sum_sent == all.sum_received);
        if (!close_early) {
            CHECK(all.received == parties * count);
            CHECK(all.times != 0);
        }
    }
}

}  // namespace

TEST_CASE("stress: selects lose and double no value, 2 processors", "[stress]") {
    for (const std::size_t capacity : {0U, 2U}) storm(2, capacity, false);
}

TEST_CASE("stress: selects lose and double no value, 8 processors", "[stress]") {
    for (const std::size_t capacity : {0U, 2U}) storm(8, capacity, false);
}

TEST_CASE("stress: a select that meets a close sends or keeps its value", "[stress]") {
    for (const unsigned processors : {2U, 8U}) storm(processors, 1, true);
}
