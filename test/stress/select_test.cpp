// SPDX-License-Identifier: MIT
#include "stress/random_stop.hpp"
#include "stress/value_storm.hpp"
#include "support/catch.hpp"

#include <weft/weft.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

// Storms of selects: each task sends to whichever of several channels takes its value, or receives
// from whichever has one, beside timers that fire and stops that come at any moment. Each value is
// received once or stays with its sender, and whoever waits is served.

using weft::test::message;
using weft::test::value_account;
using weft::test::value_parties;
using weft::test::value_plan;
using weft::test::with_random_stop;

namespace {

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
weft::task<weft::result<std::size_t>> one_step(std::minstd_rand& random, value_account& all,
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
            if (made->index() == none) ++all.late;
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

struct sender : weft::test::value_sender {
    // One of the three is sent; the others stay where they are. Null: it is not made yet.
    message values[3] = {};
};

/// Sends for a while, or until it is stopped.
weft::task<> send_some(channels& to, value_account& all, sender& self, unsigned seed) {
    std::minstd_rand random(seed);
    message(&values)[3] = self.values;
    for (std::size_t left = 1 + random() % 100; left != 0 && !self.done(); --left) {
        if (values[0] == nullptr) {
            for (auto& each : values) each = std::make_unique<std::uint64_t>(self.number());
            ++all.made;
        }
        const auto made = co_await one_step(random, all, to.one.send(std::move(values[0])),
                                            to.two.send(std::move(values[1])),
                                            to.three.send(std::move(values[2])));
        std::size_t gone = 0;
        for (const auto& each : values) gone += each == nullptr ? 1 : 0;
        if (!made || *made == 3) {
            if (gone != 0) ++all.wrong;  // It made no case and took a value all the same.
            if (made) continue;
            if (made.error() == std::errc::operation_canceled) {
                ++all.stopped;
                co_return;
            }
            if (made.error() != weft::errc::closed) ++all.wrong;
            ++all.kept;
            self.closed = true;
            co_return;
        }
        if (gone != 1 || values[*made] != nullptr) ++all.wrong;
        values[0] = nullptr;
        ++all.sent;
        all.sum_sent += self.number();
        ++self.next;
    }
}

weft::task<> send_all(channels& to, value_account& all, unsigned who, std::size_t count,
                      unsigned seed) {
    std::minstd_rand random(seed);
    sender self{{.who = who, .count = count}};
    while (!self.done()) {
        co_await with_random_stop(send_some(to, all, self, static_cast<unsigned>(random())),
                                  random);
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

/// Receives for a while, or until it is stopped. False in `open`: that channel is closed.
weft::task<> receive_some(channels& from, value_account& all, bool (&open)[3], unsigned seed) {
    std::minstd_rand random(seed);
    const auto wait = [&from] {
        return weft::select(from.one.recv(), from.two.recv(), from.three.recv());
    };
    for (std::size_t left = 1 + random() % 100; left != 0; --left) {
        if (!open[0] && !open[1] && !open[2]) co_return;
        std::optional<message> got;
        std::size_t index = 0;
        if (random() % 4 == 0) {
            auto made = co_await weft::as_result(weft::with_timeout(a_while(random), wait()));
            if (!made) {
                if (made.error() == std::errc::operation_canceled) co_return;
                if (made.error() != std::errc::timed_out) ++all.wrong;
                continue;
            }
            index = made->index();
            got = value_of(*made);
        } else if (random() % 4 == 0) {
            auto made = co_await weft::select(from.one.recv(), from.two.recv(), from.three.recv(),
                                              weft::sleep_for(a_while(random)));
            if (made.index() == 3) {
                ++all.late;
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

weft::task<> receive_all(channels& from, value_account& all, unsigned seed) {
    std::minstd_rand random(seed);
    bool open[3] = {true, true, true};
    while (open[0] || open[1] || open[2]) {
        co_await with_random_stop(receive_some(from, all, open, static_cast<unsigned>(random())),
                                  random);
    }
}

weft::task<> storm(value_plan plan, value_account& all) {
    channels between(plan.capacity);
    std::vector<weft::task<>> senders;
    std::vector<weft::task<>> receivers;
    for (unsigned who = 0; who < value_parties; ++who) {
        senders.push_back(send_all(between, all, who, plan.count, plan.seed + who));
        receivers.push_back(receive_all(between, all, plan.seed + 100 + who));
    }
    co_await send_and_receive(plan, all, std::move(senders), std::move(receivers), [&] {
        for (auto* each : {&between.two, &between.one, &between.three}) each->close();
    });
}

}  // namespace

TEST_CASE("stress: selects lose and double no value, 2 processors", "[stress]") {
    for (const std::size_t capacity : {0U, 2U}) weft::test::value_storm(2, capacity, false, storm);
}

TEST_CASE("stress: selects lose and double no value, 8 processors", "[stress]") {
    for (const std::size_t capacity : {0U, 2U}) weft::test::value_storm(8, capacity, false, storm);
}

TEST_CASE("stress: a select that meets a close sends or keeps its value", "[stress]") {
    for (const unsigned processors : {2U, 8U}) weft::test::value_storm(processors, 1, true, storm);
}
