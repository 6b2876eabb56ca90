// SPDX-License-Identifier: MIT
//
// Traps G1 to G3, G5 and G6: temporaries of co_await expressions, which the compiler moves to the
// frame. GCC 12 destroys some of them twice.
#include "probe.hpp"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

using namespace weft::probe;

namespace {

/// Calls what it holds when it is resumed, as blocking(fn) does.
template <class Callable>
class call_awaiter {
public:
    call_awaiter(Callable callable, bool suspends)
        : callable_(std::forward<Callable>(callable)), suspends_(suspends) {}

    bool await_ready() const noexcept { return !suspends_; }
    void await_suspend(std::coroutine_handle<> handle) const noexcept { parked = handle; }
    int await_resume() { return callable_(); }

private:
    Callable callable_;
    bool suspends_;
};

template <class Callable>
call_awaiter<Callable> call(Callable callable, bool suspends) {
    return {std::move(callable), suspends};
}

call_awaiter<std::function<int()>> call_function(std::function<int()> callable, bool suspends) {
    return {std::move(callable), suspends};
}

/// Holds a reference into the co_await expression, as an awaitable made from an rvalue may.
template <class Callable>
call_awaiter<Callable&> call_reference(Callable&& callable, bool suspends) {
    return {callable, suspends};
}

struct options {
    tracked item;
    int number = 0;
};

give<int> by_value(options from, bool suspends) {
    return give<int>(from.item.value() + from.number, suspends);
}

give<int> by_reference(const options& from, bool suspends) {
    return give<int>(from.item.value() + from.number, suspends);
}

give<int> from_array(std::array<tracked, 2> from, bool suspends) {
    return give<int>(from[0].value() + from[1].value(), suspends);
}

int sum(const options& left, int right) {
    return left.item.value() + left.number + right;
}

// G1. Each function is one shape; the result is always 7.

routine closure_by_value(bool suspends) {
    tracked item;
    observed = co_await call([item] { return item.value(); }, suspends);
}

routine closure_with_unique_ptr(bool suspends) {
    auto item = std::make_unique<tracked>();
    observed = co_await call([item = std::move(item)] { return item->value(); }, suspends);
}

routine closure_in_std_function(bool suspends) {
    tracked item;
    observed = co_await call_function([item] { return item.value(); }, suspends);
}

routine closure_by_reference(bool suspends) {
    tracked item;
    observed = co_await call_reference([item] { return item.value(); }, suspends);
}

routine closure_in_awaiter_made_in_place(bool suspends) {
    tracked item;
    const auto make = [item] { return item.value(); };
    observed = co_await call_awaiter<decltype(make)>(make, suspends);
}

routine aggregate_by_value(bool suspends) {
    observed = co_await by_value(options{tracked(5), 2}, suspends);
}

routine aggregate_by_reference(bool suspends) {
    observed = co_await by_reference(options{tracked(5), 2}, suspends);
}

routine aggregate_in_braces(bool suspends) {
    observed = co_await by_value({tracked(5), 2}, suspends);
}

routine aggregate_in_designated_braces(bool suspends) {
    observed = co_await by_value({.item = tracked(5), .number = 2}, suspends);
}

routine array_of_two(bool suspends) {
    observed = co_await from_array(std::array<tracked, 2>{tracked(3), tracked(4)}, suspends);
}

routine aggregate_beside_the_await(bool suspends) {
    observed = sum(options{tracked(4), 2}, co_await give<int>(1, suspends));
}

routine named_closure(bool suspends) {
    tracked item;
    auto callable = [item] { return item.value(); };
    observed = co_await call(std::move(callable), suspends);
}

routine named_awaitable(bool suspends) {
    tracked item;
    auto awaitable = call([item] { return item.value(); }, suspends);
    observed = co_await std::move(awaitable);
}

// G2: awaiters that are aggregates.

enum class refusal { none, returns_false, throws };

struct aggregate_awaiter {
    tracked item;
    bool suspends;
    refusal refuses = refusal::none;

