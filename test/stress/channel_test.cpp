// SPDX-License-Identifier: MIT
#include "stress/hurried.hpp"
#include "stress/random_stop.hpp"
#include "stress/value_storm.hpp"
#include "support/catch.hpp"

#include <weft/weft.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

// Storms at a channel: many send and receive, some are stopped on the way, and it is closed at some
// moment (Tokio 2854, 3215, 7714 and 8074; futures-rs 282 and 909). Each value is received once or
// stays with its sender, and whatever a sender sends is received in its order.

using weft::test::hurried;
using weft::test::message;
using weft::test::value_account;
using weft::test::value_parties;
using weft::test::value_plan;
using weft::test::with_random_stop;

namespace {

struct sender : weft::test::value_sender {
    message value = nullptr;
};

/// Counts how a send has ended that is not done. False: no other one is to follow.
bool note_failure(value_account& all, sender& self, const std::error_code& error) {
    if (self.value == nullptr) ++all.wrong;  // It failed and took the value all the same.
    if (error == std::errc::timed_out) {
        ++all.late;
        return self.value != nullptr;
    }
    if (error == weft::errc::closed) {
        ++all.kept;
        self.closed = true;
    } else if (error == std::errc::operation_canceled) {
        ++all.stopped;
    } else {
        ++all.wrong;
    }
    return false;
}

/// Sends for a while, or until it is stopped.
weft::task<> send_some(weft::channel<message>& to, value_account& all, sender& self,
                       unsigned seed) {
    std::minstd_rand random(seed);
    for (std::size_t left = 1 + random() % 100; left != 0 && !self.done(); --left) {
        if (self.value == nullptr) {
            self.value = std::make_unique<std::uint64_t>(self.number());
            ++all.made;
        }
        const auto sent = random() % 4 == 0
                              ? co_await hurried(to.send(std::move(self.value)), random)
                              : co_await weft::as_result(to.send(std::move(self.value)));
        if (!sent) {
            if (!note_failure(all, self, sent.error())) co_return;
            continue;
        }
        ++all.sent;
        all.sum_sent += self.number();
        ++self.next;
        if (self.value != nullptr) ++all.wrong;
    }
}

weft::task<> send_all(weft::channel<message>& to, value_account& all, unsigned who,
                      std::size_t count, unsigned seed) {
    std::minstd_rand random(seed);
    sender self{{.who = who, .count = count}};
    while (!self.done()) {
        co_await with_random_stop(send_some(to, all, self, static_cast<unsigned>(random())),
                                  random);
    }
}

/// The same of one that receives.
struct receiver {
    std::uint64_t last[value_parties] = {};
    bool ended = false;
};

/// Receives for a while, or until it is stopped.
weft::task<> receive_some(weft::channel<message>& from, value_account& all, receiver& self,
                          unsigned seed) {
    std::minstd_rand random(seed);
    for (std::size_t left = 1 + random() % 100; left != 0; --left) {
        const auto got = random() % 4 == 0 ? co_await hurried(from.recv(), random)
                                           : co_await weft::as_result(from.recv());
        if (!got) {
            if (got.error() == std::errc::timed_out) continue;
            if (got.error() != std::errc::operation_canceled) ++all.wrong;
            ++all.stopped;
            co_return;
        }
        if (!*got) {
            self.ended = true;
            co_return;
        }
        ++all.received;
        all.sum_received += ***got;
        all.dog.progress();
        const std::uint64_t who = ***got >> 48;
        const std::uint64_t place = ***got & 0xffff'ffff'ffff;
        // One receiver sees the values of one sender in their order.
        if (who >= value_parties || place <= self.last[who]) ++all.wrong;
        self.last[who % value_parties] = place;
    }
}

weft::task<> receive_all(weft::channel<message>& from, value_account& all, unsigned seed) {
    std::minstd_rand random(seed);
    receiver self;
    while (!self.ended) {
        co_await with_random_stop(receive_some(from, all, self, static_cast<unsigned>(random())),
                                  random);
    }
}

weft::task<> storm(value_plan plan, value_account& all) {
    weft::channel<message> values(plan.capacity);
    std::vector<weft::task<>> senders;
    std::vector<weft::task<>> receivers;
    for (unsigned who = 0; who < value_parties; ++who) {
        senders.push_back(send_all(values, all, who, plan.count, plan.seed + who));
        receivers.push_back(receive_all(values, all, plan.seed + 100 + who));
    }
    co_await send_and_receive(plan, all, std::move(senders), std::move(receivers),
                              [&] { values.close(); });
}

}  // namespace

TEST_CASE("stress: a channel loses and doubles no value, 2 processors", "[stress]") {
    for (const std::size_t capacity : {0U, 1U, 16U})
        weft::test::value_storm(2, capacity, false, storm);
}

TEST_CASE("stress: a channel loses and doubles no value, 8 processors", "[stress]") {
    for (const std::size_t capacity : {0U, 1U, 16U})
        weft::test::value_storm(8, capacity, false, storm);
}

TEST_CASE("regress: a send that meets a close is received or keeps its value", "[stress]") {
    for (const unsigned processors : {2U, 8U}) {
        for (const std::size_t capacity : {0U, 3U})
            weft::test::value_storm(processors, capacity, true, storm);
    }
}
