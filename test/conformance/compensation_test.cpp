// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/network.hpp"
#include "support/nothing.hpp"
#include "support/scheduler.hpp"
#include "support/watchdog.hpp"

#include <weft/weft.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include <unistd.h>

// Workers that run in the place of those that their tasks keep: S34 and S43 of the scheduler's
// checklist where no processor is free, and S6 for the workers themselves.

using namespace std::chrono_literals;
using weft::processor_state;
using weft::test::nothing;
using weft::test::on_each_backend;
using weft::test::spin_until;
using weft::test::this_core;

namespace {

weft::task<> set(std::atomic<bool>& flag) {
    flag = true;
    co_return;
}

weft::task<> sleep_and_set(std::atomic<bool>& flag) {
    co_await weft::sleep_for(2ms);
    flag = true;
}

weft::task<> read_and_set(weft::net::tcp_stream& stream, std::atomic<bool>& flag) {
    std::array<std::byte, 1> byte;
    co_await stream.read_exact(byte);
    flag = true;
}

/// Keeps its worker until `go`.
weft::task<> hog(std::atomic<unsigned>& begun, const std::atomic<bool>& go) {
    ++begun;
    spin_until([&] { return go.load(); });
    co_return;
}

/// Runs short steps until `over`.
weft::task<> short_steps(const std::atomic<bool>& over) {
    while (!over) co_await weft::yield();
}

std::uint64_t compensations() {
    return weft::this_runtime::statistics().compensations;
}

/// Of two processors: does a third worker run in the place of one?
bool somebody_helps() {
    const auto processors = weft::this_runtime::statistics().processors;
    return processors.size() == 3 && processors.back().state == processor_state::running;
}

/// Of all workers.
std::uint64_t overruns() {
    std::uint64_t count = 0;
    for (const auto& each : weft::this_runtime::statistics().processors) count += each.overruns;
    return count;
}

/// How often the watchdog has looked: while anything runs it looks again after 1 to 4 ms. What it
/// is to find in time is bounded by looks, since the machine may keep it from looking.
std::uint64_t watchdog_looks() {
    return this_core().dog.looks();
}

/// Yields while `holds()`, for so many looks at most. False: it still holds.
template <class Condition>
weft::task<bool> ends_within(std::uint64_t looks, Condition holds) {
    const std::uint64_t until = watchdog_looks() + looks;
    while (holds()) {
        if (watchdog_looks() >= until) co_return false;
        co_await weft::yield();
    }
    co_return true;
}

/// Some slices, and few beside what a task has done for `long_while` of looks.
constexpr std::uint64_t short_while = 300;
constexpr std::uint64_t long_while = 1200;

/// Keeps the worker for so many looks of the watchdog after it has counted an overrun.
bool overrun_for(std::uint64_t looks) {
    const auto& overruns = weft::test::this_worker().p.overruns;
    const std::uint64_t before = overruns.read();
    bool counted = spin_until([&] { return overruns.read() > before; });
    const std::uint64_t until = watchdog_looks() + looks;
    return spin_until([&] { return watchdog_looks() >= until; }) && counted;
}

/// The netpollers that serve the socket of a worker that is kept. The thread sanitizer lets a
/// thread that computes handle no signal.
std::vector<const char*> serving_backends() {
    if (weft::test::thread_sanitizer) return {"epoll"};
    return weft::test::backends();
}

/// Runs `make_main()` on each backend.
template <class MakeMain>
void run_on_each(MakeMain make_main, weft::runtime_options options,
                 const std::vector<const char*>& backends = weft::test::backends()) {
    for (const char* backend : backends) {
        INFO("netpoll: " << backend);
        const weft::test::watchdog dog(90s, [backend] { return std::string(backend); });
        const weft::test::forced_backend forced(backend);
        weft::run(make_main(), options);
    }
}

void ignore(std::string_view) {}

struct byte_pipe {
    int ends[2]{-1, -1};
    byte_pipe() { REQUIRE(::pipe(ends) == 0); }
    ~byte_pipe() {
        ::close(ends[0]);
        ::close(ends[1]);
    }
    /// Blocks the worker; the watchdog's signal may interrupt the call.
    void read() const {
        char byte = 0;
        while (::read(ends[0], &byte, 1) != 1) {}
    }
    bool write() const { return ::write(ends[1], "", 1) == 1; }
};

}  // namespace

