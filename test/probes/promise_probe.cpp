// SPDX-License-Identifier: MIT
//
// Traps G11 and E1, and what weft expects of promises: where they lie, what they return, in which
// order a frame ends, and what happens to it when something throws.
#include "probe.hpp"

#include <array>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace weft::probe;

namespace {

std::vector<std::string> events;

struct logs_its_end {
    explicit logs_its_end(std::string its_name) : name(std::move(its_name)) {}
    logs_its_end(logs_its_end&& other) noexcept : name(std::exchange(other.name, {})) {}
    logs_its_end& operator=(logs_its_end&&) = delete;
    ~logs_its_end() {
        if (!name.empty()) events.push_back(name);
    }
    std::string name;
};

// The order of the end of a frame.

struct ordered_promise : basic_promise<ordered_promise> {
    ~ordered_promise() { events.push_back("promise"); }
    static void* operator new(std::size_t size) { return ::operator new(size); }
    static void operator delete(void* frame, std::size_t) noexcept {
        events.push_back("memory");
        ::operator delete(frame);
    }
};

owner<ordered_promise> ordered(logs_its_end first_parameter, logs_its_end second_parameter,
                               bool suspends) {
    logs_its_end outer("outer local");
    {
        logs_its_end inner("inner local");
        co_await give<int>(0, suspends);
    }
    static_cast<void>(first_parameter);
    static_cast<void>(second_parameter);
}

// A promise seen as its base.

struct alignas(16) promise_base {
    long words[4] = {1, 2, 3, 4};
};

template <std::size_t Alignment, std::size_t Size>
struct derived_promise : promise_base, basic_promise<derived_promise<Alignment, Size>> {
    alignas(Alignment) std::array<unsigned char, Size> more{};
};

struct small_base {
    void* word = nullptr;
};

template <std::size_t Alignment>
struct small_promise : small_base, basic_promise<small_promise<Alignment>> {
    alignas(Alignment) unsigned char more = 0;
};

template <class Promise>
owner<Promise> coroutine_of(tracked parameter) {
    unsigned char local[40] = {};
    co_await give<int>(local[0], true);
    observed = parameter.value();
}

/// Whether a handle that knows the base alone finds the promise, in both directions.
template <class Base, class Promise>
std::string fault_of_base() {
    std::string fault;
    auto made = coroutine_of<Promise>(tracked());
    Promise& promise = made.handle().promise();
    const auto by_base = std::coroutine_handle<Base>::from_address(made.handle().address());
    if (&by_base.promise() != static_cast<Base*>(&promise)) fault += "handle to promise; ";
    const auto back = std::coroutine_handle<Base>::from_promise(static_cast<Base&>(promise));
    if (back.address() != made.handle().address()) fault += "promise to handle; ";
    if (reinterpret_cast<std::uintptr_t>(&promise) % alignof(Promise) != 0) fault += "alignment; ";
    if (fault.empty()) by_base.resume();
    return fault;
}

// G11: what get_return_object returns, and when.

/// Neither copied nor moved: whoever calls the coroutine gets the very object.
class immovable {
public:
    struct promise_type {
        immovable get_return_object() noexcept {
            events.push_back("get_return_object");
            return immovable(*this);
        }
        std::suspend_never initial_suspend() const noexcept {
            events.push_back("initial_suspend");
            return {};
        }
        std::suspend_always final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        void unhandled_exception() const noexcept {}

        immovable* returned = nullptr;
    };

    explicit immovable(promise_type& promise) noexcept
        : handle_(std::coroutine_handle<promise_type>::from_promise(promise)) {
        promise.returned = this;
    }
    immovable(const immovable&) = delete;
    immovable& operator=(const immovable&) = delete;
    ~immovable() { handle_.destroy(); }

