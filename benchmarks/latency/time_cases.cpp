// SPDX-License-Identifier: MIT
#include "cases.hpp"

#include <weft/blocking.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>

#include <sys/prctl.h>

#include <atomic>
#include <thread>
#include <vector>

namespace latency {

namespace {

using namespace std::chrono_literals;

constexpr unsigned blocked_calls = 200;
constexpr auto tick = 1ms;

weft::task<> block_repeatedly(const std::atomic<bool>& over) {
    while (!over.load(std::memory_order_relaxed)) {
        co_await weft::blocking([] { std::this_thread::sleep_for(50ms); });
    }
}

}  // namespace

weft::task<> sleep_50us(samples& found, unsigned rounds) {
    for (unsigned i = 0; i < rounds; ++i) {
        const auto begin = clock::now();
        co_await weft::sleep_for(50us);
        found.add(clock::now() - begin);
    }
}

weft::task<> blocking_ticker(samples& found, unsigned rounds) {
    std::atomic<bool> over = false;
    std::vector<weft::join_handle<void>> blocked;
    for (unsigned i = 0; i < blocked_calls; ++i)
        blocked.push_back(weft::co_spawn(block_repeatedly(over)));
    co_await weft::sleep_for(100ms);  // The threads of the pool are there.
    auto due = clock::now();
    for (unsigned i = 0; i < rounds; ++i) {
        due += tick;
        co_await weft::sleep_until(due);
        found.add(clock::now() - due);
    }
    over = true;
    for (auto& each : blocked) co_await std::move(each);
}

void thread_ticker(samples& found, unsigned rounds) {
    ::prctl(PR_SET_TIMERSLACK, 1UL);
    auto due = clock::now() + 100ms;  // With blocking_ticker().
    for (unsigned i = 0; i < rounds; ++i) {
        due += tick;
        std::this_thread::sleep_until(due);
        found.add(clock::now() - due);
    }
}

}  // namespace latency
