// SPDX-License-Identifier: MIT

// Litmus tests of the model checker itself: what the memory model must show, and what it must not.

#include "explorer.hpp"

#include <array>
#include <set>
#include <string>

#include "support/catch.hpp"

namespace model = weft::model;
using order = std::memory_order;

template <class T>
using atomic = model::model_layer::atomic<T>;
template <class T>
using var = model::model_layer::var<T>;

namespace {

// The results of all executions of the body that runs now.
std::set<std::string> seen;

void saw(int first, int second) {
    seen.insert(std::to_string(first) + std::to_string(second));
}
void saw(int a, int b, int c, int d) {
    seen.insert(std::to_string(a) + std::to_string(b) + std::to_string(c) + std::to_string(d));
}

model::explore_result search(model::body_function body, unsigned preemptions = 3) {
    seen.clear();
    return model::explore(body, {.preemptions = preemptions, .verbose = false});
}

bool contains(const char* text, const char* part) {
    return std::string(text).find(part) != std::string::npos;
}

template <order Store, order Load>
void store_buffering() {
    atomic<int> x{0}, y{0};
    int first = -1, second = -1;
    model::run_threads(
        [&] {
            x.store(1, Store);
            first = y.load(Load);
        },
        [&] {
            y.store(1, Store);
            second = x.load(Load);
        });
    saw(first, second);
}

template <order Publish, order Read>
void message_passing() {
    var<int> data{0};
    atomic<bool> ready{false};
    model::run_threads(
        [&] {
            data.set(42);
            ready.store(true, Publish);
        },
        [&] {
            while (!ready.load(Read)) model::model_layer::pause();
            model::check(data.get() == 42, "the message is old");
        });
}

}  // namespace

TEST_CASE("store buffering: both threads may miss each other unless all is seq_cst") {
    REQUIRE(search(store_buffering<order::relaxed, order::relaxed>).exhausted);
    CHECK(seen == std::set<std::string>{"00", "01", "10", "11"});
    REQUIRE(search(store_buffering<order::release, order::acquire>).exhausted);
    CHECK(seen.count("00") == 1);
    REQUIRE(search(store_buffering<order::seq_cst, order::acquire>).exhausted);
    CHECK(seen.count("00") == 1);
    REQUIRE(search(store_buffering<order::release, order::seq_cst>).exhausted);
    CHECK(seen.count("00") == 1);
    REQUIRE(search(store_buffering<order::seq_cst, order::seq_cst>).exhausted);
    CHECK(seen == std::set<std::string>{"01", "10", "11"});
}

TEST_CASE("store buffering: a seq_cst exchange on another word orders nothing") {
    const auto body = [] {
        atomic<int> x{0}, y{0}, barrier{0};
        int first = -1, second = -1;
        model::run_threads(
            [&] {
                x.store(1, order::release);
                barrier.exchange(1, order::seq_cst);
                first = y.load(order::seq_cst);
            },
            [&] {
                y.exchange(1, order::seq_cst);
                second = x.load(order::seq_cst);
            });
        saw(first, second);
    };
    REQUIRE(search(body).exhausted);
    CHECK(seen.count("00") == 1);
}

TEST_CASE("store buffering: a read-modify-write of the word itself orders it") {
    const auto body = [] {
        atomic<int> x{0}, y{0};
        int first = -1, second = -1;
        model::run_threads(
            [&] {
                x.store(1, order::release);
                x.fetch_add(0, order::seq_cst);
                first = y.load(order::seq_cst);
            },
            [&] {
                y.exchange(1, order::seq_cst);
                second = x.load(order::seq_cst);
            });
        saw(first, second);
    };
    REQUIRE(search(body).exhausted);
    CHECK(seen.count("00") == 0);
}

TEST_CASE("message passing: relaxed on either side is a race") {
    CHECK(search(message_passing<order::release, order::acquire>).exhausted);
    const auto relaxed_store = search(message_passing<order::relaxed, order::acquire>);
    CHECK(relaxed_store.violated);
    CHECK(contains(relaxed_store.violation, "data race"));
    const auto relaxed_load = search(message_passing<order::release, order::relaxed>);
    CHECK(relaxed_load.violated);
    CHECK(contains(relaxed_load.violation, "data race"));
}

TEST_CASE("message passing: random executions find the race too") {
    const auto found = model::explore_random(message_passing<order::relaxed, order::acquire>, 1000,
                                             7, {.verbose = false});
    CHECK(found.violated);
}

