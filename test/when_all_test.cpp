// SPDX-License-Identifier: MIT
#include <weft/when_all.hpp>

#include "support/catch.hpp"
#include "support/kept_log.hpp"
#include "support/one_processor.hpp"
#include "support/scale.hpp"
#include "support/signal_cell.hpp"
#include "support/watchdog.hpp"

#include <weft/as_result.hpp>
#include <weft/blocking.hpp>
#include <weft/channel.hpp>
#include <weft/runtime.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/this_task.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <ranges>
#include <stdexcept>
#include <string>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

using namespace std::chrono_literals;
using weft::test::signal_cell;

namespace {

weft::task<int> number(int value) {
    co_return value;
}

weft::task<int> number_after(int value, int yields) {
    for (int i = 0; i < yields; ++i) co_await weft::yield();
    co_return value;
}

weft::task<> nothing(std::atomic<int>& ran) {
    ++ran;
    co_return;
}

weft::task<int> fails(const char* what, int yields = 0) {
    for (int i = 0; i < yields; ++i) co_await weft::yield();
    throw std::runtime_error(what);
}

weft::task<int> waits(signal_cell& cell) {
    co_await cell.wait();
    co_return 1;
}

template <class Task>
std::error_code error_of(Task made) {
    const auto main = [](Task inner) -> weft::task<std::error_code> {
        try {
            co_await std::move(inner);
        } catch (const std::system_error& error) { co_return error.code(); }
        co_return std::error_code();
    };
    return weft::run(main(std::move(made)), {.processors = 1});
}

/// The suppressed failures of a runtime, and how many were none.
struct failures {
    std::vector<std::string> suppressed;
    int others = 0;

    auto handler() {
        return [this](const weft::task_failure& failure) {
            if (!failure.suppressed) ++others;
            try {
                std::rethrow_exception(failure.exception);
            } catch (const std::exception& error) { suppressed.emplace_back(error.what()); }
        };
    }
};

}  // namespace

TEST_CASE("when_all gives the values in order, whoever ends first", "[when_all]") {
    const auto main = []() -> weft::task<std::tuple<int, int, int>> {
        co_return co_await weft::when_all(number_after(1, 5), number(2), number_after(3, 2));
    };
    for (const unsigned processors : {1U, 2U, 8U}) {
        CHECK(weft::run(main(), {.processors = processors}) == std::tuple(1, 2, 3));
    }
}

TEST_CASE("when_all gives nothing where no child gives anything, monostate beside others",
          "[when_all]") {
    std::atomic<int> ran{0};
    const auto main = [](std::atomic<int>& counter) -> weft::task<int> {
        static_assert(std::is_void_v<
                      weft::detail::awaited_value<decltype(weft::when_all(nothing(counter)))>>);
        co_await weft::when_all(nothing(counter), nothing(counter));
        co_await weft::when_all();
        std::tuple<std::monostate, int> both = co_await weft::when_all(nothing(counter), number(7));
        co_return std::get<1>(both);
    };
    CHECK(weft::run(main(ran), {.processors = 1}) == 7);
    CHECK(ran == 3);
}

TEST_CASE("when_all hands references and values that can only be moved on", "[when_all]") {
    int there = 1;
    const auto refer = [](int& to) -> weft::task<int&> { co_return to; };
    const auto make = [](int value) -> weft::task<std::unique_ptr<int>> {
        co_await weft::yield();
        co_return std::make_unique<int>(value);
    };
    const auto main = [](auto& reference, auto& move_only, int& place) -> weft::task<int> {
        auto both = co_await weft::when_all(reference(place), move_only(4));
        static_assert(std::is_same_v<decltype(both), std::tuple<int&, std::unique_ptr<int>>>);
        std::get<0>(both) = 10;
        std::vector<weft::task<int&>> more;
        more.push_back(reference(place));
        auto references = co_await weft::when_all(std::move(more));
        references[0].get() += 1;
        std::vector<weft::task<std::unique_ptr<int>>> made;
        for (int i = 0; i < 3; ++i) made.push_back(move_only(i));
        int sum = 0;
        for (const auto& each : co_await weft::when_all(std::move(made))) sum += *each;
        co_return sum + *std::get<1>(both);
    };
    CHECK(weft::run(main(refer, make, there), {.processors = 2}) == 7);
    CHECK(there == 11);
}

