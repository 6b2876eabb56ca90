// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/one_processor.hpp"
#include "support/scheduler.hpp"

#include <weft/as_result.hpp>
#include <weft/detail/task/awaiter.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/yield.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

// The end of a runtime walks over its tasks, to stop them and to destroy what is left of them. It
// did so with the lock of their slabs held, and under that took operations off their objects, which
// may ready others, and ran destructors of the user's.

using namespace std::chrono_literals;

namespace {

/// A thread that walks over the tasks of a runtime, which it can while nobody else does.
class walk {
public:
    explicit walk(weft::detail::runtime_core& over) {
        thread_ = std::thread([this, &over] {
            over.slabs.for_each_alive([](weft::detail::task_control&) {});
            ended_ = true;
        });
    }
    ~walk() { thread_.join(); }

    bool ends() const {
        return weft::test::spin_until([this] { return ended_.load(); });
    }

private:
    std::atomic<bool> ended_{false};
    std::thread thread_;
};

struct findings {
    bool asked = false;
    bool free = false;
    /// Until its runtime has let the lock go, should it have it.
    std::optional<walk> walked;

    void look() noexcept {
        asked = true;
        walked.emplace(weft::test::this_core());
        free = walked->ends();
    }
};

/// Waits for nothing, and looks when it is stopped.
class looking_operation : public weft::detail::operation {
public:
    explicit looking_operation(findings& into) noexcept
        : operation(false, weft::detail::wait_reason::event), into_(&into) {}

    bool start(weft::detail::branch& waiter) noexcept final {
        return !prepare_park(waiter, *this) || park(waiter, *this);
    }
    bool unlink() noexcept final {
        into_->look();
        return true;
    }

protected:
    ~looking_operation() = default;

private:
    findings* into_;
};

class [[nodiscard]] looking_awaiter final : public weft::detail::awaiter<looking_operation> {
public:
    using awaiter<looking_operation>::awaiter;
    void await_resume() const { throw_unless_completed(); }
};

/// Looks when it is destroyed at the end of a runtime.
class looks_at_end {
public:
    explicit looks_at_end(findings& into) noexcept : into_(&into) {}
    looks_at_end(const looks_at_end&) = delete;
    looks_at_end& operator=(const looks_at_end&) = delete;
    ~looks_at_end() {
        if (weft::test::this_core().phase() == weft::detail::runtime_phase::destroying) {
            into_->look();
        }
    }

private:
    findings* into_;
};

}  // namespace

TEST_CASE("tasks are taken off what they wait for with nothing locked when a runtime ends",
          "[regress]") {
    findings found;
    const auto wait = [](findings& into) -> weft::task<> { co_await looking_awaiter(into); };
    const auto main = [](auto body, findings& into) -> weft::task<> {
        weft::co_spawn(body, std::ref(into)).detach();
        co_await weft::test::settle();
    };
    weft::test::run_alone(main(wait, found));
    CHECK(found.asked);
    CHECK(found.free);
}

TEST_CASE("frames are destroyed with nothing locked when a runtime ends", "[regress]") {
    findings found;
    const auto stay = [](findings& into) -> weft::task<> {
        const looks_at_end local(into);
        // Stopped: goes on until it is destroyed.
        for (;;) static_cast<void>(co_await weft::as_result(weft::yield()));
    };
    const auto main = [](auto body, findings& into) -> weft::task<> {
        weft::co_spawn(body, std::ref(into)).detach();
        co_await weft::test::let_others_run();
    };
    weft::run(main(stay, found), {.processors = 1, .compensate = false, .shutdown_grace = 0ms});
    CHECK(found.asked);
    CHECK(found.free);
}