    bool is_where_it_was_made() const noexcept { return handle_.promise().returned == this; }

private:
    std::coroutine_handle<promise_type> handle_;
};

immovable return_in_place() {
    events.push_back("body");
    co_return;
}

struct converted {
    struct promise_type;
    struct from_promise {
        std::coroutine_handle<promise_type> handle;
        operator converted() const {
            events.push_back("conversion");
            return converted{handle};
        }
    };
    struct promise_type {
        from_promise get_return_object() noexcept {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_never initial_suspend() const noexcept { return {}; }
        std::suspend_always final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        void unhandled_exception() const noexcept {}
    };
    std::coroutine_handle<promise_type> handle;
};

converted return_converted() {
    events.push_back("body");
    co_return;
}

// E1: something throws.

enum class thrower {
    nothing,
    promise,
    return_object,
    initial_suspend,
    initial_await,
    await_suspend,
    body
};

thrower who_throws = thrower::nothing;

void throw_if(thrower here) {
    if (who_throws == here) throw std::runtime_error("probe");
}

struct throwing_promise;

/// Not an owner: when initial_suspend throws, the caller's side destroys both the frame and this
/// object, and an owner would destroy the frame again. (weft's initial_suspend does not throw.)
struct throwing_coroutine {
    using promise_type = throwing_promise;
    std::coroutine_handle<throwing_promise> handle;
};

struct throwing_promise {
    throwing_promise() { throw_if(thrower::promise); }

    throwing_coroutine get_return_object() {
        throw_if(thrower::return_object);
        return {of_unknown_origin(std::coroutine_handle<throwing_promise>::from_promise(*this))};
    }
    auto initial_suspend() const {
        throw_if(thrower::initial_suspend);
        struct first_await {
            bool await_ready() const {
                throw_if(thrower::initial_await);
                return true;
            }
            void await_suspend(std::coroutine_handle<>) const noexcept {}
            void await_resume() const noexcept {}
        };
        return first_await();
    }
    std::suspend_always final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() noexcept { failed = true; }

    tracked member;
    bool failed = false;
};

struct throwing_awaiter {
    tracked member;
    explicit throwing_awaiter(int value) : member(value) {}
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<>) const {
        throw_if(thrower::await_suspend);
        return false;
    }
    void await_resume() const noexcept {}
};

throwing_coroutine throwing(tracked first, tracked second) {
    tracked local(first.value() + second.value());
    co_await throwing_awaiter(1);
    throw_if(thrower::body);
    observed = local.value();
}

struct rethrowing_promise : basic_promise<rethrowing_promise> {
    void unhandled_exception() const { throw; }
    tracked member;
};

owner<rethrowing_promise> rethrow_out_of_resume(tracked parameter) {
    tracked local(parameter.value());
    co_await give<int>(1, false);
    throw std::runtime_error("probe");
}

std::string fault_of_rethrow() {
    std::string fault;
    live_objects.close();
    {
        auto made = rethrow_out_of_resume(tracked());
        try {
            made.handle().resume();
            fault += "nothing was thrown; ";
        } catch (const std::runtime_error&) {
        }
        if (!made.handle().done()) fault += "not at its final suspend; ";
    }
    return fault + live_objects.close();
}

lazy<int> fail_in_depth(int depth) {
    tracked local;
    if (depth == 0) throw std::runtime_error("probe");
    co_return co_await fail_in_depth(depth - 1) + local.value();
}

routine catch_from_depth(bool suspends) {
    try {
        observed = co_await fail_in_depth(20);
    } catch (const std::runtime_error&) {
        observed = 7;
    }
    co_await give<int>(0, suspends);
}

}  // namespace