TEST_CASE("when_all takes ranges of any kind, empty ones too", "[when_all]") {
    const auto main = []() -> weft::task<int> {
        std::vector<weft::task<int>> none;
        if (!(co_await weft::when_all(std::move(none))).empty()) co_return -1;
        int sum = 0;
        for (const int each :
             co_await weft::when_all(std::views::iota(1, 5) | std::views::transform(number))) {
            sum = sum * 10 + each;
        }
        co_return sum;
    };
    CHECK(weft::run(main(), {.processors = 1}) == 1234);
}

TEST_CASE("when_all awaits handles where they are, and other awaitables", "[when_all]") {
    const auto main = []() -> weft::task<int> {
        auto handle = weft::co_spawn(number_after(3, 4));
        const auto all = co_await weft::when_all(handle, weft::sleep_for(1us), weft::yield());
        co_return handle ? -1 : std::get<0>(all);
    };
    CHECK(weft::run(main(), {.processors = 1}) == 3);
}

TEST_CASE("children are branches of one task, and run in order on one worker", "[when_all]") {
    std::vector<int> order;
    const auto child = [](std::vector<int>& seen, int which) -> weft::task<std::uint64_t> {
        seen.push_back(which);
        co_await weft::yield();
        seen.push_back(10 + which);
        co_return weft::this_task::id();
    };
    const auto main = [](auto& make, std::vector<int>& seen) -> weft::task<bool> {
        const std::uint64_t mine = weft::this_task::id();
        const auto ids = co_await weft::when_all(make(seen, 0), make(seen, 1), make(seen, 2));
        co_return ids == std::tuple(mine, mine, mine);
    };
    CHECK(weft::run(main(child, order), {.processors = 1}));
    CHECK(order == std::vector{0, 1, 2, 10, 11, 12});
}

TEST_CASE("children wait for each other", "[when_all]") {
    const auto ask = [](weft::channel<int>& out, weft::channel<int>& in) -> weft::task<int> {
        co_await out.send(20);
        co_return (co_await in.recv()).value();
    };
    const auto answer = [](weft::channel<int>& in, weft::channel<int>& out) -> weft::task<> {
        co_await out.send((co_await in.recv()).value() + 1);
    };
    const auto main = [](auto& asks, auto& answers) -> weft::task<int> {
        weft::channel<int> there, back;
        co_return std::get<0>(co_await weft::when_all(asks(there, back), answers(there, back)));
    };
    for (const unsigned processors : {1U, 2U}) {
        CHECK(weft::run(main(ask, answer), {.processors = processors}) == 21);
    }
}

TEST_CASE("a child that blocks its worker does not keep the others from idle workers",
          "[when_all]") {
    weft::test::watchdog dog(60s, [] { return "a sibling was not taken"; });
    std::atomic<bool> released{false};
    const auto spins = [](std::atomic<bool>& until) -> weft::task<> {
        while (!until) std::this_thread::yield();
        co_return;
    };
    const auto releases = [](std::atomic<bool>& flag) -> weft::task<> {
        flag = true;
        co_return;
    };
    const auto main = [](auto& spin, auto& release, std::atomic<bool>& flag) -> weft::task<> {
        co_await weft::when_all(spin(flag), release(flag));
    };
    weft::run(main(spins, releases, released), {.processors = 2});
    CHECK(released);
}

TEST_CASE("a child that fails stops no sibling; its exception comes when all have ended",
          "[when_all]") {
    std::atomic<int> ended{0};
    const auto ends_late = [](std::atomic<int>& counter) -> weft::task<int> {
        for (int i = 0; i < 10; ++i) co_await weft::yield();
        ++counter;
        co_return 1;
    };
    const auto main = [](auto& make, std::atomic<int>& counter) -> weft::task<std::string> {
        try {
            co_await weft::when_all(make(counter), fails("on purpose"), make(counter));
        } catch (const std::runtime_error& error) {
            co_return error.what() + std::to_string(counter);
        }
        co_return "nothing";
    };
    CHECK(weft::run(main(ends_late, ended), {.processors = 1}) == "on purpose2");
}

