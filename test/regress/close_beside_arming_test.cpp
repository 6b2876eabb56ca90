// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/network.hpp"
#include "support/scale.hpp"

#include <weft/as_result.hpp>
#include <weft/error.hpp>
#include <weft/spawn.hpp>
#include <weft/yield.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <utility>

// In an epoll set a closer ends the poll of a descriptor itself. It did so, and gave the poll's
// reference back, between the moment at which the operation made the poll known and the moment at
// which it added that reference: the descriptor was closed under the operation, and its slot was
// given back twice, so that later two sockets had one slot. It takes a worker that is interrupted
// between two instructions, so this seldom meets it; epoll_close_model.cpp always does, and the
// assertions of descriptor_word.hpp tell it wherever it happens.

using weft::net::tcp_stream;

namespace {

/// Two tasks meet here at the beginning and at the end of each round.
class meeting {
public:
    weft::task<> arrive() {
        const int wanted = (arrived_.fetch_add(1) / 2 + 1) * 2;
        for (int looked = 0; arrived_.load() < wanted; ++looked) {
            weft::detail::layer::pause();
            if (looked % 1024 != 1023) continue;
            // Where other processes have the processors, the other one waits for this thread's.
            std::this_thread::yield();
            co_await weft::yield();
        }
    }

private:
    std::atomic<int> arrived_{0};
};

weft::task<int> read_in_each(tcp_stream& from, meeting& both, int rounds) {
    int told = 0;
    for (int i = 0; i < rounds; ++i) {
        co_await both.arrive();
        std::array<std::byte, 1> one;
        const auto result = co_await weft::as_result(from.read_some(one));
        if (!result && result.error() == weft::errc::closed) ++told;
        co_await both.arrive();
    }
    co_return told;
}

weft::task<> close_in_each(int rounds) {
    meeting both;
    tcp_stream read;
    auto reading = weft::co_spawn(read_in_each, std::ref(read), std::ref(both), rounds);
    for (int i = 0; i < rounds; ++i) {
        weft::test::stream_pair made = weft::test::local_pair();
        read = std::move(made.server);
        co_await both.arrive();
        // The reader enters, asks the kernel and arms; the closer comes at any of these moments.
        for (int left = i % 100; left > 0; --left) weft::detail::layer::pause();
        co_await read.close();
        co_await both.arrive();
    }
    const int told = co_await std::move(reading);
    CHECK(told == rounds);
}

}  // namespace

TEST_CASE("regress: a close beside an operation that is arming its poll", "[regress][netpoll]") {
    const int rounds = static_cast<int>(weft::test::scaled_count(5'000, 1'000'000));
    const std::size_t descriptors = weft::test::descriptor_count();
    weft::test::on_each_backend([=] { return close_in_each(rounds); });
    CHECK(weft::test::descriptor_count() == descriptors);
}