TEST_CASE("a frame ends with its locals, its promise, its parameters and its memory") {
    INFO(
        "If this fails, weft cannot rely on the promise while locals unwind, or on a parameter "
        "while they do: not fit for weft.");
    const std::vector<std::string> tail = {"promise", "second parameter", "first parameter",
                                           "memory"};
    bool reversed = true;
    for (const bool suspends : {false, true}) {
        CAPTURE(suspends);
        events.clear();
        {
            auto made = ordered(logs_its_end("first parameter"), logs_its_end("second parameter"),
                                suspends);
            made.handle().resume();
            CHECK(made.handle().done() == !suspends);
            // Run to the end, or destroyed where it waits: both in the same order.
            CHECK(events.size() == (suspends ? 0 : 2));
        }
        REQUIRE(events.size() == 6);
        reversed = events[3] == "second parameter";
        CHECK(events == std::vector<std::string>{"inner local", "outer local", "promise",
                                                 reversed ? "second parameter" : "first parameter",
                                                 reversed ? "first parameter" : "second parameter",
                                                 "memory"});
    }
    report_avoided("the order of parameters at the end of a frame",
                   reversed ? "" : "the first one is destroyed first",
                   "no parameter refers to another one");
}

TEST_CASE("a handle to the base of a promise finds the promise") {
    INFO("If this fails, weft's type-erased handles point beside the promise: not fit for weft.");
    live_objects.close();
    CHECK(fault_of_base<promise_base, derived_promise<1, 1>>() == "");
    CHECK(fault_of_base<promise_base, derived_promise<4, 100>>() == "");
    CHECK(fault_of_base<promise_base, derived_promise<8, 1000>>() == "");
    CHECK(fault_of_base<promise_base, derived_promise<16, 16>>() == "");
    CHECK(fault_of_base<small_base, small_promise<1>>() == "");
    CHECK(fault_of_base<small_base, small_promise<8>>() == "");
    CHECK(fault_of_base<small_base, small_promise<16>>() == "");
    CHECK(live_objects.close() == "");
    report_avoided("a handle to the base of a promise aligned to 64",
                   fault_of_base<small_base, small_promise<64>>(),
                   "results and awaiters are aligned to 16 at most");
    live_objects.close();
}

TEST_CASE("G11: get_return_object gives its result in place and before the body", "[G11]") {
    INFO("If this fails, task<T> does not know where it is before its coroutine starts.");
    events.clear();
    {
        const immovable made = return_in_place();
        CHECK(made.is_where_it_was_made());
    }
    CHECK(events == std::vector<std::string>{"get_return_object", "initial_suspend", "body"});

    events.clear();
    return_converted().handle.destroy();
    const bool early = events == std::vector<std::string>{"conversion", "body"};
    const bool late = events == std::vector<std::string>{"body", "conversion"};
    CHECK((early || late));
    report_avoided("G11, a return object of another type",
                   early ? "" : "converted after the body ran",
                   "get_return_object returns the task itself");
}

TEST_CASE("E1: whatever throws, parameters, promise and locals are destroyed once", "[E1]") {
    INFO("If this fails, an exception in a task corrupts memory: not fit for weft.");
    for (const thrower each :
         {thrower::nothing, thrower::promise, thrower::return_object, thrower::initial_suspend,
          thrower::initial_await, thrower::await_suspend, thrower::body}) {
        CAPTURE(static_cast<int>(each));
        live_objects.close();
        who_throws = each;
        observed = 0;
        bool thrown = false;
        bool failed = false;
        try {
            const auto made = throwing(tracked(3), tracked(4));
            failed = made.handle.promise().failed;
            made.handle.destroy();
        } catch (const std::runtime_error&) {
            thrown = true;
        }
        CHECK(live_objects.close() == "");
        const bool inside = each == thrower::await_suspend || each == thrower::body;
        CHECK(failed == inside);
        CHECK(thrown == (!inside && each != thrower::nothing));
        CHECK(observed == (each == thrower::nothing ? 7 : 0));
    }
    who_throws = thrower::nothing;
}

TEST_CASE("E1: an exception passes through a chain of awaits", "[E1]") {
    INFO("If this fails, an exception in a task corrupts memory: not fit for weft.");
    CHECK(faults_of(catch_from_depth) == "");
    report_avoided("E1, an exception that leaves resume()", fault_of_rethrow(),
                   "unhandled_exception stores, nothing leaves resume()");
}