TEST_CASE("the first failure is thrown, later ones are reported as suppressed", "[when_all]") {
    failures seen;
    const auto main = []() -> weft::task<std::string> {
        try {
            co_await weft::when_all(fails("late", 5), fails("early"), fails("later", 9));
        } catch (const std::runtime_error& error) { co_return error.what(); }
        co_return "nothing";
    };
    CHECK(weft::run(main(), {.processors = 1, .on_failure = seen.handler()}) == "early");
    CHECK(seen.suppressed == std::vector<std::string>{"late", "later"});
    CHECK(seen.others == 0);
}

TEST_CASE("by default a suppressed failure is logged and ends nothing", "[when_all]") {
    weft::test::kept_log log;
    const auto main = []() -> weft::task<> {
        try {
            co_await weft::when_all(fails("early"), fails("late"));
        } catch (const std::runtime_error&) {}
    };
    weft::run(main(), {.processors = 1, .log = log.sink()});
    CHECK(log.count("late") == 1);
    CHECK(log.count("early") == 0);
}

TEST_CASE("a stop around when_all stops the children and waits for them", "[when_all]") {
    const auto main = []() -> weft::task<> {
        signal_cell first, second;
        co_await weft::with_timeout(1ms, weft::when_all(waits(first), waits(second)));
    };
    CHECK(error_of(main()) == std::errc::timed_out);
}

TEST_CASE("a stop of the task reaches children in scopes of their own", "[when_all]") {
    const auto child = [](signal_cell& cell) -> weft::task<> {
        co_await weft::with_timeout(1h, weft::when_all(weft::with_timeout(1h, waits(cell))));
    };
    const auto both = [](auto& make) -> weft::task<> {
        signal_cell first, second;
        co_await weft::when_all(make(first), make(second));
    };
    const auto main = [](auto& make, auto& children) -> weft::task<std::error_code> {
        auto handle = weft::co_spawn(children(make));
        co_await weft::test::settle();
        handle.request_stop();
        const auto result = co_await weft::as_result(handle);
        co_return result ? std::error_code() : result.error();
    };
    CHECK(weft::run(main(child, both), {.processors = 1, .compensate = false}) ==
          std::errc::operation_canceled);
}

TEST_CASE("a deadline inside one child does not touch its siblings", "[when_all]") {
    const auto hurried = [](signal_cell& never) -> weft::task<bool> {
        co_return !co_await weft::as_result(weft::with_timeout(1ms, waits(never)));
    };
    const auto patient = []() -> weft::task<bool> {
        co_await weft::sleep_for(5ms);
        co_return !weft::this_task::stop_requested();
    };
    const auto main = [](auto& one, auto& other) -> weft::task<bool> {
        signal_cell never;
        const auto [late, went_on] = co_await weft::when_all(one(never), other());
        co_await weft::yield();
        co_return late&& went_on && !weft::this_task::stop_requested();
    };
    CHECK(weft::run(main(hurried, patient), {.processors = 1}));
}

