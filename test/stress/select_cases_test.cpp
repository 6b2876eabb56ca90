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
#include <mutex>
#include <optional>
#include <random>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

// Storms of selects with cases of all kinds: a value comes or is taken, a task ends, a stop is
// requested by a task or by a thread outside, and a timer fires at the same time, while the select
// itself is stopped at any moment. One case is made. Each value is received once or stays with its
// sender; each task is joined with its result, at once where its end was the case; and each case
// that was made had happened.

using namespace std::chrono_literals;

namespace {

using message = std::unique_ptr<std::uint64_t>;

constexpr unsigned parties = 4;

enum : std::size_t { moved_value, task_ended, stop_came, time_came, nothing_came };

struct account {
    explicit account(weft::test::watchdog& all_of) : dog(all_of) {}

    weft::test::watchdog& dog;
    std::atomic<std::uint64_t> made{0}, sent{0}, received{0}, wrong{0}, spawned{0}, joined{0};
    std::atomic<std::uint64_t> sum_sent{0}, sum_received{0};
    std::atomic<std::uint64_t> cases[5] = {};
};

std::chrono::nanoseconds a_while(std::minstd_rand& random) {
    return std::chrono::nanoseconds(random() % 20'000);
}

/// The sources of the stops that parties wait for; each is used until its stop is requested.
class stops {
public:
    std::stop_token of(unsigned who) {
        const std::lock_guard held(lock_);
        if (sources_[who].stop_requested()) sources_[who] = {};
        return sources_[who].get_token();
    }
    /// Any thread.
    void request(unsigned who) {
        std::stop_source source{std::nostopstate};
        {
            const std::lock_guard held(lock_);
            source = sources_[who];
        }
        source.request_stop();
    }

private:
    std::mutex lock_;
    std::stop_source sources_[2 * parties];
};

/// What the tasks of one storm work on.
struct storm_of {
    explicit storm_of(std::size_t capacity, account& counts) : between(capacity), all(counts) {}

    weft::channel<message> between;
    stops sources;
    account& all;
};

weft::task<std::uint64_t> short_task(std::uint64_t number, unsigned kind, unsigned while_for) {
    switch (kind % 4) {
    case 0: break;
    case 1: co_await weft::yield(); break;
    case 2: co_await weft::sleep_for(std::chrono::nanoseconds(while_for)); break;
    default:
        for (unsigned i = 0; i < while_for % 8; ++i) co_await weft::yield();
        break;
    }
    co_return number;
}

/// A task that a party waits for, over several selects.
class child {
public:
    weft::join_handle<std::uint64_t>& running(storm_of& in, std::minstd_rand& random) {
        if (!handle_) {
            expected_ = random();
            handle_ = weft::co_spawn(short_task(expected_, static_cast<unsigned>(random()),
                                                static_cast<unsigned>(random() % 10'000)));
            ++in.all.spawned;
        }
        return handle_;
    }
    /// Its end was the case that was made, or the party is at its end.
    weft::task<> join(account& all, bool has_ended) {
        if (!handle_) co_return;
        if (has_ended && !handle_.done()) ++all.wrong;
        const std::uint64_t number = co_await std::move(handle_);
        if (number != expected_) ++all.wrong;
        ++all.joined;
    }

private:
    weft::join_handle<std::uint64_t> handle_;
    std::uint64_t expected_ = 0;
};

/// One select of a party: `which` becomes the case that was made, and `got` what it gave.
template <class Case, class Value>
weft::task<> one_select(storm_of& in, std::minstd_rand& random, unsigned who, child& of,
                        std::size_t& which, std::optional<Value>& got, Case moves) {
    auto& handle = of.running(in, random);
    const std::stop_token token = in.sources.of(who);
    const auto waits = [&] {
        // The order of the cases must not matter; that of one select is as good as any.
        return weft::select(moves, weft::on_end(handle), weft::on_stop(token),
                            weft::sleep_for(a_while(random)));
    };
    if (random() % 5 == 0) {
        auto made = co_await weft::as_result(weft::with_timeout(a_while(random), waits()));
        which = made ? made->index() : nothing_came;
        if (!made && made.error() != std::errc::timed_out) ++in.all.wrong;
        if (which == moved_value) got.emplace(std::get<0>(std::move(*made)));
    } else if (random() % 8 == 0) {
        auto made = co_await weft::select(moves, weft::on_end(handle), weft::on_stop(token),
                                          weft::otherwise);
        which = made.index() == 3 ? std::size_t{nothing_came} : made.index();
        if (which == moved_value) got.emplace(std::get<0>(std::move(made)));
    } else {
        auto made = co_await waits();
        which = made.index();
        if (which == moved_value) got.emplace(std::get<0>(std::move(made)));
    }
    if (which == stop_came && !token.stop_requested()) ++in.all.wrong;
    ++in.all.cases[which];
    if (which == task_ended) co_await of.join(in.all, true);
}

weft::task<> send_all(storm_of& in, unsigned who, std::size_t count, unsigned seed) {
    std::minstd_rand random(seed);
    child other;
    for (std::uint64_t i = 1; i <= count; ++i) {
        const std::uint64_t number = (std::uint64_t{who} << 32) | i;
        auto value = std::make_unique<std::uint64_t>(number);
        ++in.all.made;
        for (bool sent = false; !sent;) {
            std::size_t which = nothing_came;
            std::optional<std::monostate> nothing;
            co_await one_select(in, random, who, other, which, nothing,
                                in.between.send(std::move(value)));
            sent = which == moved_value;
            if (sent != (value == nullptr)) ++in.all.wrong;
        }
        ++in.all.sent;
        in.all.sum_sent += number;
    }
    co_await other.join(in.all, false);
}

weft::task<> receive_all(storm_of& in, unsigned who, unsigned seed) {
    std::minstd_rand random(seed);
    child other;
    for (;;) {
        std::size_t which = nothing_came;
        std::optional<std::optional<message>> got;
        co_await one_select(in, random, who, other, which, got, in.between.recv());
        if (which != moved_value) continue;
        if (!*got) break;
        ++in.all.received;
        in.all.dog.progress();
        in.all.sum_received += ***got;
    }
    co_await other.join(in.all, false);
}

/// Requests stops until it is stopped itself.
weft::task<> request_stops(storm_of& in, unsigned seed) {
    std::minstd_rand random(seed);
    for (;;) {
        co_await weft::sleep_for(a_while(random));
        in.sources.request(static_cast<unsigned>(random() % (2 * parties)));
    }
}

weft::task<> storm_task(storm_of& in, std::size_t count, unsigned seed) {
    std::vector<weft::join_handle<void>> senders;
    std::vector<weft::join_handle<void>> receivers;
    auto stopper = weft::co_spawn(request_stops(in, seed + 300));
    for (unsigned who = 0; who < parties; ++who) {
        senders.push_back(weft::co_spawn(send_all(in, who, count, seed + who)));
        receivers.push_back(weft::co_spawn(receive_all(in, parties + who, seed + 100 + who)));
    }
    for (auto& each : senders) co_await std::move(each);
    in.between.close();
    for (auto& each : receivers) co_await std::move(each);
    stopper.request_stop();
    (void)co_await weft::as_result(std::move(stopper));
}

void storm(unsigned processors, std::size_t capacity) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed << ", capacity " << capacity);
    const std::size_t count = weft::test::scaled_count(50'000, 500'000) / (2 * parties);
    weft::runtime runtime({.processors = processors});
    weft::test::watchdog dog(60s, [&] { return weft::test::describe(runtime.statistics()); });
    account all(dog);
    storm_of in(capacity, all);
    std::jthread outside([&in, seed](std::stop_token end) {
        std::minstd_rand random(seed + 400);
        while (!end.stop_requested()) {
            in.sources.request(static_cast<unsigned>(random() % (2 * parties)));
            std::this_thread::sleep_for(a_while(random));
        }
    });
    runtime.co_spawn(storm_task(in, count, seed)).get();
    CHECK(all.wrong == 0);
    CHECK(all.made == parties * count);
    CHECK(all.sent == all.made);
    CHECK(all.received == all.sent);
    CHECK(all.sum_sent == all.sum_received);
    CHECK(all.spawned == all.joined);
    for (const auto& each : all.cases) CHECK(each != 0);
}

}  // namespace

TEST_CASE("stress: selects with cases of all kinds, 2 processors", "[stress]") {
    for (const std::size_t capacity : {0U, 2U}) storm(2, capacity);
}

TEST_CASE("stress: selects with cases of all kinds, 8 processors", "[stress]") {
    for (const std::size_t capacity : {0U, 2U}) storm(8, capacity);
}