TEST_CASE("S34 with one processor, a task that does not yield does not stop the others",
          "[conformance]") {
    run_on_each([]() -> weft::task<> {
        for (int round = 0; round < 3; ++round) {
            auto pair = co_await weft::test::connected_pair();
            std::atomic<bool> read{false}, slept{false}, ran{false};
            auto reader = weft::co_spawn(read_and_set, std::ref(pair.server), std::ref(read));
            auto sleeper = weft::co_spawn(sleep_and_set, std::ref(slept));
            co_await weft::sleep_for(100us);  // Both wait.
            auto ready = weft::co_spawn(set, std::ref(ran));
            co_await pair.client.write_all(std::array{std::byte{1}});
            const bool all = spin_until([&] { return read && slept && ran; });
            co_await std::move(reader);
            co_await std::move(sleeper);
            co_await std::move(ready);
            CHECK(all);
        }
    }, {.processors = 1, .log = ignore}, serving_backends());
}

TEST_CASE("S34 with one processor, a socket alone is served beside a task that does not yield",
          "[conformance]") {
    run_on_each([]() -> weft::task<> {
        auto pair = co_await weft::test::connected_pair();
        std::atomic<bool> read{false};
        auto reader = weft::co_spawn(read_and_set, std::ref(pair.server), std::ref(read));
        co_await weft::sleep_for(100us);  // It waits.
        co_await pair.client.write_all(std::array{std::byte{1}});
        const bool served = spin_until([&] { return read.load(); });
        co_await std::move(reader);
        CHECK(served);
    }, {.processors = 1, .log = ignore}, serving_backends());
}

TEST_CASE("S6 a worker in the place of another goes when that is back, and comes again",
          "[conformance]") {
    run_on_each([]() -> weft::task<> {
        for (std::uint64_t round = 1; round <= 3; ++round) {
            std::atomic<bool> ran{false};
            auto other = weft::co_spawn(set, std::ref(ran));
            const bool helped = spin_until([&] { return ran.load(); });
            co_await std::move(other);
            const auto helpers_state = [] {
                return weft::this_runtime::statistics().processors.at(1).state;
            };
            while (helpers_state() != processor_state::retired) co_await weft::sleep_for(100us);
            const auto statistics = weft::this_runtime::statistics();
            const unsigned wanted = weft::this_runtime::processors();
            CHECK(helped);
            CHECK(statistics.processors.size() == 2);
            CHECK(statistics.processors[0].state == processor_state::running);
            CHECK(statistics.compensations == round);
            CHECK(wanted == 1);
        }
    }, {.processors = 1, .log = ignore});
}

TEST_CASE("no worker runs in the place of another where that is turned off", "[conformance]") {
    run_on_each([]() -> weft::task<> {
        std::atomic<bool> ran{false};
        auto other = weft::co_spawn(set, std::ref(ran));
        const bool overran = overrun_for(10);
        const bool waited = !ran;
        co_await std::move(other);
        const auto statistics = weft::this_runtime::statistics();
        CHECK(overran);
        CHECK(waited);
        CHECK(statistics.processors.size() == 1);
        CHECK(statistics.compensations == 0);
    }, {.processors = 1, .compensate = false, .log = ignore});
}

TEST_CASE("no worker runs in the place of another while nothing waits", "[conformance]") {
    run_on_each([]() -> weft::task<> {
        const bool overran = overrun_for(10);
        const std::uint64_t found = compensations();
        CHECK(overran);
        CHECK(found == 0);
        co_return;
    }, {.processors = 1, .log = ignore});
}

TEST_CASE("no worker runs in the place of another whose work a third one takes", "[conformance]") {
    run_on_each([]() -> weft::task<> {
        std::atomic<bool> over{false}, ran{false};
        std::vector<weft::join_handle<void>> others;
        for (int i = 0; i < 3; ++i) others.push_back(weft::co_spawn(short_steps, std::ref(over)));
        others.push_back(weft::co_spawn(set, std::ref(ran)));
        const bool overran = overrun_for(10);
        const bool taken = spin_until([&] { return ran.load(); });
        over = true;
        for (auto& each : others) co_await std::move(each);
        const std::uint64_t found = compensations();
        CHECK(overran);
        CHECK(taken);
        CHECK(found == 0);
    }, {.processors = 2, .log = ignore});
}