TEST_CASE("the arguments of a child are destroyed when it has ended", "[when_all]") {
    /// Its sibling waits for what the destructor does.
    struct closes {
        explicit closes(weft::channel<int>& end) : of(&end) {}
        closes(closes&& other) noexcept : of(std::exchange(other.of, nullptr)) {}
        closes& operator=(closes&&) = delete;
        ~closes() {
            if (of != nullptr) of->close();
        }
        weft::channel<int>* of;
    };
    const auto produce = [](closes to) -> weft::task<> { co_await to.of->send(1); };
    const auto consume = [](weft::channel<int>& from) -> weft::task<int> {
        int count = 0;
        while (co_await from.recv()) ++count;
        co_return count;
    };
    const auto main = [](auto& makes, auto& takes, bool range) -> weft::task<int> {
        weft::channel<int> values;
        auto consuming = weft::co_spawn(takes, std::ref(values));
        if (range) {
            std::vector<weft::task<>> one;
            one.push_back(makes(closes(values)));
            one.push_back([](weft::join_handle<int>& of) -> weft::task<> {
                while (!of.done()) co_await weft::yield();
            }(consuming));
            co_await weft::when_all(std::move(one));
            co_return co_await std::move(consuming);
        }
        const auto [nothing, count] = co_await weft::when_all(makes(closes(values)), consuming);
        co_return count;
    };
    const weft::runtime_options options{.processors = 2,
                                        .deadlock = weft::deadlock_action::throw_exception};
    CHECK(weft::run(main(produce, consume, false), options) == 1);
    CHECK(weft::run(main(produce, consume, true), options) == 1);
}

TEST_CASE("a child that has not started when its scope is stopped never does", "[when_all]") {
    std::atomic<int> ran{0};
    const auto main = [](std::atomic<int>& counter) -> weft::task<> {
        co_await weft::with_timeout(0ns, weft::when_all(nothing(counter), nothing(counter)));
    };
    CHECK(error_of(main(ran)) == std::errc::timed_out);
    CHECK(ran == 0);
}

TEST_CASE("children that end in spite of a stop give their values", "[when_all]") {
    const auto in_spite = [](signal_cell& cell) -> weft::task<int> {
        static_cast<void>(co_await weft::as_result(cell.wait()));
        co_return 5;
    };
    const auto both = [](auto& make) -> weft::task<int> {
        signal_cell first, second;
        const auto [one, other] = co_await weft::when_all(make(first), make(second));
        co_return one + other;
    };
    const auto main = [](auto& children, auto& make) -> weft::task<int> {
        auto handle = weft::co_spawn(children(make));
        co_await weft::test::settle();
        handle.request_stop();
        co_return co_await handle;
    };
    CHECK(weft::run(main(both, in_spite), {.processors = 1, .compensate = false}) == 10);
}

TEST_CASE("as_result gives the values of when_all, or the error", "[when_all]") {
    const auto main = []() -> weft::task<bool> {
        signal_cell never;
        const auto values = co_await weft::as_result(weft::when_all(number(1), number(2)));
        const auto error = co_await weft::as_result(
            weft::with_timeout(1ms, weft::when_all(number(1), waits(never))));
        co_return values && *values == std::tuple(1, 2) && !error &&
            error.error() == std::errc::timed_out;
    };
    CHECK(weft::run(main(), {.processors = 1}));
}

TEST_CASE("an operation may be awaited by a child and outlive it", "[when_all]") {
    const auto main = []() -> weft::task<bool> {
        auto operation = std::make_unique<decltype(weft::sleep_for(1us))>(weft::sleep_for(1us));
        const auto child = [](auto& awaited) -> weft::task<> { co_await awaited; };
        std::vector<weft::task<>> one;
        one.push_back(child(*operation));
        co_await weft::when_all(std::move(one));
        operation.reset();
        co_return true;
    };
    CHECK(weft::run(main(), {.processors = 1}));
}

TEST_CASE("an empty task among the children is refused before any starts", "[when_all]") {
    std::atomic<int> ran{0};
    const auto main = [](std::atomic<int>& counter) -> weft::task<bool> {
        bool refused = false;
        try {
            co_await weft::when_all(nothing(counter), weft::task<>());
        } catch (const std::logic_error&) { refused = true; }
        co_return refused;
    };
    CHECK(weft::run(main(ran), {.processors = 1}));
    CHECK(ran == 0);
}