    bool await_ready() const noexcept { return !suspends && refuses == refusal::none; }
    bool await_suspend(std::coroutine_handle<> handle) const {
        if (refuses == refusal::throws) throw std::runtime_error("await_suspend");
        parked = handle;
        return refuses == refusal::none;
    }
    int await_resume() const { return item.value(); }
};

aggregate_awaiter make_aggregate_awaiter(bool suspends, refusal refuses = refusal::none) {
    return {tracked(), suspends, refuses};
}

routine aggregate_as_awaiter(bool suspends) {
    observed = co_await aggregate_awaiter{tracked(), suspends};
}

routine aggregate_awaiter_from_function(bool suspends) {
    observed = co_await make_aggregate_awaiter(suspends);
}

routine refusing_aggregate(refusal refuses) {
    try {
        observed = co_await aggregate_awaiter{tracked(), true, refuses};
    } catch (const std::runtime_error&) {
        observed = 7;
    }
}

routine refusing_awaiter_from_function(refusal refuses) {
    try {
        observed = co_await make_aggregate_awaiter(true, refuses);
    } catch (const std::runtime_error&) {
        observed = 7;
    }
}

// G3: a conditional expression of class type.

routine conditional_expression(bool suspends) {
    const tracked item =
        suspends ? tracked(co_await give<int>(7, true)) : tracked(co_await give<int>(7, false));
    observed = item.value();
}

routine if_with_optional(bool suspends) {
    std::optional<tracked> item;
    if (suspends) {
        item.emplace(co_await give<int>(7, true));
    } else {
        item.emplace(co_await give<int>(7, false));
    }
    observed = item->value();
}

// G5: an aggregate whose initialiser awaits.

routine await_inside_aggregate(bool suspends) {
    const options made{co_await give<tracked>(tracked(5), suspends), co_await give<int>(2, false)};
    observed = made.item.value() + made.number;
}

lazy<options> return_aggregate_with_await() {
    co_return options{co_await give<tracked>(tracked(5), false), 2};
}

routine await_inside_returned_aggregate(bool suspends) {
    const options made = co_await return_aggregate_with_await();
    observed = co_await give<int>(made.item.value() + made.number, suspends);
}

routine await_into_named_values(bool suspends) {
    tracked item = co_await give<tracked>(tracked(5), suspends);
    const int number = co_await give<int>(2, false);
    const options made{std::move(item), number};
    observed = made.item.value() + made.number;
}

lazy<options> return_named_aggregate() {
    tracked item = co_await give<tracked>(tracked(5), false);
    options made{std::move(item), 2};
    co_return std::move(made);
}

routine await_returned_named_aggregate(bool suspends) {
    const options made = co_await return_named_aggregate();
    observed = co_await give<int>(made.item.value() + made.number, suspends);
}

// G6: coroutine lambdas.

routine capturing_coroutine_lambda_awaited_at_once(bool suspends) {
    tracked item;
    observed = co_await
        [item, suspends]() -> lazy<int> { co_return co_await give<int>(item.value(), suspends); }();
}

/// As co_spawn(fn, args...) does: function and arguments live in the frame of this coroutine.
template <class Function, class... Arguments>
lazy<int> call_in_frame(Function function, Arguments... arguments) {
    co_return co_await function(std::move(arguments)...);
}

routine coroutine_lambda_with_parameters(bool suspends) {
    tracked item;
    observed = co_await [](tracked from, bool pauses) -> lazy<int> {
        co_return co_await give<int>(from.value(), pauses);
    }(std::move(item), suspends);
}

lazy<int> make_call_in_frame(bool suspends) {
    tracked item;
    const auto function = [item](tracked from, bool pauses) -> lazy<int> {
        co_return co_await give<int>(from.value() + item.value() - 7, pauses);
    };
    return call_in_frame(function, tracked(), suspends);
}

routine capturing_coroutine_lambda_kept_in_a_frame(bool suspends) {
    auto made = make_call_in_frame(suspends);
    observed = co_await std::move(made);
}

}  // namespace

