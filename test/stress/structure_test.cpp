// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <random>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

// Storms of children: they throw, are stopped, suspend, and open groups of their own at random.
// Every child that starts ends before its scope is left, every failure is thrown or told, and
// nobody is forgotten.

using namespace std::chrono_literals;

namespace {

struct account {
    std::atomic<std::uint64_t> made{0};  ///< Frames of children.
    std::atomic<std::uint64_t> gone{0};  ///< Those that were destroyed.
    std::atomic<std::uint64_t> started{0};
    std::atomic<std::uint64_t> ended{0};
    std::atomic<std::uint64_t> thrown{0};
    std::atomic<std::uint64_t> caught{0};
    std::atomic<std::uint64_t> suppressed{0};
    std::atomic<std::uint64_t> wrong{0};

    // Children of each kind, and waits of children.
    std::atomic<std::uint64_t> grouped{0}, of_all{0}, of_any{0}, of_race{0}, shielded{0}, timed{0};

    std::uint64_t fewest() const {
        return std::min({grouped.load(), of_all.load(), of_any.load(), of_race.load(),
                         shielded.load(), timed.load()});
    }
};

/// What a child throws, other than what it has from a stop.
struct failure : std::runtime_error {
    failure() : std::runtime_error("on purpose") {}
};

/// An argument of a child: its frame is there for as long as this is.
class counted {
public:
    counted(account& all, std::atomic<int>& alive) : all_(&all), alive_(&alive) {
        ++all.made;
        ++alive;
    }
    counted(counted&& other) noexcept
        : all_(std::exchange(other.all_, nullptr)), alive_(other.alive_) {}
    ~counted() {
        if (all_ == nullptr) return;
        --*alive_;
        ++all_->gone;
    }

private:
    account* all_;
    std::atomic<int>* alive_;
};

/// Inside a running child.
class running {
public:
    explicit running(account& all) : all_(all) { ++all_.started; }
    ~running() { ++all_.ended; }
    running(const running&) = delete;

private:
    account& all_;
};

weft::task<> family(account& all, int depth, unsigned seed);

weft::task<> child(account& all, counted, int depth, unsigned seed) {
    const running here(all);
    std::minstd_rand random(seed);
    for (unsigned steps = static_cast<unsigned>(random() % 3); steps != 0; --steps) {
        const std::chrono::nanoseconds time(random() % 10'000);
        switch (random() % 5) {
        case 0: co_await weft::sleep_for(time); break;
        case 1: co_await weft::checkpoint(); break;
        case 2: {
            ++all.shielded;
            // Stops wait until it is over.
            if (!co_await weft::as_result(weft::shield(weft::sleep_for(time)))) ++all.wrong;
            break;
        }
        case 3: {
            ++all.timed;
            const auto limit = std::chrono::steady_clock::now() + 5us;
            const auto slept =
                co_await weft::as_result(weft::with_deadline(limit, weft::sleep_for(time)));
            // Of its own deadline, of one further out, or of a stop.
            if (!slept && slept.error() != std::errc::timed_out &&
                slept.error() != std::errc::operation_canceled) {
                ++all.wrong;
            }
            break;
        }
        default: co_await weft::yield();
        }
    }
    if (depth != 0 && random() % 8 == 0) {
        co_await family(all, depth - 1, static_cast<unsigned>(random()));
    }
    if (random() % 32 == 0) {
        ++all.thrown;
        throw failure();
    }
    if (random() % 16 == 0) {
        ++all.timed;
        weft::channel<int> nobody;  // Only a stop ends this.
        static_cast<void>(co_await weft::as_result(weft::with_timeout(50us, nobody.recv())));
    }
}

/// Counts a failure that comes out of a scope, and looks whether a child is left.
struct outcome {
    account& all;
    std::atomic<int>& alive;

    void check() const {
        if (alive != 0) ++all.wrong;
    }
};

weft::task<> grouped(account& all, int depth, unsigned seed, unsigned count) {
    std::minstd_rand random(seed);
    std::atomic<int> alive{0};
    const std::size_t limits[] = {0, 1, 3};
    const bool stops = random() % 8 == 0;
    try {
        co_await weft::with_task_group(
            {.limit = limits[random() % 3]}, [&](weft::task_group& group) -> weft::task<> {
                for (unsigned i = 0; i < count; ++i) {
                    ++all.grouped;
                    group.spawn(
                        child(all, counted(all, alive), depth, static_cast<unsigned>(random())));
                    if (random() % 8 == 0) co_await weft::yield();
                }
                if (stops) group.request_stop();
            });
    } catch (const failure&) { ++all.caught; } catch (const std::system_error&) {
    }
    outcome{all, alive}.check();
}

std::vector<weft::task<>> children(account& all, std::atomic<int>& alive, int depth,
                                   std::minstd_rand& random, unsigned count) {
    std::vector<weft::task<>> made;
    for (; count != 0; --count) {
        made.push_back(child(all, counted(all, alive), depth, static_cast<unsigned>(random())));
    }
    return made;
}

weft::task<> all_of(account& all, int depth, unsigned seed, unsigned count) {
    std::minstd_rand random(seed);
    std::atomic<int> alive{0};
    all.of_all += count;
    try {
        auto tasks = children(all, alive, depth, random, count);
        if (random() % 2 == 0) {
            const std::chrono::nanoseconds limit(random() % 50'000);
            co_await weft::with_timeout(limit, weft::when_all(std::move(tasks)));
        } else {
            co_await weft::when_all(std::move(tasks));
        }
    } catch (const failure&) { ++all.caught; } catch (const std::system_error&) {
    }
    outcome{all, alive}.check();
}

weft::task<> any_of(account& all, int depth, unsigned seed, unsigned count) {
    std::minstd_rand random(seed);
    std::atomic<int> alive{0};
    all.of_any += count;
    try {
        auto tasks = children(all, alive, depth, random, count);
        if (random() % 2 == 0) {
            const std::chrono::nanoseconds time(random() % 50'000);
            static_cast<void>(
                co_await weft::when_any(weft::when_any(std::move(tasks)), weft::sleep_for(time)));
        } else {
            static_cast<void>(co_await weft::when_any(std::move(tasks)));
        }
    } catch (const failure&) { ++all.caught; } catch (const std::system_error&) {
    }
    outcome{all, alive}.check();
}

/// Failures that a race gives beside its value.
std::uint64_t count_failures(const std::vector<std::exception_ptr>& thrown) {
    std::uint64_t found = 0;
    for (const std::exception_ptr& each : thrown) {
        if (each == nullptr) continue;
        try {
            std::rethrow_exception(each);
        } catch (const failure&) { ++found; } catch (const std::system_error&) {
        }
    }
    return found;
}

weft::task<> race_of(account& all, int depth, unsigned seed, unsigned count) {
    std::minstd_rand random(seed);
    std::atomic<int> alive{0};
    all.of_race += count;
    try {
        const auto won = co_await weft::race(children(all, alive, depth, random, count));
        if (won.failures[won.index] != nullptr || !won.values[won.index]) ++all.wrong;
        all.caught += count_failures(won.failures);
    } catch (const failure&) { ++all.caught; } catch (const std::system_error&) {
    }
    outcome{all, alive}.check();
}

weft::task<> family(account& all, int depth, unsigned seed) {
    std::minstd_rand random(seed);
    const auto count = static_cast<unsigned>(1 + random() % 8);
    switch (random() % 5) {
    case 0: co_await all_of(all, depth, seed, count); break;
    case 1: co_await any_of(all, depth, seed, count); break;
    case 2: co_await race_of(all, depth, seed, count); break;
    default: co_await grouped(all, depth, seed, count);
    }
}

void storm(unsigned processors) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    const std::uint64_t wanted = weft::test::scaled_count(100'000, 1'000'000);
    account all;
    {
        weft::runtime runtime(
            {.processors = processors, .on_failure = [&](const weft::task_failure& told) {
                 if (!told.suppressed) ++all.wrong;
                 ++all.suppressed;
             }});
        weft::test::watchdog dog(30s, [&] { return weft::test::describe(runtime.statistics()); });
        std::minstd_rand random(seed);
        while (all.fewest() < wanted) {
            std::vector<weft::join_handle<>> families;
            for (int i = 0; i < 16; ++i) {
                families.push_back(
                    runtime.co_spawn(family, std::ref(all), 3, static_cast<unsigned>(random())));
            }
            if (random() % 2 == 0) {
                std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
                for (const auto& each : families) {
                    if (random() % 2 == 0) each.request_stop();
                }
            }
            for (auto& each : families) {
                try {
                    each.get();
                } catch (const std::system_error&) {}
            }
            dog.progress();
        }
    }
    CHECK(all.wrong == 0);
    CHECK(all.made == all.gone);
    CHECK(all.started == all.ended);
    CHECK(all.started <= all.made);
    CHECK(all.thrown == all.caught + all.suppressed);
    // All of it happens.
    CHECK(all.caught != 0);
    CHECK(all.suppressed != 0);
    CHECK(all.started != all.made);
}

weft::task<std::uint64_t> leaves(int depth) {
    if (depth == 0) {
        co_await weft::yield();
        co_return 1;
    }
    const auto [left, right] = co_await weft::when_all(leaves(depth - 1), leaves(depth - 1));
    co_return left + right;
}

}  // namespace

TEST_CASE("stress: children throw, wait and are stopped at random, 2 processors", "[stress]") {
    storm(2);
}

TEST_CASE("stress: children throw, wait and are stopped at random, 8 processors", "[stress]") {
    storm(8);
}

TEST_CASE("stress: runtimes end while children are alive", "[stress]") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    std::minstd_rand random(seed);
    account all;
    const std::size_t rounds = weft::test::scaled_count(200, 5'000);
    weft::test::watchdog dog(30s, [] { return "the end of a runtime"; });
    for (std::size_t i = 0; i < rounds; ++i) {
        const auto main = [](account& counts, unsigned begin) -> weft::task<> {
            std::minstd_rand numbers(begin);
            for (int each = 0; each < 8; ++each) {
                weft::co_spawn(family, std::ref(counts), 3, static_cast<unsigned>(numbers()))
                    .detach();
            }
            for (unsigned left = static_cast<unsigned>(numbers() % 64); left != 0; --left) {
                co_await weft::yield();
            }
        };
        weft::run(main(all, static_cast<unsigned>(random())),
                  {.processors = 1 + static_cast<unsigned>(random() % 4),
                   .shutdown_grace = std::chrono::microseconds(random() % 300),
                   .on_failure = [&](const weft::task_failure& told) {
                       if (!told.suppressed) ++all.wrong;
                   }});
        dog.progress();
    }
    CHECK(all.wrong == 0);
    CHECK(all.made == all.gone);
    CHECK(all.started == all.ended);
}

TEST_CASE("stress: trees of children, all of whose leaves wait", "[stress]") {
    const int depth = weft::test::long_run() ? 19 : weft::test::sanitized ? 12 : 15;
    for (const unsigned processors : {1U, 2U, 8U}) {
        CHECK(weft::run(leaves(depth), {.processors = processors}) == std::uint64_t{1} << depth);
    }
}