TEST_CASE("S43 a worker runs in the place of one that is blocked in a call", "[conformance]") {
    run_on_each([]() -> weft::task<> {
        int ends[2];
        const bool made = ::pipe(ends) == 0;
        REQUIRE(made);
        std::atomic<bool> over{false};
        std::atomic<unsigned> blocked{0};
        auto call = weft::co_spawn([](int from, std::atomic<unsigned>& at) -> weft::task<> {
            ++at;
            char byte = 0;
            // The watchdog's signal may interrupt it.
            while (::read(from, &byte, 1) != 1) {}
            co_return;
        }, ends[0], std::ref(blocked));
        std::vector<weft::join_handle<void>> others;
        for (int i = 0; i < 4; ++i) others.push_back(weft::co_spawn(short_steps, std::ref(over)));
        const weft::test::patience wait;
        while (compensations() == 0 && !wait.over()) co_await weft::yield();
        const std::uint64_t found = compensations();
        const bool written = ::write(ends[1], "", 1) == 1;
        over = true;
        co_await std::move(call);
        for (auto& each : others) co_await std::move(each);
        ::close(ends[0]);
        ::close(ends[1]);
        CHECK(written);
        CHECK(blocked == 1);
        CHECK(found == 1);
    }, {.processors = 2, .log = ignore});
}

// What it did before does not count.
TEST_CASE("S43 a worker runs in the place of one that is blocked after it has computed",
          "[conformance]") {
    run_on_each([]() -> weft::task<> {
        const byte_pipe pipe;
        std::atomic<bool> over{false}, blocked{false};
        auto call = weft::co_spawn([](const byte_pipe& from,
                                      std::atomic<bool>& at) -> weft::task<> {
            const std::uint64_t until = watchdog_looks() + long_while;
            while (watchdog_looks() < until) {}
            at = true;
            from.read();
            co_return;
        }, std::ref(pipe), std::ref(blocked));
        std::vector<weft::join_handle<void>> others;
        for (int i = 0; i < 4; ++i) others.push_back(weft::co_spawn(short_steps, std::ref(over)));
        while (!blocked) co_await weft::yield();
        // One may help already: a busy machine may have kept the other worker for a slice as well.
        const bool helped = co_await ends_within(short_while, [] { return !somebody_helps(); });
        const bool written = pipe.write();
        over = true;
        co_await std::move(call);
        for (auto& each : others) co_await std::move(each);
        CHECK(written);
        CHECK(helped);
    }, {.processors = 2, .log = ignore});
}

// Otherwise three would compute on two processors, for as long as the call took.
TEST_CASE("S43 a worker in the place of a blocked one goes when that one computes",
          "[conformance]") {
    run_on_each([]() -> weft::task<> {
        const byte_pipe pipe;
        std::atomic<bool> over{false}, helper_gone{false};
        std::atomic<int> in_time{0};
        auto call = weft::co_spawn([&]() -> weft::task<> {
            pipe.read();
            const std::uint64_t until = watchdog_looks() + short_while;
            while (!helper_gone && watchdog_looks() < until) {}
            in_time = helper_gone ? 1 : -1;
            co_return;
        });
        std::vector<weft::join_handle<void>> others;
        for (int i = 0; i < 4; ++i) others.push_back(weft::co_spawn(short_steps, std::ref(over)));
        co_await ends_within(long_while, [] { return true; });
        const bool helped = somebody_helps();
        const bool written = pipe.write();
        while (in_time == 0) {
            if (!somebody_helps()) helper_gone = true;
            co_await weft::yield();
        }
        over = true;
        co_await std::move(call);
        for (auto& each : others) co_await std::move(each);
        CHECK(helped);
        CHECK(written);
        CHECK(in_time == 1);
    }, {.processors = 2, .log = ignore});
}