TEST_CASE("a range of a million children needs no stack and loses none", "[when_all]") {
    const std::size_t count = weft::test::sanitized ? 100'000 : 1'000'000;
    const auto main = [](std::size_t children) -> weft::task<std::uint64_t> {
        std::vector<weft::task<int>> tasks;
        tasks.reserve(children);
        for (std::size_t i = 0; i < children; ++i) {
            tasks.push_back(number_after(static_cast<int>(i % 7), i % 100 == 0 ? 1 : 0));
        }
        std::uint64_t sum = 0;
        for (const int each : co_await weft::when_all(std::move(tasks))) {
            sum += static_cast<std::uint64_t>(each);
        }
        co_return sum;
    };
    std::uint64_t expected = 0;
    for (std::size_t i = 0; i < count; ++i) expected += i % 7;
    for (const unsigned processors : {1U, 2U}) {
        CHECK(weft::run(main(count), {.processors = processors}) == expected);
    }
}

namespace {

weft::task<std::uint64_t> tree(int depth) {
    if (depth == 0) {
        co_await weft::yield();
        co_return 1;
    }
    const auto [left, right] = co_await weft::when_all(tree(depth - 1), tree(depth - 1));
    co_return left + right;
}

/// Goes on waiting whatever happens.
weft::task<> stubborn(std::atomic<int>& waiting, std::shared_ptr<int>) {
    weft::channel<int> nobody;
    ++waiting;
    for (;;) static_cast<void>(co_await weft::as_result(nobody.recv()));
}

/// A chain of children, each awaited by the one before.
weft::task<> nest(std::size_t depth, std::atomic<int>& waiting, std::shared_ptr<int> held) {
    if (depth == 0) {
        co_await stubborn(waiting, held);
    } else {
        co_await weft::when_all(nest(depth - 1, waiting, held));
    }
}

weft::task<> stubborn_family(std::atomic<int>& waiting, std::shared_ptr<int> held) {
    std::vector<weft::task<>> range;
    for (int i = 0; i < 3; ++i) range.push_back(nest(2, waiting, held));
    co_await weft::when_all(
        stubborn(waiting, held),
        weft::with_timeout(1h, weft::when_all(stubborn(waiting, held), nest(1, waiting, held))),
        weft::when_all(std::move(range)));
}

}  // namespace

TEST_CASE("a child that keeps its worker is reported by the name of its task", "[when_all]") {
    weft::test::kept_log log;
    weft::test::watchdog dog(60s, [] { return "nobody is reported"; });
    const auto reported = [&log] {
        return log.count("(parent)") != 0 && log.count("lets nobody in") != 0;
    };
    const auto keeps = [](auto& until) -> weft::task<> {
        while (!until()) {}
        co_return;
    };
    const auto parent = [](auto& make, auto& until) -> weft::task<> {
        co_await weft::when_all(make(until), weft::yield());
    };
    const auto main = [](auto& make, auto& child, auto& until) -> weft::task<> {
        co_await weft::co_spawn({.name = "parent"},
                                [&]() -> weft::task<> { return make(child, until); });
    };
    weft::run(main(parent, keeps, reported),
              {.processors = 1, .hog_report = 20ms, .log = log.sink()});
    CHECK(reported());
}

TEST_CASE("trees of children join at each level", "[when_all]") {
    for (const unsigned processors : {1U, 2U, 8U}) {
        CHECK(weft::run(tree(12), {.processors = processors}) == 1U << 12);
    }
}

TEST_CASE("children that wait when the runtime ends are destroyed where they wait", "[when_all]") {
    const std::size_t depth = weft::test::sanitized ? 10'000 : 200'000;
    const auto main = [](std::size_t levels, std::atomic<int>& waiting,
                         const std::shared_ptr<int>& held) -> weft::task<> {
        weft::co_spawn(stubborn_family(waiting, held)).detach();
        weft::co_spawn(nest(levels, waiting, held)).detach();
        while (waiting != 7) co_await weft::yield();
        // These do not get to start.
        weft::co_spawn(stubborn_family(waiting, held)).detach();
    };
    for (const unsigned processors : {1U, 2U}) {
        std::atomic<int> waiting{0};
        const auto token = std::make_shared<int>(1);
        weft::run(main(depth, waiting, token), {.processors = processors, .shutdown_grace = 0ms});
        CHECK(token.use_count() == 1);
    }
}
