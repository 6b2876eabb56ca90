// SPDX-License-Identifier: MIT
//
// What must not compile, and what must: compile_test.py compiles this file once for each number of
// MISUSE. Number 0 is the right use of everything that the others misuse.
#include <weft/weft.hpp>

#include <chrono>
#include <coroutine>

#ifndef MISUSE
#define MISUSE 0
#endif

namespace {

using namespace std::chrono_literals;

/// As in code that keeps a handle and resumes it by hand.
struct foreign {
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<>) noexcept {}
    void await_resume() const noexcept {}
};

struct makes_foreign {
    foreign operator co_await() const noexcept { return {}; }
};

struct makes_foreign_freely {};
[[maybe_unused]] foreign operator co_await(makes_foreign_freely) noexcept {
    return {};
}

/// Looks at the handle and goes on.
struct looks_only {
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> handle) noexcept {
        seen = handle.address();
        return false;
    }
    void* await_resume() const noexcept { return seen; }
    void* seen = nullptr;
};

/// Hands its handle, which has the type of the promise, to an awaiter of weft.
class wraps_weft {
public:
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    auto await_suspend(std::coroutine_handle<Promise> suspended) noexcept {
        return inner_.await_suspend(suspended);
    }
    void await_resume() { inner_.await_resume(); }

private:
    weft::detail::sleep_awaiter inner_ = weft::sleep_for(1ms);
};

/// Takes anything.
struct takes_anything {
    bool await_ready() const noexcept { return true; }
    void await_suspend(auto&&) noexcept {}
    void await_resume() const noexcept {}
};

weft::task<int> give() {
    co_return 1;
}
weft::task<int&> give_reference(int& value) {
    co_return value;
}

}  // namespace

template <>
inline constexpr bool weft::accept_foreign_awaiter<looks_only> = true;

weft::task<int> use() {
    int value = 0;
#if MISUSE == 0
    co_await std::suspend_never{};
    co_await looks_only{};
    co_await wraps_weft{};
    co_await takes_anything{};
    co_await weft::sleep_for(1ms);
    co_await weft::yield();
    value = co_await give();
    value += *co_await weft::as_result(give());
    value += co_await weft::with_timeout(1s, give());
    auto handle = weft::co_spawn(give());
    value += *co_await weft::as_result(std::move(handle));
    value += co_await weft::with_timeout(1s, give_reference(value));
    value += co_await weft::blocking([] { return 1; });
    value += co_await weft::try_blocking([] { return 1; });
    weft::blocking_detached([] { return 1; });
#elif MISUSE == 1
    co_await std::suspend_always{};
#elif MISUSE == 2
    co_await foreign{};
#elif MISUSE == 3
    foreign kept;
    co_await kept;
#elif MISUSE == 4
    co_await makes_foreign{};
#elif MISUSE == 5
    co_await makes_foreign_freely{};
#elif MISUSE == 6
    co_await weft::as_result(foreign{});
#elif MISUSE == 7
    co_await weft::with_timeout(1s, foreign{});
#elif MISUSE == 8
    co_await weft::as_result(give_reference(value));
#elif MISUSE == 9
    weft::task<int&&> empty;
#elif MISUSE == 10
    co_await weft::blocking([] { return give(); });
#elif MISUSE == 11
    co_await weft::try_blocking(give);
#elif MISUSE == 12
    weft::blocking_detached([]() -> weft::task<> { co_return; });
#endif
    co_return value;
}
