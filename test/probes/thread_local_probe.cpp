// SPDX-License-Identifier: MIT
//
// Trap C2: a coroutine that suspends on one thread and goes on on another, and what it then sees of
// thread-local variables. A compiler may keep an address or an identity over the suspension.
#include "thread_local_probe.hpp"

#include "probe.hpp"

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include <pthread.h>

using namespace weft::probe;

namespace {

/// The mark of the thread that resumes, written by the driver before each resume.
mark* expected = nullptr;

struct counts {
    int accessor_right = 0, accessor_wrong = 0;
    int allocation_right = 0, allocation_wrong = 0;
    int final_right = 0, final_wrong = 0;
    int body_wrong = 0, identity_wrong = 0, address_wrong = 0;
};

counts seen;

/// A child task, whose frame allocation and final suspend read the thread-local inline.
class child {
public:
    struct promise_type {
        static void* operator new(std::size_t size) {
            ++(inline_mark == expected ? seen.allocation_right : seen.allocation_wrong);
            return ::operator new(size);
        }
        static void operator delete(void* frame, std::size_t) noexcept {
            ++(inline_mark == expected ? seen.allocation_right : seen.allocation_wrong);
            ::operator delete(frame);
        }
        child get_return_object() noexcept {
            return child(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        auto final_suspend() const noexcept {
            struct to_awaiter {
                bool await_ready() const noexcept { return false; }
                std::coroutine_handle<> await_suspend(
                    std::coroutine_handle<promise_type> ended) const noexcept {
                    ++(inline_mark == expected ? seen.final_right : seen.final_wrong);
                    return ended.promise().awaiter;
                }
                void await_resume() const noexcept {}
            };
            return to_awaiter();
        }
        void return_void() const noexcept {}
        void unhandled_exception() const noexcept { std::terminate(); }

        std::coroutine_handle<> awaiter;
    };

    explicit child(std::coroutine_handle<promise_type> handle) noexcept
        : handle_(of_unknown_origin(handle)) {}
    child(const child&) = delete;
    child& operator=(const child&) = delete;
    ~child() { handle_.destroy(); }

    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) noexcept {
        handle_.promise().awaiter = awaiter;
        return handle_;
    }
    void await_resume() const noexcept {}

private:
    std::coroutine_handle<promise_type> handle_;
};

struct hop {
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) const noexcept { parked = handle; }
    void await_resume() const noexcept {}
};

void ask_accessor() {
    ++(mark_of_this_thread() == expected ? seen.accessor_right : seen.accessor_wrong);
}

child end_at_once() {
    co_return;
}

child hop_and_end() {
    ask_accessor();
    co_await hop();
    ask_accessor();
}

child hop_between_children() {
    co_await end_at_once();
    co_await hop();
    co_await end_at_once();
    co_await hop_and_end();
}

constexpr int rounds = 200;

// Each round allocates and ends children on both sides of a hop, in one function body.
routine travel() {
    for (int i = 0; i < rounds; ++i) {
        ask_accessor();
        co_await end_at_once();
        co_await hop();
        ask_accessor();
        co_await end_at_once();
        co_await hop_and_end();
        ask_accessor();
        co_await hop_between_children();
    }
}

// What weft never does: the identity of a thread-local, or its value, in the body itself.
routine travel_with_reads_in_the_body() {
    for (int i = 0; i < rounds; ++i) {
        const pthread_t thread_before = pthread_self();
        mark** const address_before = &inline_mark;
        co_await hop();
        seen.body_wrong += inline_mark != expected;
        seen.identity_wrong += pthread_equal(thread_before, pthread_self()) != 0;
        seen.address_wrong += address_before == &inline_mark;
    }
}

/// Resumes the coroutine on two threads in turn, both of which live all the time, so that neither
/// addresses nor identities are reused.
void drive_over_threads(routine& made) {
    parked = made.handle();
    std::mutex mutex;
    std::condition_variable turned;
    int turn = 0;
    const auto work = [&](int number) {
        mark mine{number};
        inline_mark = &mine;
        std::unique_lock lock(mutex);
        for (;;) {
            turned.wait(lock, [&] { return turn == number || made.done(); });
            if (made.done()) return;
            expected = &mine;
            parked.resume();
            turn = 1 - number;
            turned.notify_all();
        }
    };
    std::thread first(work, 0);
    std::thread second(work, 1);
    first.join();
    second.join();
}

}  // namespace

TEST_CASE("C2: after a change of threads an accessor that is not inlined sees the new one",
          "[C2]") {
    INFO("If this fails, weft takes another thread's worker for its own: not fit for weft.");
    seen = {};
    routine made = travel();
    drive_over_threads(made);
    made.rethrow();
    CHECK(seen.accessor_wrong == 0);
    CHECK(seen.accessor_right == rounds * 7);
}

TEST_CASE("C2: frame allocation and final suspend see the current thread's variable inline",
          "[C2]") {
    INFO(
        "If this fails, weft's frame cache and its joins use another thread's worker: read the "
        "worker through the accessor there, or do not use this compiler.");
    seen = {};
    routine made = travel();
    drive_over_threads(made);
    made.rethrow();
    CHECK(seen.allocation_wrong == 0);
    CHECK(seen.allocation_right == rounds * 7 * 2);
    CHECK(seen.final_wrong == 0);
    CHECK(seen.final_right == rounds * 7);
}

TEST_CASE("C2: reading thread-local variables in a coroutine's body", "[C2]") {
    INFO("weft does not do this; whoever writes a task should not either.");
    seen = {};
    routine made = travel_with_reads_in_the_body();
    drive_over_threads(made);
    made.rethrow();
    REQUIRE(made.done());
    const auto fault = [](int wrong, const char* what) {
        return wrong == 0 ? std::string()
                          : std::string(what) + " is stale in " + std::to_string(wrong) + " of " +
                                std::to_string(rounds) + " changes of threads";
    };
    const char* rule = "the worker comes from the task, or from an accessor that is not inlined";
    report_avoided("C2", fault(seen.body_wrong, "the value of a thread-local"), rule);
    report_avoided("C2", fault(seen.identity_wrong, "the identity of the thread"), rule);
    report_avoided("C2", fault(seen.address_wrong, "the address of a thread-local"), rule);
}
