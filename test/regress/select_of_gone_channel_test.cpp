// SPDX-License-Identifier: MIT
#include "support/backends.hpp"
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/network.hpp"
#include "support/one_processor.hpp"

#include <weft/channel.hpp>
#include <weft/channel_ends.hpp>
#include <weft/runtime.hpp>
#include <weft/select.hpp>
#include <weft/shield.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/yield.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <variant>

// A select that was resumed took the lock of each of its channels, to leave their lines. But one
// that was closed has no lines any more, so its owner may destroy it before the select runs: the
// lock lay in memory that was freed. It was the usual order at the end of a runtime, where the
// frame with the ends of a channel may go before the one that waits.

using namespace std::chrono_literals;
using weft::channel;
using weft::test::run_alone;

namespace {

weft::task<std::size_t> first_of(channel<int>& one, channel<int>& other) {
    auto made = co_await weft::select(one.recv(), other.recv());
    co_return made.index();
}

/// The receiving end of a channel that another task owns.
struct lent_end {
    const weft::receiver<int>* from = nullptr;
};

weft::task<> wait_for_ever(std::shared_ptr<lent_end> lent) {
    while (lent->from == nullptr) co_await weft::yield();
    channel<int> never;
    co_await weft::shield(weft::select(lent->from->recv(), never.recv()));
}

weft::task<> own_ends(std::shared_ptr<lent_end> lent) {
    auto ends = weft::make_channel<int>();
    lent->from = &ends.receiver;
    co_await weft::shield(weft::sleep_for(1h));
}

}  // namespace

TEST_CASE("regress: a channel that served a select may go before that runs", "[regress]") {
    run_alone([]() -> weft::task<> {
        auto served = std::make_unique<channel<int>>();
        channel<int> never;
        auto waiting = weft::co_spawn(first_of, std::ref(*served), std::ref(never));
        co_await weft::test::settle();
        served->close();
        served.reset();
        const std::size_t made = co_await std::move(waiting);
        CHECK(made == 0);
    }());
}

TEST_CASE("regress: a channel that came too late for a select may go before that runs",
          "[regress]") {
    run_alone([]() -> weft::task<> {
        channel<int> served;
        auto late = std::make_unique<channel<int>>();
        auto waiting = weft::co_spawn(first_of, std::ref(served), std::ref(*late));
        co_await weft::test::settle();
        const bool sent = served.try_send(1).has_value();
        CHECK(sent);
        late->close();
        late.reset();
        const std::size_t made = co_await std::move(waiting);
        CHECK(made == 0);
    }());
}

TEST_CASE("regress: at the end of a runtime the ends of a channel may go before a select",
          "[regress]") {
    for (int round = 0; round < 2; ++round) {
        const auto main = []() -> weft::task<> {
            for (int i = 0; i < 8; ++i) {
                auto lent = std::make_shared<lent_end>();
                if (i % 2 == 0) weft::co_spawn(own_ends, lent).detach();
                weft::co_spawn(wait_for_ever, lent).detach();
                if (i % 2 != 0) weft::co_spawn(own_ends, lent).detach();
            }
            co_await weft::test::settle();
        };
        weft::run(main(), {.processors = 1, .compensate = false, .shutdown_grace = 0ms});
    }
    SUCCEED("nothing is touched that has gone");
}

namespace {

/// Holds the turn of readers while a select waits for it, and gives it on as the last thing that
/// happens before the runtime ends.
weft::task<> end_while_a_side_is_woken(int yields) {
    auto owned = std::make_shared<weft::test::stream_pair>(weft::test::local_pair());
    weft::co_spawn(
        [](std::shared_ptr<weft::test::stream_pair> streams) -> weft::task<> {
            for (int i = 0; i < 40; ++i) co_await weft::yield();  // The other one reads first.
            channel<int> never;
            co_await weft::select(streams->server.readable(), never.recv());
        },
        owned)
        .detach();
    weft::co_spawn(
        [](std::shared_ptr<weft::test::stream_pair> streams) -> weft::task<> {
            for (int i = 0; i < 80; ++i) co_await weft::yield();
            co_await streams->client.write_all(std::array{std::byte{1}});
        },
        owned)
        .detach();
    for (int i = 0; i < yields; ++i) co_await weft::yield();
    std::array<std::byte, 1> one;
    co_await owned->server.read_some(one);
}

}  // namespace

TEST_CASE("regress: a runtime ends while a select waits for a side that is woken", "[regress]") {
    for (const char* backend : weft::test::backends()) {
        const weft::test::forced_backend forced(backend);
        const auto result = weft::test::run_in_child([] {
            for (int yields = 0; yields < 24; ++yields) {
                weft::run(end_while_a_side_is_woken(yields),
                          {.processors = 1, .compensate = false, .shutdown_grace = 0ms});
            }
        });
        INFO("netpoll: " << backend << ", " << result.describe());
        CHECK(result.signal == 0);
        CHECK(result.status == 0);
    }
}
