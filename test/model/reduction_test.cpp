// SPDX-License-Identifier: MIT

// The reduction leaves out executions, never outcomes: random programs have the same set of
// outcomes with and without it, within each bound.

#include <weft/detail/base/spin_lock.hpp>

#include "explorer.hpp"
#include "search.hpp"

#include <array>
#include <set>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;

namespace {

enum class kind : unsigned { load, store, add, swap, critical, wait, spin, sleep, bell, count };

struct step {
    kind what;
    unsigned word;
    order strength;
};

constexpr unsigned word_count = 2;
constexpr unsigned thread_count = 3;
constexpr unsigned step_count = 3;

// The program under test and what it has shown. Statics, since a body is a plain function.
std::array<std::array<step, step_count>, thread_count> program;
std::set<std::string> outcomes;

order strength_of(kind what, std::uint64_t random) {
    if (random % 2 == 0) return order::seq_cst;
    if (what == kind::load) return random % 4 == 1 ? order::acquire : order::relaxed;
    return random % 4 == 1 ? order::release : order::relaxed;
}

void make_program(std::uint64_t seed) {
    for (auto& thread : program) {
        for (step& each : thread) {
            seed = model::mix(seed);
            const auto what = static_cast<kind>(seed % static_cast<unsigned>(kind::count));
            each = {what, static_cast<unsigned>(seed >> 16) % word_count,
                    strength_of(what, seed >> 32)};
        }
    }
}

struct machine {
    std::array<layer::atomic<unsigned>, word_count> words;
    weft::detail::spin_lock<layer> lock;
    model::shared<int> inside{0};
    layer::atomic<std::uint32_t> bell{0};
    std::array<std::string, thread_count> shown;

    void perform(unsigned self, unsigned position) {
        const auto [what, which, strength] = program[self][position];
        auto& word = words[which];
        const unsigned value = self * step_count + position + 1;
        unsigned result = 0;
        switch (what) {
        case kind::load: result = word.load(strength); break;
        case kind::store: word.store(value, strength); break;
        case kind::add: result = word.fetch_add(1, strength); break;
        case kind::swap:
            word.compare_exchange_strong(result, value, strength, order::relaxed);
            break;
        case kind::critical:
            lock.lock();
            result = static_cast<unsigned>(inside.get());
            ++inside;
            lock.unlock();
            break;
        case kind::wait:
            model::block_until([&] { return word.peek() != 0; });
            result = word.load(strength);
            break;
        case kind::spin:
            for (int i = 0; i < 2 && (result = word.load(order::relaxed)) == 0; ++i) layer::pause();
            break;
        case kind::sleep: layer::futex_wait(bell, 0); break;
        case kind::bell:
            bell.store(1, strength);
            layer::futex_wake(bell, 1);
            break;
        case kind::count: break;
        }
        shown[self] += ' ' + std::to_string(result);
    }
};

void body() {
    machine all;
    const auto thread = [&](unsigned self) {
        return [&all, self] {
            model::may_sleep_for_ever();
            for (unsigned i = 0; i < step_count; ++i) all.perform(self, i);
        };
    };
    model::run_threads(thread(0), thread(1), thread(2));
    std::string outcome;
    for (const std::string& each : all.shown) outcome += each + ';';
    for (auto& each : all.words) outcome += ' ' + std::to_string(each.peek());
    outcomes.insert(outcome);
}

struct found {
    std::set<std::string> outcomes;
    model::explore_result result;
};

found search(const model::explore_options& options) {
    outcomes.clear();
    const model::explore_result result = model::explore(body, options);
    return {std::move(outcomes), result};
}

TEST_CASE("the reduction loses no outcome of random programs") {
    std::uint64_t without = 0, with = 0;
    for (std::uint64_t seed = 1; seed <= 500; ++seed) {
        make_program(seed);
        for (const unsigned preemptions : {0U, 1U, 2U}) {
            for (const unsigned stale_reads : {0U, 1U}) {
                model::explore_options options{
                    .preemptions = preemptions, .stale_reads = stale_reads, .verbose = false};
                const found all = search(options);
                options.reduce = true;
                const found some = search(options);
                CAPTURE(seed, preemptions, stale_reads);
                REQUIRE(std::string(all.result.violation) == "");
                REQUIRE(std::string(some.result.violation) == "");
                REQUIRE(all.outcomes == some.outcomes);
                without += all.result.executions;
                with += some.result.executions;
            }
        }
    }
    // It would be of no use otherwise.
    CHECK(with < without / 4);
}

}  // namespace