// That all were kept when it was started does not matter any more when one of them is back.
TEST_CASE("S43 a worker in the place of a blocked one goes when that one computes, also where all "
          "were kept before",
          "[conformance]") {
    run_on_each([]() -> weft::task<> {
        const byte_pipe pipe;
        std::atomic<bool> go{false}, over{false}, helper_gone{false};
        std::atomic<unsigned> begun{0};
        std::atomic<int> in_time{0};
        const std::uint64_t before = compensations();
        auto keeper = weft::co_spawn(hog, std::ref(begun), std::ref(go));
        while (overruns() == 0) co_await weft::yield();
        auto call = weft::co_spawn([&]() -> weft::task<> {
            pipe.read();
            const std::uint64_t until = watchdog_looks() + short_while;
            while (!helper_gone && watchdog_looks() < until) {}
            in_time = helper_gone ? 1 : -1;
            co_return;
        });
        // Nothing waits until both workers have been kept for long, one of them by the call.
        co_await weft::sleep_for(200ms);
        const std::uint64_t helpers = compensations() - before;
        go = true;
        co_await std::move(keeper);
        std::vector<weft::join_handle<void>> others;
        for (int i = 0; i < 4; ++i) others.push_back(weft::co_spawn(short_steps, std::ref(over)));
        co_await ends_within(5, [] { return true; });
        const bool written = pipe.write();
        while (in_time == 0) {
            if (!somebody_helps()) helper_gone = true;
            co_await weft::yield();
        }
        over = true;
        co_await std::move(call);
        for (auto& each : others) co_await std::move(each);
        CHECK(helpers == 1);
        CHECK(written);
        CHECK(in_time == 1);
    }, {.processors = 2, .log = ignore});
}

TEST_CASE("at most as many workers as processors run in the place of others", "[conformance]") {
    std::atomic<unsigned> reports{0};
    const auto log = [&](std::string_view line) {
        reports += line.find("what is ready waits") != line.npos ? 1U : 0U;
    };
    run_on_each([&]() -> weft::task<> {
        reports = 0;
        std::atomic<unsigned> begun{0};
        std::atomic<bool> go{false}, ran{false};
        auto second = weft::co_spawn(hog, std::ref(begun), std::ref(go));
        const bool two = spin_until([&] { return begun == 1; });
        auto third = weft::co_spawn(set, std::ref(ran));
        const bool reported = spin_until([&] { return reports != 0; });
        const bool waited = !ran;
        const std::uint64_t found = compensations();
        go = true;
        co_await std::move(second);
        co_await std::move(third);
        const std::size_t workers = weft::this_runtime::statistics().processors.size();
        CHECK(two);
        CHECK(reported);
        CHECK(reports == 1);
        CHECK(waited);
        CHECK(found == 1);
        CHECK(workers == 2);
    }, {.processors = 1, .hog_report = 10ms, .log = log});
}

TEST_CASE("tasks that are only long do not count as ones that keep all workers", "[conformance]") {
    std::atomic<unsigned> reports{0};
    const auto log = [&](std::string_view line) {
        reports += line.find("what is ready waits") != line.npos ? 1U : 0U;
    };
    run_on_each([]() -> weft::task<> {
        std::atomic<unsigned> begun{0};
        std::atomic<bool> go{false}, ran{false};
        auto second = weft::co_spawn(hog, std::ref(begun), std::ref(go));
        const bool two = spin_until([&] { return begun == 1; });
        auto third = weft::co_spawn(set, std::ref(ran));
        const std::uint64_t until = watchdog_looks() + 40;
        const bool looked = spin_until([&] { return watchdog_looks() >= until; });
        const bool waited = !ran;
        go = true;
        co_await std::move(second);
        co_await std::move(third);
        CHECK(two);
        CHECK(looked);
        CHECK(waited);
    }, {.processors = 1, .hog_report = 1h, .log = log});
    CHECK(reports == 0);
}

