// SPDX-License-Identifier: MIT
#include "stress/hurried.hpp"
#include "stress/lock_storm.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <system_error>

// Storms at a shared mutex: many tasks read and write, try to, hold it over suspensions, and are
// stopped at any point. A writer is alone, and each wait ends.

using weft::test::hurried;

namespace {

struct account {
    weft::shared_mutex m;
    std::uint64_t guarded = 0;  // Written by writers only.
    std::atomic<std::uint64_t> reads{0}, writes{0}, missed{0}, late{0}, stopped{0}, wrong{0};
    std::atomic<int> readers{0};
    std::atomic<bool> writing{false};

    std::uint64_t sections() const { return reads + writes; }
    std::string describe() const {
        return std::to_string(reads) + " reads, " + std::to_string(writes) + " writes";
    }
    void check_free() {
        CHECK(guarded == writes);
        CHECK(readers == 0);
        CHECK(missed != 0);
        CHECK(m.try_lock());
        m.unlock();
    }
};

/// A section of a writer.
struct write_section {
    explicit write_section(account& in) : all(in) {
        if (all.writing.exchange(true) || all.readers != 0) ++all.wrong;
        ++all.guarded;
        ++all.writes;
    }
    ~write_section() { all.writing = false; }
    write_section(const write_section&) = delete;
    write_section& operator=(const write_section&) = delete;
    account& all;
};

/// One of a reader, who sees the same all the time.
struct read_section {
    explicit read_section(account& in) : all(in), seen(in.guarded) {
        ++all.readers;
        if (all.writing) ++all.wrong;
        ++all.reads;
    }
    ~read_section() {
        if (all.writing || all.guarded != seen) ++all.wrong;
        --all.readers;
    }
    read_section(const read_section&) = delete;
    read_section& operator=(const read_section&) = delete;
    account& all;
    const std::uint64_t seen;
};

/// One section, or none. True: its scope was stopped.
template <class Section, class Guard, class Lock>
weft::task<bool> take_turn(account& all, std::minstd_rand& random, Lock lock) {
    const auto choice = random() % 8;
    Guard held;
    if (choice == 0) {
        held = Guard(all.m, std::try_to_lock);
        if (!held) ++all.missed;
    } else {
        auto locked =
            choice <= 2 ? co_await hurried(lock(), random) : co_await weft::as_result(lock());
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
    const Section here(all);
    if (choice == 3) co_await weft::yield();
    co_return false;
}

weft::task<> take_turns(account& all, std::size_t count, unsigned seed) {
    using exclusive = weft::unique_lock<weft::shared_mutex>;
    using shared = weft::shared_lock<weft::shared_mutex>;
    const auto lock = [&all] { return all.m.scoped_lock(); };
    const auto lock_shared = [&all] { return all.m.scoped_lock_shared(); };
    std::minstd_rand random(seed);
    for (std::size_t i = 0; i < count; ++i) {
        const bool stopped =
            random() % 4 == 0 ? co_await take_turn<write_section, exclusive>(all, random, lock)
                              : co_await take_turn<read_section, shared>(all, random, lock_shared);
        if (stopped) co_return;
    }
}

}  // namespace

TEST_CASE("stress: a writer of a shared mutex is alone and nobody is forgotten, 2 processors",
          "[stress]") {
    weft::test::lock_storm<account>(2, take_turns);
}

TEST_CASE("stress: a writer of a shared mutex is alone and nobody is forgotten, 8 processors",
          "[stress]") {
    weft::test::lock_storm<account>(8, take_turns);
}
