// SPDX-License-Identifier: MIT
//
// Traps G4, G9, G10, C3 and C4: shapes of coroutine bodies and attributes.
#include "shapes.hpp"

#include "probe.hpp"

#include <coroutine>
#include <exception>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

using namespace weft::probe;

namespace {

// G4: lists of elements.

int sum(const std::vector<tracked>& of) {
    int total = 0;
    for (const tracked& each : of) total += each.value();
    return total;
}

give<int> sum_later(const std::vector<tracked>& of, bool suspends) {
    return give<int>(sum(of), suspends);
}

routine named_list(bool suspends) {
    tracked first = co_await give<tracked>(tracked(3), suspends);
    const std::vector<tracked> list = {first, tracked(4)};
    observed = co_await sum_later(list, false);
}

// G9: structured bindings.

routine bind_to_await(bool suspends) {
    auto [item, number] =
        co_await give<std::pair<tracked, int>>(std::pair(tracked(4), 3), suspends);
    observed = item.value() + number;
}

routine bind_tuple_to_await(bool suspends) {
    const auto [item, number] =
        co_await give<std::tuple<tracked, int>>(std::tuple(tracked(4), 3), suspends);
    observed = item.value() + number;
}

routine bind_to_named_value(bool suspends) {
    auto named = co_await give<std::pair<tracked, int>>(std::pair(tracked(4), 3), suspends);
    auto& [item, number] = named;
    observed = item.value() + number;
}

// G10: an adaptor instead of a macro.

template <class Awaiter>
class as_variant {
public:
    explicit as_variant(Awaiter awaiter) : awaiter_(std::move(awaiter)) {}
    bool await_ready() { return awaiter_.await_ready(); }
    void await_suspend(std::coroutine_handle<> handle) { awaiter_.await_suspend(handle); }
    std::variant<tracked, std::exception_ptr> await_resume() {
        try {
            return awaiter_.await_resume();
        } catch (...) {
            return std::current_exception();
        }
    }

private:
    Awaiter awaiter_;
};

routine await_through_adaptor(bool suspends) {
    auto result = co_await as_variant(give<tracked>(tracked(), suspends));
    if (const tracked* item = std::get_if<tracked>(&result)) observed = item->value();
}

// C3: loops; clang 14 crashed on some of them with optimisation.

routine while_with_break(bool suspends) {
    int count = 0;
    while (true) {
        const int value = co_await give<int>(1, suspends && count == 0);
        count += value;
        if (count == 7) break;
    }
    observed = count;
}

routine while_on_await(bool suspends) {
    int count = 0;
    while (co_await give<int>(count < 7, suspends && count == 0)) {
        tracked each(count);
        if (each.value() % 2 == 0) {
            ++count;
            continue;
        }
        ++count;
    }
    observed = count;
}

routine nested_loops_with_try(bool suspends) {
    int count = 0;
    do {
        for (const int step : {1, 1, 1}) {
            try {
                tracked item(co_await give<int>(step, suspends && count == 0));
                if (count == 6) throw item.value();
                count += item.value();
            } catch (int last) {
                observed = count + last;
                co_return;
            }
        }
    } while (count < 100);
}

// G14 of some reports: coroutines without variables of their own.

lazy<int> no_variables() {
    co_return 7;
}

routine only_awaits(bool) {
    observed = co_await no_variables();
}

// C4: attributes, wrapped as weft wraps them.

#if defined(__has_cpp_attribute)
#if __has_cpp_attribute(clang::coro_lifetimebound) && __has_cpp_attribute(clang::coro_return_type)
#define WEFT_PROBE_COROUTINE_TYPE [[clang::coro_return_type, clang::coro_lifetimebound]]
#endif
#if __has_cpp_attribute(clang::coro_await_elidable)
#define WEFT_PROBE_ELIDABLE [[clang::coro_await_elidable]]
#endif
#endif
#ifndef WEFT_PROBE_COROUTINE_TYPE
#define WEFT_PROBE_COROUTINE_TYPE
#endif
#ifndef WEFT_PROBE_ELIDABLE
#define WEFT_PROBE_ELIDABLE
#endif

class WEFT_PROBE_COROUTINE_TYPE WEFT_PROBE_ELIDABLE attributed {
public:
    struct promise_type {
        attributed get_return_object() noexcept {
            return attributed(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        to_awaiter final_suspend() const noexcept { return {}; }
        void return_value(int value) noexcept { result = value; }
        void unhandled_exception() const noexcept { std::terminate(); }

        std::coroutine_handle<> awaiter;
        int result = 0;
    };

    explicit attributed(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
    attributed(attributed&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    attributed& operator=(attributed&&) = delete;
    ~attributed() {
        if (handle_) handle_.destroy();
    }
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) noexcept {
        handle_.promise().awaiter = awaiter;
        return handle_;
    }
    int await_resume() const noexcept { return handle_.promise().result; }

private:
    std::coroutine_handle<promise_type> handle_;
};

attributed attributed_leaf(tracked item, bool suspends) {
    tracked local(item.value());
    const int value = co_await give<int>(local.value(), false);
    co_await give<int>(0, suspends);
    co_return value;
}

attributed attributed_inner(bool suspends) {
    tracked local(2);
    const int first = co_await attributed_leaf(tracked(3), false);
    co_return first + co_await attributed_leaf(tracked(2), suspends) + local.value();
}

routine await_attributed(bool suspends) {
    observed = co_await attributed_inner(suspends);
}

}  // namespace

TEST_CASE("G4: a named list of elements is destroyed once", "[G4]") {
    INFO("If this fails, lists of awaited values corrupt memory: not fit for weft.");
    CHECK(faults_of(named_list) == "");
    const char* rule = "name the list first";
#if WEFT_PROBE_BRACED_LIST
    report_avoided("G4, a braced list of co_await expressions", faults_of(braced_list_of_awaits),
                   rule);
    report_avoided("G4, a braced list in a co_await expression",
                   faults_of(braced_list_beside_await), rule);
#else
    report_avoided("G4, a braced list in a co_await expression", "does not compile", rule);
#endif
}

TEST_CASE("G9: the parts of an awaited value are bound by reference to a named value", "[G9]") {
    INFO("If this fails, results with several parts are leaked or destroyed twice.");
    CHECK(faults_of(bind_to_named_value) == "");
    const char* rule = "name the value, then bind by reference; no tuples in weft's results";
    report_avoided("G9, a structured binding of a pair", faults_of(bind_to_await), rule);
    report_avoided("G9, a structured binding of a tuple", faults_of(bind_tuple_to_await), rule);
}

TEST_CASE("G10: an awaitable adaptor gives the same as the awaitable", "[G10]") {
    INFO("If this fails, as_result corrupts memory: not fit for weft.");
    CHECK(faults_of(await_through_adaptor) == "");
    const char* rule = "awaitable adaptors such as as_result, no TRY macros";
#if WEFT_PROBE_STATEMENT_EXPRESSION
    report_avoided("G10, co_await in a statement expression",
                   faults_of(await_in_statement_expression), rule);
#else
    report_avoided("G10, co_await in a statement expression", "does not compile", rule);
#endif
}

TEST_CASE("C3: loops of every form with awaits in them end as they should", "[C3]") {
    INFO("If this fails, loops in tasks are miscompiled: not fit for weft.");
    CHECK(faults_of(while_with_break) == "");
    CHECK(faults_of(while_on_await) == "");
    CHECK(faults_of(nested_loops_with_try) == "");
    CHECK(fault_of(only_awaits, drive::ready, 7) == "");
}

TEST_CASE("C4: a type with weft's attributes works, and may be destroyed parked", "[C4]") {
    INFO("If this fails, weft must be compiled without the attributes of task.");
    CHECK(faults_of(await_attributed) == "");
}
