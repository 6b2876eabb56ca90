// SPDX-License-Identifier: MIT
//
// Traps C1, C5 and G8, and what weft expects of awaiters: nothing touches a frame after its handle
// was published, and an awaiter stays where it is for as long as it is awaited.
#include "probe.hpp"
#include "quarantine.hpp"

#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace weft::probe;

namespace {

/// A coroutine that nobody owns: it starts at once, and its frame is freed at its end, or by
/// whoever destroys its handle.
struct detached {
    struct promise_type : quarantined {
        detached get_return_object() const noexcept { return {}; }
        std::suspend_never initial_suspend() const noexcept { return {}; }
        std::suspend_never final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        void unhandled_exception() const noexcept { std::terminate(); }
    };
};

enum class fate { resumed, destroyed };

fate next_fate = fate::resumed;
int resumptions = 0;

/// What can happen to a handle the moment it is published: another thread runs the coroutine to its
/// end, or destroys it, and its frame is gone before await_suspend returns.
[[gnu::noinline]] void publish(std::coroutine_handle<> handle) {
    std::thread([handle] {
        if (next_fate == fate::resumed) {
            handle.resume();
        } else {
            handle.destroy();
        }
    }).join();
}

// The awaiters hold a value, so that there is something in the frame to be touched by mistake.

struct publish_and_return_nothing {
    int number;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) const { publish(handle); }
    int await_resume() const noexcept { return number; }
};

struct publish_and_return_true {
    int number;
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> handle) const {
        publish(handle);
        return true;
    }
    int await_resume() const noexcept { return number; }
};

struct publish_and_return_noop {
    int number;
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> handle) const {
        publish(handle);
        return std::noop_coroutine();
    }
    int await_resume() const noexcept { return number; }
};

/// The way of weft: what is needed after the publication is copied to locals before it.
struct publish_and_return_next {
    int number;
    std::coroutine_handle<> next;
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> handle) const {
        const std::coroutine_handle<> target = next;
        publish(handle);
        return target;
    }
    int await_resume() const noexcept { return number; }
};

template <class Awaiter>
detached await_temporary(Awaiter from) {
    resumptions += co_await Awaiter(from);
}

template <class Awaiter>
detached await_local(Awaiter from) {
    Awaiter local(from);
    resumptions += co_await local;
}

/// Each shape, resumed and destroyed by the other thread.
template <class Awaiter>
void check_untouched(Awaiter awaiter) {
    for (const fate each : {fate::resumed, fate::destroyed}) {
        next_fate = each;
        resumptions = 0;
        await_temporary(awaiter);
        await_local(awaiter);
        CHECK(freed_frames.frames() == 2);
        CHECK(freed_frames.bytes_changed() == 0);
        CHECK(resumptions == (each == fate::resumed ? 2 : 0));
    }
}

// A child that ends: its awaiter destroys it, deep inside the child's own final suspend.