TEST_CASE("release sequence: a relaxed read-modify-write hands on, a relaxed store does not") {
    const auto with_update = [] {
        var<int> data{0};
        atomic<int> word{0};
        model::run_threads(
            [&] {
                data.set(1);
                word.store(1, order::release);
            },
            [&] {
                int expected = 1;
                word.compare_exchange_strong(expected, 2, order::relaxed, order::relaxed);
            },
            [&] {
                if (word.load(order::acquire) == 2) model::check(data.get() == 1, "old data");
            });
    };
    const auto result = search(with_update);
    CHECK(result.exhausted);
    CHECK_FALSE(result.violated);
    const auto with_store = [] {
        var<int> data{0};
        atomic<int> word{0};
        model::run_threads(
            [&] {
                data.set(1);
                word.store(1, order::release);
            },
            [&] {
                if (word.load(order::relaxed) == 1) word.store(2, order::relaxed);
            },
            [&] {
                if (word.load(order::acquire) == 2) data.get();
            });
    };
    CHECK(search(with_store).violated);
}

TEST_CASE("coherence: one location never goes back") {
    const auto body = [] {
        atomic<int> x{0};
        int first = 0, second = 0;
        model::run_threads(
            [&] {
                x.store(1, order::relaxed);
                x.store(2, order::relaxed);
            },
            [&] {
                first = x.load(order::relaxed);
                second = x.load(order::relaxed);
            });
        saw(first, second);
        model::check(second >= first, "went back");
    };
    const auto result = search(body);
    CHECK(result.exhausted);
    CHECK(seen == std::set<std::string>{"00", "01", "02", "11", "12", "22"});
}

namespace {

template <order Store, order Load>
void independent_reads() {
    atomic<int> x{0}, y{0};
    std::array<int, 4> got{};
    model::run_threads([&] { x.store(1, Store); }, [&] { y.store(1, Store); },
                       [&] {
                           got[0] = x.load(Load);
                           got[1] = y.load(Load);
                       },
                       [&] {
                           got[2] = y.load(Load);
                           got[3] = x.load(Load);
                       });
    saw(got[0], got[1], got[2], got[3]);
}

}  // namespace

TEST_CASE("independent reads of independent writes: two orders seen unless all is seq_cst") {
    REQUIRE(search(independent_reads<order::release, order::acquire>).exhausted);
    CHECK(seen.count("1010") == 1);
    REQUIRE(search(independent_reads<order::seq_cst, order::seq_cst>).exhausted);
    CHECK(seen.count("1010") == 0);
    // Reads that are seq_cst agree on the order of relaxed writes as well.
    REQUIRE(search(independent_reads<order::relaxed, order::seq_cst>).exhausted);
    CHECK(seen.count("1010") == 0);
}

TEST_CASE("known limits: load buffering and 2+2W are not seen") {
    const auto load_buffering = [] {
        atomic<int> x{0}, y{0};
        int first = 0, second = 0;
        model::run_threads(
            [&] {
                first = x.load(order::relaxed);
                y.store(1, order::relaxed);
            },
            [&] {
                second = y.load(order::relaxed);
                x.store(1, order::relaxed);
            });
        saw(first, second);
    };
    REQUIRE(search(load_buffering).exhausted);
    CHECK(seen.count("11") == 0);
    const auto two_writes = [] {
        atomic<int> x{0}, y{0};
        model::run_threads(
            [&] {
                x.store(1, order::relaxed);
                y.store(2, order::relaxed);
            },
            [&] {
                y.store(1, order::relaxed);
                x.store(2, order::relaxed);
            });
        saw(x.peek(), y.peek());
    };
    REQUIRE(search(two_writes).exhausted);
    CHECK(seen.count("11") == 0);
}

TEST_CASE("preemption bound: an atomicity fault needs one preemption") {
    const auto body = [] {
        atomic<int> counter{0};
        const auto increment = [&] {
            counter.store(counter.load(order::seq_cst) + 1, order::seq_cst);
        };
        model::run_threads(increment, increment);
        model::check(counter.peek() == 2, "an increment is lost");
    };
    CHECK_FALSE(search(body, 0).violated);
    CHECK(search(body, 1).violated);
}