// It runs with one processor, so it gathers sends; and it is asked to go while it holds one. The
// clock of the slice stands meanwhile, since what was gathered is sent when a tick of it is over,
// and a pause follows where that was late. Whatever else makes the worker poll too early, it is
// rare.
TEST_CASE("a worker in the place of another sends what it has gathered before it goes",
          "[conformance]") {
    run_on_each([]() -> weft::task<> {
        auto pair = co_await weft::test::connected_pair();
        const bool gathers = weft::this_runtime::statistics().netpoller == "io_uring";
        bool gathered = false;
        for (int attempt = 0; attempt < (gathers ? 100 : 1) && !gathered; ++attempt) {
            std::atomic<bool> went{false}, asked{false};
            std::optional<weft::test::held_slice_clock> clock;
            auto send = [&]() -> weft::task<> {
                const std::array byte{std::byte{1}};
                co_await pair.client.write_all(byte);
            };
            auto hold = [&]() -> weft::task<> {
                gathered = weft::test::this_worker().io().has_gathered();
                went = true;
                asked = spin_until([] {
                    return weft::this_runtime::statistics().processors.at(1).state !=
                           processor_state::running;
                });
                clock.reset();
                co_return;
            };
            auto begin = [&]() -> weft::task<> {
                clock.emplace();  // Not before: by this clock the watchdog sees who is kept.
                std::vector<weft::join_handle<void>> others;
                others.push_back(weft::co_spawn(hold()));
                for (int i = 0; i < 6; ++i) others.push_back(weft::co_spawn(nothing()));
                others.push_back(weft::co_spawn(send()));  // In runnext, so before the others.
                for (auto& each : others) co_await std::move(each);
            };
            auto beginner = weft::co_spawn(begin());
            const bool helped = spin_until([&] { return went.load(); });
            const auto ended = co_await weft::as_result(
                weft::with_timeout(10 * weft::test::watchdog_limit, std::move(beginner)));
            CHECK(helped);
            CHECK(asked);
            REQUIRE(ended.has_value());
            std::array<std::byte, 1> byte{};
            co_await pair.server.read_exact(byte);
            while (weft::this_runtime::statistics().processors.at(1).state !=
                   processor_state::retired) {
                co_await weft::sleep_for(100us);
            }
            CHECK(byte[0] == std::byte{1});
        }
        CHECK(gathered == gathers);
    }, {.processors = 1, .log = ignore});
}

// What the kept worker has gathered is sent, and the tasks that sent it go on.
TEST_CASE("tasks whose sends the only worker has gathered go on while a task keeps it",
          "[conformance]") {
    run_on_each([]() -> weft::task<> {
        constexpr std::size_t writers = 8;
        std::vector<weft::test::stream_pair> pairs;
        for (std::size_t i = 0; i < writers; ++i) {
            pairs.push_back(co_await weft::test::connected_pair());
        }
        std::atomic<std::size_t> begun{0}, ended{0};
        auto send = [&](weft::net::tcp_stream& to) -> weft::task<> {
            const std::array byte{std::byte{1}};
            ++begun;
            co_await to.write_all(byte);
            ++ended;
        };
        std::vector<weft::join_handle<void>> sending;
        for (auto& each : pairs) sending.push_back(weft::co_spawn(send, std::ref(each.client)));
        while (begun < writers) co_await weft::yield();
        const bool all = spin_until([&] { return ended == writers; });
        for (auto& each : sending) co_await std::move(each);
        CHECK(all);
    }, {.processors = 1, .log = ignore}, serving_backends());
}

TEST_CASE("the number of processors changes while a worker runs in the place of another",
          "[conformance]") {
    run_on_each([]() -> weft::task<> {
        constexpr unsigned numbers[] = {3, 1, 2, 1};
        unsigned changed = 0;
        std::atomic<bool> ended{false};
        auto change = [&]() -> weft::task<> {
            for (const unsigned each : numbers) {
                weft::this_runtime::set_processors(each);
                co_await weft::sleep_for(1ms);
                changed += weft::this_runtime::processors() == each ? 1U : 0U;
            }
            ended = true;
        };
        auto other = weft::co_spawn(change);
        const bool all = spin_until([&] { return ended.load(); });
        co_await std::move(other);
        const auto running = [] {
            std::size_t count = 0;
            for (const auto& each : weft::this_runtime::statistics().processors) {
                count += each.state == processor_state::running ? 1U : 0U;
            }
            return count;
        };
        while (running() != 1) co_await weft::sleep_for(100us);
        const auto statistics = weft::this_runtime::statistics();
        CHECK(all);
        CHECK(changed == 4);
        CHECK(statistics.compensations >= 1);
        CHECK(statistics.processors.size() <= 6);  // Twice the largest number.
    }, {.processors = 1, .log = ignore});
}

TEST_CASE("a runtime ends whose tasks run in the place of others", "[conformance]") {
    std::atomic<bool> go{false};
    run_on_each([&]() -> weft::task<> {
        go = false;
        std::atomic<unsigned> begun{0};
        weft::co_spawn(hog, std::ref(begun), std::ref(go)).detach();
        // Goes on elsewhere, since the only worker is kept.
        do { co_await weft::sleep_for(1ms); } while (begun == 0 || compensations() == 0);
        const std::size_t on = weft::test::this_worker().index();
        go = true;
        CHECK(on == 1);
    }, {.processors = 1, .log = ignore});
}
