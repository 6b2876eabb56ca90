// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

// A storm of bindings: tasks that bind, fork, group, spawn and are stopped at random, where each of
// them is told as an argument what it has to find. Every look finds exactly that, and every value
// that was bound is destroyed once.

using namespace std::chrono_literals;

namespace {

struct account {
    std::atomic<std::uint64_t> bound{0};  ///< Values that were made.
    std::atomic<std::uint64_t> destroyed{0};
    std::atomic<std::uint64_t> looks{0};
    std::atomic<std::uint64_t> wrong{0};
    std::atomic<std::uint64_t> spawned{0};
    std::atomic<std::uint64_t> ended{0};    ///< Of those that were spawned.
    std::atomic<std::uint64_t> stopped{0};  ///< Parts that a deadline has ended.
};

/// A value whose memory tells when it is gone.
class token {
public:
    token() = default;
    token(account& all, std::uint64_t id) : all_(&all), id_(id) { ++all.bound; }
    token(token&& other) noexcept
        : all_(std::exchange(other.all_, nullptr)), id_(std::exchange(other.id_, 0)) {}
    token& operator=(token&&) = delete;
    ~token() {
        if (all_ != nullptr) ++all_->destroyed;
        id_ = 0xdead;
    }
    std::uint64_t id() const noexcept { return id_; }

private:
    account* all_ = nullptr;
    std::uint64_t id_ = 0;
};

weft::task_local<token> first_local;
weft::task_local<token> second_local;

/// What a task has to find.
struct expected {
    std::uint64_t first = 0;
    std::uint64_t second = 0;
};

void look(account& all, const expected& what) {
    ++all.looks;
    if (first_local.get().id() != what.first || second_local.get().id() != what.second) ++all.wrong;
}

weft::task<> grow(account& all, expected what, int depth, unsigned seed);

weft::task<> spawned_part(account& all, expected what, int depth, unsigned seed) {
    struct at_end {
        account& all;
        ~at_end() { ++all.ended; }
    } const counts{all};
    co_await grow(all, what, depth, seed);
}

weft::task<> suspend(unsigned choice) {
    switch (choice % 4) {
    case 0: co_await weft::yield(); break;
    case 1: co_await weft::checkpoint(); break;
    case 2: co_await weft::sleep_for(std::chrono::nanoseconds(choice % 20'000)); break;
    default: break;
    }
}

weft::task<> bind_more(account& all, expected what, int depth, unsigned seed) {
    std::minstd_rand random(seed);
    const std::uint64_t id = seed + 1ULL;
    expected inside = what;
    if (random() % 2 == 0) {
        inside.first = id;
        co_await first_local.with(token(all, id), grow(all, inside, depth, seed));
    } else {
        inside.second = id;
        const auto bound = second_local.bind(token(all, id));
        look(all, inside);
        co_await grow(all, inside, depth, seed);
        look(all, inside);
    }
    look(all, what);
}

weft::task<> fork(account& all, expected what, int depth, unsigned seed) {
    if (seed % 2 == 0) {
        co_await weft::when_all(grow(all, what, depth, seed / 2),
                                bind_more(all, what, depth, seed / 3),
                                grow(all, what, depth, seed / 5));
        co_return;
    }
    co_await weft::with_task_group(
        {.limit = seed % 3}, [&](weft::task_group& group) -> weft::task<> {
            group.spawn(grow(all, what, depth, seed / 2));
            const std::uint64_t id = seed + 7ULL;
            {
                const auto bound = first_local.bind(token(all, id));
                group.spawn(grow(all, {id, what.second}, depth, seed / 3));
                if (seed % 5 == 0) co_await weft::yield();
            }
            group.spawn(bind_more(all, what, depth, seed / 5));
            look(all, what);
        });
}

weft::task<> grow(account& all, expected what, int depth, unsigned seed) {
    look(all, what);
    std::minstd_rand random(seed);
    random.discard(1);
    co_await suspend(static_cast<unsigned>(random()));
    look(all, what);
    if (depth == 0) co_return;
    const auto next = static_cast<unsigned>(random() % 1'000'000);
    switch (random() % 5) {
    case 0: co_await bind_more(all, what, depth - 1, next); break;
    case 1: co_await fork(all, what, depth - 1, next); break;
    case 2:
        ++all.spawned;
        weft::co_spawn(spawned_part, std::ref(all), expected(what), depth - 1, unsigned(next))
            .detach();
        break;
    case 3:
        ++all.spawned;
        co_await weft::co_spawn(spawned_part, std::ref(all), expected(what), depth - 1,
                                unsigned(next));
        break;
    default: {
        const std::chrono::nanoseconds limit(random() % 100'000);
        const auto part = co_await weft::as_result(
            weft::with_timeout(limit, bind_more(all, what, depth - 1, next)));
        if (!part) ++all.stopped;
        break;
    }
    }
    look(all, what);
}

/// Those that were stopped while they waited for a spawned task leave it alone.
weft::task<> storm(account& all, std::size_t trees) {
    std::minstd_rand random(1);
    for (std::size_t done = 0; done < trees; done += 8) {
        std::vector<weft::join_handle<void>> handles;
        for (int i = 0; i < 8; ++i) {
            ++all.spawned;
            handles.push_back(weft::co_spawn(spawned_part, std::ref(all), expected{}, 8,
                                             static_cast<unsigned>(random())));
        }
        for (auto& each : handles) static_cast<void>(co_await weft::as_result(each));
    }
    while (all.ended != all.spawned) co_await weft::yield();
}

}  // namespace

TEST_CASE("a storm of bindings: everybody finds what was bound around it, and nothing is left",
          "[stress]") {
    for (const unsigned processors : {2U, 8U}) {
        account all;
        const weft::test::watchdog dog(120s, [&] {
            return std::to_string(all.looks) + " looks, " + std::to_string(all.spawned) +
                   " spawned, " + std::to_string(all.ended) + " ended";
        });
        const std::size_t trees = weft::test::scaled_count(4'000, 60'000);
        weft::run(storm(all, trees), {.processors = processors,
                                      .on_failure = [](const weft::task_failure&) {},
                                      .log = [](std::string_view) {}});
        CHECK(all.wrong == 0);
        CHECK(all.ended == all.spawned);
        CHECK(all.destroyed == all.bound);
        CHECK(all.bound > trees);
        CHECK(all.looks > 10 * trees);
        CHECK(all.stopped != 0);
    }
}
