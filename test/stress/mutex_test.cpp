// SPDX-License-Identifier: MIT
#include "stress/hurried.hpp"
#include "stress/lock_storm.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <system_error>

// Storms at a mutex: many tasks lock it, try to, hold it over suspensions, and are stopped at any
// point, by timeouts and by others (Tokio 2854, 3215). Sections never overlap, and each wait ends.

using namespace std::chrono_literals;
using weft::test::hurried;

namespace {

struct account {
    weft::mutex m;
    std::uint64_t guarded = 0;  // Written in sections only.
    std::atomic<std::uint64_t> entered{0}, missed{0}, late{0}, stopped{0}, wrong{0};
    std::atomic<bool> inside{false};

    std::uint64_t sections() const { return entered; }
    std::string describe() const {
        return std::to_string(entered) + " sections, held by task " + std::to_string(m.holder());
    }
    void check_free() {
        CHECK(guarded == entered);
        CHECK(missed != 0);
        CHECK(m.try_lock());
        m.unlock();
    }
};

/// A section, from construction to destruction.
struct section {
    explicit section(account& in) : all(in) {
        if (all.inside.exchange(true)) ++all.wrong;
        ++all.guarded;
        ++all.entered;
    }
    ~section() { all.inside = false; }
    section(const section&) = delete;
    section& operator=(const section&) = delete;
    account& all;
};

/// One section, or none. True: its scope was stopped.
weft::task<bool> take_turn(account& all, std::minstd_rand& random) {
    const auto choice = random() % 8;
    weft::unique_lock<weft::mutex> held;
    if (choice == 0) {
        held = weft::unique_lock<weft::mutex>(all.m, std::try_to_lock);
        if (!held) ++all.missed;
    } else {
        auto locked = choice <= 2 ? co_await hurried(all.m.scoped_lock(), random)
                                  : co_await weft::as_result(all.m.scoped_lock());
        if (locked) {
            held = *std::move(locked);
        } else if (locked.error() == std::errc::operation_canceled) {
            ++all.stopped;
            co_return true;
        } else {
            ++all.late;
            if (choice > 2 || locked.error() != std::errc::timed_out) ++all.wrong;
        }
    }
    if (!held) co_return false;
    const section here(all);
    // Some sections suspend, and some last for longer than who waits is patient.
    if (choice == 3) co_await weft::yield();
    if (random() % 2048 == 0) co_await weft::as_result(weft::sleep_for(2ms));
    co_return false;
}

weft::task<> take_turns(account& all, std::size_t count, unsigned seed) {
    std::minstd_rand random(seed);
    for (std::size_t i = 0; i < count; ++i) {
        if (co_await take_turn(all, random)) co_return;
    }
}

}  // namespace

TEST_CASE("stress: sections of a mutex never overlap and nobody is forgotten, 2 processors",
          "[stress]") {
    weft::test::lock_storm<account>(2, take_turns);
}

TEST_CASE("stress: sections of a mutex never overlap and nobody is forgotten, 8 processors",
          "[stress]") {
    weft::test::lock_storm<account>(8, take_turns);
}