TEST_CASE("deadlock: a lost wake-up is found, one by futex without a check as well") {
    const auto flag_forgotten = [] {
        atomic<int> flag{0};
        model::run_threads([&] { model::block_until([&] { return flag.peek() == 1; }); }, [&] {});
    };
    const auto result = search(flag_forgotten);
    CHECK(result.violated);
    CHECK(contains(result.violation, "deadlock"));

    const auto futex = [] {
        atomic<std::uint32_t> word{0};
        model::run_threads(
            [&] {
                while (word.load(order::acquire) == 0) model::model_layer::futex_wait(word, 0);
            },
            [&] {
                word.store(1, order::release);
                model::model_layer::futex_wake(word, 1);
            });
    };
    CHECK(search(futex).exhausted);

    const auto woken_before_set = [] {
        atomic<std::uint32_t> word{0};
        model::run_threads(
            [&] {
                while (word.load(order::acquire) == 0) model::model_layer::futex_wait(word, 0);
            },
            [&] {
                model::model_layer::futex_wake(word, 1);
                word.store(1, order::release);
            });
    };
    CHECK(contains(search(woken_before_set).violation, "deadlock"));

    const auto spins_for_ever = [] {
        atomic<int> word{0};
        model::run_threads(
            [&] {
                while (word.load(order::acquire) == 0) model::model_layer::pause();
            },
            [&] { word.load(order::relaxed); });
    };
    CHECK(contains(search(spins_for_ever).violation, "deadlock"));
}

TEST_CASE("a thread that may sleep for ever is no deadlock") {
    const auto body = [] {
        atomic<int> word{0};
        model::run_threads(
            [&] {
                model::may_sleep_for_ever();
                model::block_until([&] { return word.peek() == 2; });
            },
            [&] { word.store(1, order::relaxed); });
        model::check(word.peek() == 1, "the store is lost");
    };
    CHECK(search(body).exhausted);
}

TEST_CASE("touch after free, and a free that is not ordered after the last touch") {
    struct object {
        atomic<int> word{0};
        var<int> data{0};
    };
    const auto touch_later = [] {
        object* shared = model::make<object>();
        model::run_threads([=] { model::destroy(shared); },
                           [=] { shared->word.load(order::acquire); });
    };
    CHECK(search(touch_later).violated);

    const auto counted = [](order drop) {
        object* shared = model::make<object>();
        atomic<int>* count = model::make<atomic<int>>(2);
        const auto leave = [=] {
            shared->data.get();
            if (count->fetch_sub(1, drop) == 1) model::destroy(shared);
        };
        model::run_threads(leave, leave);
    };
    static const auto run_counted = counted;
    CHECK(search([] { run_counted(order::acq_rel); }).exhausted);
    CHECK(search([] { run_counted(order::release); }).violated);
    CHECK(search([] { run_counted(order::acquire); }).violated);

    const auto marked = [] {
        model::lifetime life;
        model::run_threads([&] { life.destroy(); }, [&] { life.touch(); });
    };
    CHECK(search(marked).violated);
}

TEST_CASE("an object that is published without release is not constructed for its reader") {
    const auto body = [](order publish) {
        atomic<atomic<int>*> shared{nullptr};
        model::run_threads([&] { shared.store(model::make<atomic<int>>(7), publish); },
                           [&] {
                               atomic<int>* object = shared.load(order::acquire);
                               if (object != nullptr) object->load(order::relaxed);
                           });
    };
    static const auto run_body = body;
    CHECK(search([] { run_body(order::release); }).exhausted);
    CHECK(search([] { run_body(order::relaxed); }).violated);
}

TEST_CASE("the model's own choices are explored, weak exchanges fail when that is asked for") {
    CHECK(search([] {
              saw(static_cast<int>(model::choose(3)), static_cast<int>(model::choose(2)));
          }).executions == 6);
    CHECK(seen.size() == 6);
    seen.clear();
    const auto weak = [] {
        atomic<int> word{0};
        model::run_threads([&] {
            int expected = 0;
            const bool done =
                word.compare_exchange_weak(expected, 1, order::relaxed, order::relaxed);
            saw(done, expected);
        });
    };
    model::explore(weak, {.spurious_failures = 1, .verbose = false});
    CHECK(seen == std::set<std::string>{"00", "10"});
}

TEST_CASE("small types travel through the atomics unchanged") {
    struct pair {
        std::uint16_t low;
        std::int32_t high;
    };
    enum class colour : std::uint8_t { red, green };
    const auto body = [] {
        atomic<pair> both{pair{7, -9}};
        atomic<colour> one{colour::green};
        atomic<std::uint8_t> index{255};
        atomic<bool> flag{true};
        model::check(both.load(order::relaxed).high == -9, "struct");
        model::check(one.exchange(colour::red, order::relaxed) == colour::green, "enum");
        model::check(index.fetch_add(1, order::relaxed) == 255 && index.peek() == 0, "wraps");
        model::check(flag.exchange(false, order::acq_rel), "bool");
    };
    const auto result = search(body);
    CHECK(result.exhausted);
    CHECK(std::string(result.violation).empty());
}