class child {
public:
    struct promise_type : quarantined {
        child get_return_object() noexcept {
            return child(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        to_awaiter final_suspend() const noexcept { return {}; }
        void return_value(int value) noexcept { result = value; }
        void unhandled_exception() const noexcept { std::terminate(); }

        std::coroutine_handle<> awaiter;
        int result = 0;
    };

    explicit child(std::coroutine_handle<promise_type> handle) noexcept
        : handle_(of_unknown_origin(handle)) {}
    child(child&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    child& operator=(child&&) = delete;
    ~child() {
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

child leaf(int value) {
    tracked item(value);
    co_return item.value();
}

child inner(int value) {
    const int first = co_await leaf(value);
    co_return first + co_await leaf(1);
}

routine await_children(bool suspends) {
    int total = 0;
    for (int i = 0; i < 100; ++i) total += co_await inner(i);
    observed = co_await give<int>(total, suspends);
}

// G8: a coroutine that destroys itself in its own await_suspend.

struct destroy_self {
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) const noexcept { handle.destroy(); }
    void await_resume() const noexcept {}
};

detached destroy_itself() {
    tracked item;
    co_await destroy_self();
}

struct leave_to_loop {
    std::coroutine_handle<>& to_destroy;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) const noexcept { to_destroy = handle; }
    void await_resume() const noexcept {}
};

detached be_destroyed_by_loop(std::coroutine_handle<>& to_destroy) {
    tracked item;
    co_await leave_to_loop{to_destroy};
}

// Awaiters as nodes of intrusive lists: linked by address while their frame waits.

std::vector<const void*> visits;
std::set<const void*> linked;

class node_awaiter {
public:
    node_awaiter() { live_objects.born(this); }
    node_awaiter(const node_awaiter&) = delete;
    node_awaiter& operator=(const node_awaiter&) = delete;
    ~node_awaiter() {
        linked.erase(this);
        live_objects.died(this);
    }

    bool await_ready() const {
        visits.push_back(this);
        return false;
    }
    void await_suspend(std::coroutine_handle<>) const {
        visits.push_back(this);
        linked.insert(this);
    }
    int await_resume() const {
        visits.push_back(this);
        return linked.contains(this) ? 7 : 0;
    }
};

struct awaitable_with_operator {
    node_awaiter operator co_await() const { return {}; }
};

node_awaiter make_node() {
    return {};
}

class transforming {
public:
    struct promise_type {
        transforming get_return_object() noexcept {
            return transforming(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        std::suspend_always final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        void unhandled_exception() const noexcept { std::terminate(); }
        node_awaiter await_transform(int) const { return {}; }
    };

    explicit transforming(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
    transforming(transforming&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    transforming& operator=(transforming&&) = delete;
    ~transforming() {
        if (handle_) handle_.destroy();
    }
    bool done() const noexcept { return handle_.done(); }
    void resume() { handle_.resume(); }

private:
    std::coroutine_handle<promise_type> handle_;
};

routine await_node_from_function() {
    observed = co_await make_node();
}
routine await_node_from_operator() {
    observed = co_await awaitable_with_operator();
}
transforming await_node_from_transform() {
    observed = co_await 1;
}

template <class Make>
void check_node(Make make) {
    for (const bool resumes : {true, false}) {
        CAPTURE(resumes);
        live_objects.close();
        visits.clear();
        observed = 0;
        {
            auto made = make();
            made.resume();
            CHECK_FALSE(made.done());
            CHECK(linked.size() == 1);
            if (resumes) made.resume();
        }
        CHECK(live_objects.close() == "");
        CHECK(linked.empty());
        CHECK(visits.size() == (resumes ? 3 : 2));
        CHECK(std::set<const void*>(visits.begin(), visits.end()).size() == 1);
        CHECK(observed == (resumes ? 7 : 0));
    }
}

}  // namespace

TEST_CASE("C1: nothing touches a frame after await_suspend has published its handle", "[C1]") {
    INFO(
        "If this fails, a task that another worker resumes at once is corrupted by the worker "
        "that parked it: this compiler is not fit for weft.");
    check_untouched(publish_and_return_nothing{1});
    check_untouched(publish_and_return_true{1});
    check_untouched(publish_and_return_noop{1});
    check_untouched(publish_and_return_next{1, std::noop_coroutine()});
}

TEST_CASE("C1: after the publication await_suspend may transfer to another coroutine", "[C1]") {
    INFO("If this fails, a worker that goes on with the next task corrupts the parked one.");
    for (const fate each : {fate::resumed, fate::destroyed}) {
        next_fate = each;
        routine next = [](bool suspends) -> routine {
            observed = co_await give<int>(7, suspends);
        }(false);
        observed = 0;
        await_temporary(publish_and_return_next{1, next.handle()});
        CHECK(freed_frames.bytes_changed() == 0);
        CHECK(observed == 7);
        CHECK(next.done());
    }
}

TEST_CASE("C5: an awaiter may destroy a child that has just transferred to it", "[C5]") {
    INFO("If this fails, ending a task corrupts memory: this compiler is not fit for weft.");
    CHECK(faults_of(await_children, 4950 + 100) == "");
    CHECK(freed_frames.frames() > 0);
    CHECK(freed_frames.bytes_changed() == 0);
}

TEST_CASE("G8: a loop may destroy the coroutine that await_suspend left to it", "[G8]") {
    INFO("If this fails, weft cannot end a detached task.");
    live_objects.close();
    std::coroutine_handle<> to_destroy;
    be_destroyed_by_loop(to_destroy);
    REQUIRE(to_destroy);
    to_destroy.destroy();
    CHECK(live_objects.close() == "");
    CHECK(freed_frames.frames() == 1);
    CHECK(freed_frames.bytes_changed() == 0);

    report_avoided("G8, destroying a coroutine inside its own await_suspend", fault_in_child([] {
                       destroy_itself();
                       return live_objects.close().empty() && freed_frames.bytes_changed() == 0;
                   }),
                   "await_suspend leaves the frame to the loop");
}

TEST_CASE("an awaiter stays at one address while it is awaited, and is destroyed once") {
    INFO("If this fails, the intrusive wait lists of weft hold dangling nodes: not fit for weft.");
    check_node(await_node_from_function);
    check_node(await_node_from_operator);
    check_node(await_node_from_transform);
}