TEST_CASE("G1: a temporary closure or aggregate in a co_await expression is destroyed once",
          "[G1]") {
    INFO(
        "If this fails, `co_await blocking([s] { ... })` and option structs written in place "
        "corrupt memory: this compiler is not fit for weft.");
    CHECK(faults_of(closure_by_value) == "");
    CHECK(faults_of(closure_by_reference) == "");
    CHECK(faults_of(closure_in_awaiter_made_in_place) == "");
    CHECK(faults_of(aggregate_by_value) == "");
    CHECK(faults_of(aggregate_by_reference) == "");
    CHECK(faults_of(aggregate_in_braces) == "");
    CHECK(faults_of(aggregate_in_designated_braces) == "");
    CHECK(faults_of(array_of_two) == "");
    CHECK(faults_of(aggregate_beside_the_await) == "");
    CHECK(faults_of(named_closure) == "");
    CHECK(faults_of(named_awaitable) == "");
    // These own memory, and a compiler that destroys them twice ends the process.
    CHECK(fault_in_child([] { return faults_of(closure_with_unique_ptr).empty(); }) == "");
    CHECK(fault_in_child([] { return faults_of(closure_in_std_function).empty(); }) == "");
}

TEST_CASE("G2: an awaiter is destroyed once, also if await_suspend throws or returns false",
          "[G2]") {
    INFO("If this fails, awaiters that refuse to suspend corrupt memory: not fit for weft.");
    CHECK(faults_of(aggregate_as_awaiter) == "");
    CHECK(faults_of(aggregate_awaiter_from_function) == "");
    for (const refusal refuses : {refusal::returns_false, refusal::throws}) {
        CAPTURE(static_cast<int>(refuses));
        const auto in_place = [refuses](bool) { return refusing_aggregate(refuses); };
        const auto from_function = [refuses](bool) {
            return refusing_awaiter_from_function(refuses);
        };
        CHECK(fault_of(in_place, drive::ready, 7) == "");
        CHECK(fault_of(from_function, drive::ready, 7) == "");
    }
}

TEST_CASE("G3: values that are awaited in two branches are destroyed once", "[G3]") {
    INFO("If this fails, if and else with co_await in them corrupt memory: not fit for weft.");
    CHECK(faults_of(if_with_optional) == "");
    report_avoided("G3, co_await in a conditional expression of class type",
                   faults_of(conditional_expression), "if and else, and an optional");
}

TEST_CASE("G5: an aggregate made from awaited values is destroyed once", "[G5]") {
    INFO("If this fails, results that are awaited one by one corrupt memory: not fit for weft.");
    CHECK(faults_of(await_into_named_values) == "");
    CHECK(faults_of(await_returned_named_aggregate) == "");
    report_avoided("G5, co_await inside the braces of an aggregate",
                   faults_of(await_inside_aggregate), "results into named values first");
    report_avoided("G5, co_return of an aggregate with co_await inside its braces",
                   faults_of(await_inside_returned_aggregate), "results into named values first");
}

TEST_CASE("G6: a coroutine lambda may have parameters, and be kept in a frame", "[G6]") {
    INFO("If this fails, co_spawn(fn, args...) corrupts memory: not fit for weft.");
    CHECK(faults_of(coroutine_lambda_with_parameters) == "");
    CHECK(faults_of(capturing_coroutine_lambda_kept_in_a_frame) == "");
    report_avoided("G6, a capturing coroutine lambda that is awaited at once",
                   faults_of(capturing_coroutine_lambda_awaited_at_once),
                   "no captures in coroutine lambdas; co_spawn(fn, args...)");
}
