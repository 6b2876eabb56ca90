// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/network.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

// The number of processors changes at random while tasks yield, sleep, hand each other on, and talk
// over sockets, and while threads outside post: everything happens exactly once.

using namespace std::chrono_literals;

namespace {

struct counts {
    std::atomic<std::uint64_t> yields{0}, sleeps{0}, late{0}, echoes{0}, spawned{0}, ended{0};
    std::atomic<std::uint64_t> changes{0};
    std::atomic<bool> stop{false};
    std::function<void()> progress;
};

struct load {
    std::size_t yields, sleeps, echoes, spawns, posts;
    unsigned most;
};

weft::task<> yielder(counts& all, std::size_t rounds) {
    for (std::size_t i = 0; i < rounds; ++i) {
        co_await weft::yield();
        ++all.yields;
    }
}

weft::task<> sleeper(counts& all, std::size_t rounds, unsigned seed) {
    std::minstd_rand random(seed);
    for (std::size_t i = 0; i < rounds; ++i) {
        const auto nap = std::chrono::microseconds(random() % 2000);
        const auto until = std::chrono::steady_clock::now() + nap;
        co_await weft::sleep_until(until);
        if (std::chrono::steady_clock::now() < until) throw std::logic_error("too early");
        if (std::chrono::steady_clock::now() > until + 5s) ++all.late;
        ++all.sleeps;
        all.progress();
    }
}

/// A sleep that a deadline cuts short: its timer is taken out of a heap, wherever that is by then.
weft::task<> cut_short(counts& all, std::size_t rounds, unsigned seed) {
    std::minstd_rand random(seed);
    for (std::size_t i = 0; i < rounds; ++i) {
        bool timed_out = false;
        try {
            co_await weft::with_timeout(std::chrono::microseconds(random() % 500),
                                        weft::sleep_for(1h));
        } catch (const std::system_error& error) {
            timed_out = error.code() == std::errc::timed_out;
        }
        if (!timed_out) throw std::logic_error("no timeout");
        ++all.sleeps;
    }
}

weft::task<> echo(weft::net::tcp_stream stream) {
    std::array<std::byte, 64> buffer;
    while (const std::size_t count = co_await stream.read_some(buffer)) {
        co_await stream.write_all(std::span(buffer).first(count));
    }
    co_await stream.close();
}

weft::task<> client(counts& all, weft::net::tcp_stream stream, std::size_t rounds, unsigned seed) {
    std::minstd_rand random(seed);
    for (std::size_t i = 0; i < rounds; ++i) {
        const std::array sent{static_cast<std::byte>(i), static_cast<std::byte>(seed)};
        std::array<std::byte, 2> received{};
        co_await stream.write_all(sent);
        co_await stream.read_exact(received);
        if (received != sent) throw std::logic_error("another echo");
        ++all.echoes;
        all.progress();
        if (random() % 8 == 0) co_await weft::sleep_for(100us);
    }
    co_await stream.close();
}

weft::task<> leaf(counts& all) {
    ++all.ended;
    co_return;
}

weft::task<> spawner(counts& all, std::size_t rounds) {
    for (std::size_t i = 0; i < rounds; ++i) {
        std::vector<weft::join_handle<void>> handles;
        for (int n = 0; n < 300; ++n) {  // More than a ring holds.
            ++all.spawned;
            handles.push_back(weft::co_spawn(leaf, std::ref(all)));
        }
        for (auto& each : handles) co_await std::move(each);
    }
}

/// A task that changes the number itself, perhaps that of its own processor.
weft::task<> changer(counts& all, unsigned most, unsigned seed) {
    std::minstd_rand random(seed);
    while (!all.stop) {
        weft::this_runtime::set_processors(1 + static_cast<unsigned>(random()) % most);
        ++all.changes;
        co_await weft::sleep_for(std::chrono::microseconds(random() % 1500));
    }
}

weft::task<> work(counts& all, const load& of, unsigned seed) {
    std::vector<weft::join_handle<void>> handles, servers;
    for (unsigned i = 0; i < 8; ++i) {
        handles.push_back(weft::co_spawn(yielder, std::ref(all), of.yields));
        handles.push_back(weft::co_spawn(sleeper, std::ref(all), of.sleeps, seed + i));
        handles.push_back(weft::co_spawn(cut_short, std::ref(all), of.sleeps, seed + 50 + i));
        auto pair = co_await weft::test::connected_pair();
        servers.push_back(weft::co_spawn(echo, std::move(pair.server)));
        handles.push_back(weft::co_spawn(client, std::ref(all), std::move(pair.client), of.echoes,
                                         seed + 100 + i));
    }
    for (unsigned i = 0; i < 2; ++i) {
        handles.push_back(weft::co_spawn(spawner, std::ref(all), of.spawns));
    }
    auto changing = weft::co_spawn(changer, std::ref(all), of.most, seed + 200);
    for (auto& each : handles) co_await std::move(each);
    for (auto& each : servers) co_await std::move(each);
    all.stop = true;
    co_await std::move(changing);
}

void run_with_seed(const char* backend, const load& of, unsigned seed) {
    INFO("netpoll " << backend << ", seed " << seed);
    const weft::test::forced_backend forced(backend);
    weft::runtime runtime({.processors = 2});
    weft::test::watchdog dog(30s, [&] {
        return std::string(backend) + ", seed " + std::to_string(seed) + "\n" +
               weft::test::describe(runtime.statistics());
    });
    counts all;
    all.progress = [&] { dog.progress(); };
    auto main = runtime.co_spawn(work, std::ref(all), std::cref(of), seed);
    std::vector<std::thread> outside;
    for (unsigned t = 0; t < 2; ++t) {
        outside.emplace_back([&, t] {
            std::minstd_rand random(seed + 300 + t);
            for (std::size_t i = 0; i < of.posts; ++i) {
                runtime.co_spawn(leaf, std::ref(all)).get();
                ++all.spawned;
                if (random() % 16 == 0) {
                    runtime.set_processors(1 + static_cast<unsigned>(random()) % of.most);
                    ++all.changes;
                }
            }
        });
    }
    main.get();
    for (auto& each : outside) each.join();
    const auto statistics = runtime.statistics();
    std::uint64_t ended = 0;
    for (const auto& each : statistics.processors) ended += each.ended;
    CHECK(all.yields == 8 * of.yields);
    CHECK(all.sleeps == 2 * 8 * of.sleeps);
    CHECK(all.late == 0);
    CHECK(all.echoes == 8 * of.echoes);
    CHECK(all.ended == all.spawned);
    CHECK(all.changes > 2);
    const std::uint64_t tasks = 1 + 8 * 5 + 2 + 1 + all.spawned;
    CHECK(statistics.tasks_spawned() == tasks);
    CHECK(ended == tasks);
    // On a busy machine others may run in the place of those that make more, which takes long
    // there.
    CHECK(statistics.processors.size() <= 2 * of.most);
}

}  // namespace

TEST_CASE("stress: the number of processors changes at random, and nothing is lost or doubled",
          "[stress]") {
    const std::size_t scale = weft::test::scaled_count(10, 1000);
    const load of{.yields = 300 * scale,
                  .sleeps = 12 * scale,
                  .echoes = 50 * scale,
                  .spawns = 1 + scale,
                  .posts = 60 * scale,
                  .most = 6};
    for (const char* backend : weft::test::backends()) {
        const unsigned seed = std::random_device{}();
        for (unsigned i = 0; i < 4; ++i) run_with_seed(backend, of, seed + 1000 * i);
    }
}
