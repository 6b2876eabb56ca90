// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/signal_cell.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <stop_token>
#include <thread>
#include <vector>

// Storms of cancellation: a stop, a timeout and the completion of one operation race, each from a
// thread of its own. The operation resumes its task exactly once, with one of the three outcomes.

using namespace std::chrono_literals;

namespace {

struct round_state {
    weft::test::signal_cell cell;
    std::stop_source stop;
    std::atomic<unsigned> resumed{0};
    std::atomic<bool> started{false};
    std::atomic<bool> signalled{false};
};

struct outcomes {
    std::atomic<std::uint64_t> completed{0};
    std::atomic<std::uint64_t> cancelled{0};
    std::atomic<std::uint64_t> late{0};
    std::atomic<std::uint64_t> wrong{0};
};

weft::task<> race(round_state& state, std::chrono::nanoseconds limit, outcomes& counts) {
    state.started.store(true);
    auto waiting = weft::with_timeout(limit, state.cell.wait());
    const auto result = co_await weft::as_result(std::move(waiting));
    ++state.resumed;
    if (result) {
        ++counts.completed;
        if (!state.signalled.load()) ++counts.wrong;
    } else if (result.error() == std::errc::timed_out) {
        ++counts.late;
    } else if (result.error() == std::errc::operation_canceled) {
        ++counts.cancelled;
        if (!state.stop.stop_requested()) ++counts.wrong;
    } else {
        ++counts.wrong;
    }
}

/// Runs the rounds one after another; two threads besides the main one act in each of them.
class storm {
public:
    storm(unsigned processors, std::size_t rounds, unsigned seed)
        : runtime_({.processors = processors}),
          dog_(20s, [this] { return weft::test::describe(runtime_.statistics()); }),
          rounds_(rounds),
          seed_(seed) {}

    void run() {
        std::thread signaller([this] {
            act(seed_ + 1, [](round_state& state) {
                state.signalled.store(true);
                state.cell.signal();
            });
        });
        std::thread stopper(
            [this] { act(seed_ + 2, [](round_state& state) { state.stop.request_stop(); }); });
        std::minstd_rand random(seed_);
        for (std::size_t i = 1; i <= rounds_; ++i) {
            round_state state;
            current_.store(&state);
            done_ = 0;
            const auto limit = std::chrono::nanoseconds(random() % 60'000);
            auto handle = runtime_.co_spawn({.stop_token = state.stop.get_token()}, race,
                                            std::ref(state), limit, std::ref(counts_));
            round_.store(i);
            round_.notify_all();
            handle.get();
            wait_for(done_, 2);
            if (state.resumed != 1) ++counts_.wrong;
            dog_.progress();
        }
        signaller.join();
        stopper.join();
    }
    const outcomes& counts() const { return counts_; }

private:
    template <class Action>
    void act(unsigned seed, Action action) {
        std::minstd_rand random(seed);
        for (std::size_t i = 1; i <= rounds_; ++i) {
            wait_for(round_, i);
            round_state& state = *current_.load();
            while (!state.started.load()) std::this_thread::yield();
            const auto until =
                std::chrono::steady_clock::now() + std::chrono::nanoseconds(random() % 60'000);
            while (std::chrono::steady_clock::now() < until) weft::detail::std_layer::pause();
            action(state);
            ++done_;
            done_.notify_all();
        }
    }

    /// Asleep: on a machine with much else to do, whoever spins and yields waits for a time slice
    /// of each of the others, in every round.
    template <class Number>
    static void wait_for(const std::atomic<Number>& word, Number wanted) {
        for (Number seen = word.load(); seen != wanted; seen = word.load()) word.wait(seen);
    }

    weft::runtime runtime_;
    weft::test::watchdog dog_;
    outcomes counts_;
    std::atomic<round_state*> current_{nullptr};
    std::atomic<std::size_t> round_{0};
    std::atomic<int> done_{0};
    const std::size_t rounds_;
    const unsigned seed_;
};

void race_three(unsigned processors) {
    const unsigned seed = std::random_device{}();
    const std::size_t rounds = weft::test::scaled_count(20'000, 1'000'000);
    storm racing(processors, rounds, seed);
    racing.run();
    const outcomes& counts = racing.counts();
    INFO("seed " << seed << ": completed " << counts.completed << ", cancelled " << counts.cancelled
                 << ", late " << counts.late);
    CHECK(counts.wrong == 0);
    CHECK(counts.completed + counts.cancelled + counts.late == rounds);
    CHECK(counts.completed != 0);
    CHECK(counts.cancelled != 0);
    CHECK(counts.late != 0);
}

/// A tree of tasks with nested deadlines that is stopped at a random moment.
weft::task<int> nested(int depth, unsigned seed) {
    std::minstd_rand random(seed);
    int ended = 0;
    std::vector<weft::join_handle<int>> children;
    for (int i = 0; depth != 0 && i < 3; ++i) {
        children.push_back(weft::co_spawn(nested, depth - 1, static_cast<unsigned>(random())));
    }
    const auto limit = std::chrono::microseconds(random() % 300);
    auto inner =
        weft::with_timeout(limit, weft::sleep_for(std::chrono::microseconds(random() % 300)));
    auto outer = weft::with_timeout(limit / 2 + 50us, std::move(inner));
    co_await weft::as_result(std::move(outer));
    for (auto& each : children) {
        if (random() % 4 == 0) each.request_stop();
        // This task may be stopped itself: then the await of the child says so at once.
        while (!each.done()) {
            if (!co_await weft::as_result(weft::yield()) && random() % 64 == 0) each.request_stop();
        }
        const auto result = co_await weft::as_result(std::move(each));
        if (result) ended += *result;
    }
    co_return ended + 1;
}

}  // namespace

TEST_CASE("stress: stop, timeout and completion race, 2 processors", "[stress]") {
    race_three(2);
}

TEST_CASE("stress: stop, timeout and completion race, 8 processors", "[stress]") {
    race_three(8);
}

TEST_CASE("stress: trees of tasks with nested deadlines are stopped at random", "[stress]") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    for (const unsigned processors : {2U, 8U}) {
        weft::runtime runtime({.processors = processors});
        weft::test::watchdog dog(20s, [&] { return weft::test::describe(runtime.statistics()); });
        std::minstd_rand random(seed);
        const std::size_t rounds = weft::test::scaled_count(300, 30'000);
        for (std::size_t i = 0; i < rounds; ++i) {
            auto root = runtime.co_spawn(nested, 3, static_cast<unsigned>(random()));
            if (i % 2 == 0) {
                const auto pause = std::chrono::microseconds(random() % 500);
                std::this_thread::sleep_for(pause);
                root.request_stop();
            }
            try {
                root.get();
            } catch (const std::system_error&) {}
            while (runtime.statistics().tasks_alive() != 0) std::this_thread::yield();
            dog.progress();
        }
        CHECK(runtime.statistics().tasks_spawned() == rounds * 40);
    }
}
