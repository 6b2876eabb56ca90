// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/network.hpp"
#include "support/scheduler.hpp"
#include "support/signal_cell.hpp"

#include <weft/weft.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// Time slices and waiting: S33, S35 to S37, S39 and S42 of the scheduler's checklist.

using namespace std::chrono_literals;
using weft::test::id_of;
using weft::test::signal_cell;
using weft::test::this_worker;

namespace {

struct pair_of_cells {
    signal_cell first, second;
    std::size_t rounds = 0;
};

/// Two tasks that wake each other through runnext until `stop`.
weft::task<> ping(pair_of_cells& between, std::atomic<bool>& stop) {
    while (!stop) {
        between.second.signal();
        co_await between.first.wait();
        ++between.rounds;
    }
    between.second.signal();
}
weft::task<> pong(pair_of_cells& between, std::atomic<bool>& stop) {
    while (!stop) {
        co_await between.second.wait();
        between.first.signal();
    }
    between.first.signal();
}

weft::task<> wait_for(signal_cell& cell) {
    co_await cell.wait();
}

/// Mixes local variables of several kinds over many suspensions.
weft::task<std::uint64_t> compute_with_yields(std::uint64_t seed) {
    std::array<std::uint64_t, 16> state{};
    std::string text = std::to_string(seed);
    std::uint64_t sum = seed;
    for (std::size_t i = 0; i < 200; ++i) {
        state[i % state.size()] += sum * 31 + i;
        text.push_back(static_cast<char>('a' + i % 26));
        const std::uint64_t kept = sum ^ state[(i * 7) % state.size()];
        co_await weft::yield();
        sum = kept * 1'099'511'628'211ULL + static_cast<unsigned char>(text[i % text.size()]);
    }
    co_return sum;
}
std::uint64_t compute(std::uint64_t seed) {
    std::array<std::uint64_t, 16> state{};
    std::string text = std::to_string(seed);
    std::uint64_t sum = seed;
    for (std::size_t i = 0; i < 200; ++i) {
        state[i % state.size()] += sum * 31 + i;
        text.push_back(static_cast<char>('a' + i % 26));
        const std::uint64_t kept = sum ^ state[(i * 7) % state.size()];
        sum = kept * 1'099'511'628'211ULL + static_cast<unsigned char>(text[i % text.size()]);
    }
    return sum;
}

/// Notes its end.
class noted {
public:
    noted(std::string& log, char name) : log_(&log), name_(name) {}
    noted(const noted&) = delete;
    noted& operator=(const noted&) = delete;
    ~noted() { log_->push_back(name_); }

private:
    std::string* log_;
    char name_;
};

weft::task<> inner(std::string& log, signal_cell& cell, bool fail) {
    const noted c(log, 'c');
    co_await cell.wait();
    const noted d(log, 'd');
    co_await weft::yield();
    if (fail) throw std::runtime_error("on purpose");
}
weft::task<> outer(std::string& log, signal_cell& cell, bool fail) {
    const noted a(log, 'a');
    co_await weft::yield();
    const noted b(log, 'b');
    co_await inner(log, cell, fail);
}

}  // namespace

TEST_CASE("S33 a chain through runnext shares one slice of at most 64 switches", "[conformance]") {
    const weft::test::held_slice_clock still;
    auto main = []() -> weft::task<std::size_t> {
        std::atomic<bool> stop{false};
        pair_of_cells pair;
        auto first = weft::co_spawn(ping, std::ref(pair), std::ref(stop));
        auto second = weft::co_spawn(pong, std::ref(pair), std::ref(stop));
        // Behind the ring: it comes up when the slice of the pair is over, and not before.
        co_await weft::yield();
        const std::size_t begun = pair.rounds;
        co_await weft::yield();
        const std::size_t rounds = pair.rounds - begun;
        stop = true;
        co_await std::move(first);
        co_await std::move(second);
        co_return rounds;
    };
    const std::size_t rounds = weft::run(main(), {.processors = 1, .compensate = false});
    CHECK(rounds >= 31);  // A round is two switches; the first one is a slice of its own.
    CHECK(rounds <= 33);
}

TEST_CASE("S33 a chain through runnext ends with the first link after 5 ms", "[conformance]") {
    // Each link spawns the next one; the main task waits behind the ring and counts.
    struct chain {
        weft::test::held_slice_clock clock;
        std::chrono::nanoseconds each;
        int quick = 0;  // So many links take no time, then each one takes `each`.
        int links = 0;
        bool stop = false;
    };
    struct link {
        static weft::task<> run(chain& of) {
            if (of.stop) co_return;
            if (++of.links > of.quick) of.clock.advance(of.each);
            weft::co_spawn(link::run, std::ref(of)).detach();
        }
    };
    auto main = [](chain& of) -> weft::task<int> {
        co_await weft::yield();  // A slice begins.
        weft::co_spawn(link::run, std::ref(of)).detach();
        co_await weft::yield();
        of.stop = true;
        const int links = of.links;
        co_await weft::yield();  // The last one sees that it is to stop.
        co_return links;
    };
    const auto links = [&](std::chrono::nanoseconds each, int quick = 0) {
        chain measured{.clock = {}, .each = each, .quick = quick};
        return weft::run(main(measured), {.processors = 1, .compensate = false});
    };
    CHECK(links(6ms) == 1);
    CHECK(links(5ms) == 1);
    CHECK(links(3ms) == 2);
    CHECK(links(2ms) == 3);
    CHECK(links(1ms) == 5);
    CHECK(links(100us) == 50);
    // 64 links are 64, whatever the time.
    CHECK(links(1us) == 64);
    for (int quick = 1; quick <= 8; ++quick) CHECK(links(2ms, quick) == quick + 3);
    for (int quick = 9; quick <= 58; ++quick) {
        const int more = links(2ms, quick) - quick;
        CHECK(more >= 3);
        CHECK(more <= 4);
    }
}

TEST_CASE("S33 the end of a task hands the slice on, and 5 ms bound that as well",
          "[conformance]") {
    auto child = [](weft::test::held_slice_clock& clock) -> weft::task<> {
        clock.advance(2ms);
        co_return;
    };
    auto parent = [](auto make, weft::test::held_slice_clock& clock, int& rounds,
                     bool& stop) -> weft::task<> {
        while (!stop) {
            co_await weft::co_spawn(make, std::ref(clock));
            ++rounds;
        }
    };
    auto main = [](auto make_parent, auto make_child) -> weft::task<int> {
        weft::test::held_slice_clock clock;
        int rounds = 0;
        bool stop = false;
        co_await weft::yield();  // A slice begins.
        auto other = weft::co_spawn(make_parent, make_child, std::ref(clock), std::ref(rounds),
                                    std::ref(stop));
        co_await weft::yield();
        const int seen = rounds;
        stop = true;
        co_await std::move(other);
        co_return seen;
    };
    // The parent's third return would come at 6 ms.
    CHECK(weft::run(main(parent, child), {.processors = 1, .compensate = false}) == 2);
}

TEST_CASE("S33 two pairs that play ping-pong share a processor evenly", "[conformance]") {
    auto main = []() -> weft::task<std::array<std::size_t, 2>> {
        std::atomic<bool> stop{false};
        std::array<pair_of_cells, 2> pairs;
        std::vector<weft::join_handle<void>> handles;
        for (auto& each : pairs) {
            handles.push_back(weft::co_spawn(ping, std::ref(each), std::ref(stop)));
            handles.push_back(weft::co_spawn(pong, std::ref(each), std::ref(stop)));
        }
        while (pairs[0].rounds + pairs[1].rounds < 20'000) co_await weft::yield();
        stop = true;
        const std::array<std::size_t, 2> rounds{pairs[0].rounds, pairs[1].rounds};
        for (auto& each : handles) co_await std::move(each);
        co_return rounds;
    };
    const auto rounds = weft::run(main(), {.processors = 1, .compensate = false});
    CHECK(rounds[0] < 2 * rounds[1]);
    CHECK(rounds[1] < 2 * rounds[0]);
}

TEST_CASE("128 inline completions, then the task goes behind the ring", "[conformance]") {
    const weft::test::held_slice_clock still;
    enum class way { operation, checkpoint, child, empty_write };
    auto child = []() -> weft::task<> { co_return; };
    // Looks from the ring how far the other one got with one resume.
    auto greedy = [](way how, auto make_child, int& count, bool& stop) -> weft::task<> {
        signal_cell cell;
        weft::test::stream_pair ends;
        if (how == way::empty_write) ends = weft::test::local_pair();
        co_await weft::yield();
        while (!stop) {
            if (how == way::empty_write) {
                co_await ends.client.write_all(weft::net::const_buffer());
            } else if (how == way::operation) {
                cell.signal();
                co_await cell.wait();
            } else if (how == way::checkpoint) {
                co_await weft::checkpoint();
            } else {
                co_await make_child();
            }
            ++count;
        }
    };
    using counts = std::array<int, 2>;  // Of the first resume and of the second one.
    auto main = [](way how, auto make_greedy, auto make_child) -> weft::task<counts> {
        int count = 0;
        bool stop = false;
        auto other = weft::co_spawn({}, make_greedy, how, make_child, std::ref(count),
                                    std::ref(stop));
        co_await weft::yield();  // It runs up to its yield, and comes up after this task.
        co_await weft::yield();
        const int first = count;
        co_await weft::yield();
        const int second = count - first;
        stop = true;
        co_await std::move(other);
        co_return counts{first, second};
    };
    const auto counted = [&](way how) {
        return weft::run(main(how, greedy, child), {.processors = 1, .compensate = false});
    };
    CHECK(counted(way::operation) == counts{128, 128});
    CHECK(counted(way::empty_write) == counts{128, 128});
    // The one that went behind the ring has finished when the task comes up.
    CHECK(counted(way::checkpoint) == counts{128, 129});
    // Each of them is a transfer to the child and one back.
    CHECK(counted(way::child) == counts{64, 64});
}

TEST_CASE("S35 a task goes on exactly where it stopped, with what it had", "[conformance]") {
    for (const unsigned processors : {1U, 4U}) {
        auto main = []() -> weft::task<bool> {
            std::vector<weft::join_handle<std::uint64_t>> handles;
            for (std::uint64_t i = 0; i < 100; ++i) {
                handles.push_back(weft::co_spawn(compute_with_yields, i));
            }
            bool same = true;
            for (std::uint64_t i = 0; i < handles.size(); ++i) {
                same &= co_await std::move(handles[i]) == compute(i);
            }
            co_return same;
        };
        CHECK(weft::run(main(), {.processors = processors}));
    }
}

TEST_CASE("S36 a wait blocks the task alone and is recorded; the worker runs others",
          "[conformance]") {
    struct seen {
        bool parked = false, sleeping = false, running_on = false;
        bool sleeper_waits_for_its_timer = false;
    };
    auto sleeper = [](std::uint64_t) -> weft::task<> { co_await weft::sleep_for(1h); };
    auto main = [](auto sleep) -> weft::task<seen> {
        signal_cell cell;
        auto waiter = weft::co_spawn(wait_for, std::ref(cell));
        auto second = weft::co_spawn(sleep, 0);
        const weft::detail::branch* waiting = nullptr;
        const weft::detail::branch* asleep = nullptr;
        // What has just been spawned lies in runnext and in the ring.
        asleep = this_worker().p.queue.peek_next();
        co_await weft::yield();
        co_await weft::yield();
        seen result;
        result.running_on = !waiter.done() && !second.done();
        result.sleeping = asleep->status == weft::detail::branch_status::parked &&
                          asleep->reason == weft::detail::wait_reason::sleep;
        result.sleeper_waits_for_its_timer = this_worker().p.timers.size() == 1;
        // The cell gives its waiter to whoever signals, which puts it into runnext.
        result.parked = cell.signal();
        waiting = this_worker().p.queue.peek_next();
        result.parked &= id_of(waiting) == waiter.id();
        co_await std::move(waiter);
        second.request_stop();
        static_cast<void>(co_await weft::as_result(std::move(second)));
        co_return result;
    };
    const seen result = weft::run(main(sleeper), {.processors = 1, .compensate = false});
    CHECK(result.parked);
    CHECK(result.sleeping);
    CHECK(result.running_on);
    CHECK(result.sleeper_waits_for_its_timer);
}

TEST_CASE("S37 what a worker readies goes to its runnext and kicks the one there behind the ring",
          "[conformance]") {
    struct seen {
        bool order = true;
        std::uint64_t overflows = 0;
        std::size_t global = 0;
    };
    auto main = []() -> weft::task<seen> {
        constexpr std::size_t count = 258;
        std::vector<signal_cell> cells(count);
        std::vector<weft::join_handle<void>> handles;
        for (auto& each : cells) handles.push_back(weft::co_spawn(wait_for, std::ref(each)));
        while (this_worker().p.queue.size() != 0 || this_worker().runtime().global.size() != 0) {
            co_await weft::yield();
        }
        auto& p = this_worker().p;
        const std::uint64_t before = p.overflows.read();
        seen result;
        for (std::size_t i = 0; i < count; ++i) {
            cells[i].signal();
            result.order &= id_of(p.queue.peek_next()) == handles[i].id();
            if (i < 257) result.order &= p.queue.ring_size() == i;
        }
        result.overflows = p.overflows.read() - before;
        result.global = this_worker().runtime().global.size();
        for (auto& each : handles) co_await std::move(each);
        co_return result;
    };
    const seen result = weft::run(main(), {.processors = 1, .compensate = false});
    CHECK(result.order);
    CHECK(result.overflows == 1);
    CHECK(result.global == 129);
}

TEST_CASE("S37 a task that last ran elsewhere is readied on the worker of the waker",
          "[conformance]") {
    const weft::test::held_slice_clock still;  // The watchdog takes nothing away.
    auto main = []() -> weft::task<bool> {
        signal_cell cell;
        std::atomic<std::uint32_t> ran_on{99};
        std::atomic<bool> release{false};
        // The other worker runs the waiter, which then hands over to a hog.
        auto hog = [](std::atomic<bool>& until) -> weft::task<> {
            weft::test::spin_until([&] { return until.load(); });
            co_return;
        };
        auto waiter = [](signal_cell& waits_for,
                         std::atomic<std::uint32_t>& where) -> weft::task<> {
            where = this_worker().index();
            co_await waits_for.wait();
        };
        auto handle = weft::co_spawn(waiter, std::ref(cell), std::ref(ran_on));
        bool good = weft::test::spin_until([&] { return ran_on != 99; });
        auto hog_handle = weft::co_spawn(hog, std::ref(release));
        const std::uint32_t here = this_worker().index();
        good &= ran_on != here;
        good &= weft::test::spin_until([&] { return this_worker().p.queue.size() == 0; });
        good &= weft::test::spin_until([&] {
            return cell.signal() && id_of(this_worker().p.queue.peek_next()) == handle.id();
        });
        release = true;
        co_await std::move(handle);
        co_await std::move(hog_handle);
        co_return good;
    };
    CHECK(weft::run(main(), {.processors = 2}));
}

TEST_CASE("S39 a task that waits for the network blocks no thread", "[conformance]") {
    auto main = []() -> weft::task<bool> {
        auto listener = weft::net::tcp_listener::bind(weft::net::endpoint::parse("127.0.0.1:0"));
        const auto address = listener.local_endpoint();
        auto reader = [](weft::net::tcp_stream stream,
                         std::atomic<int>& waiting) -> weft::task<int> {
            std::array<std::byte, 1> byte{};
            ++waiting;
            co_await stream.read_exact(byte);
            co_return static_cast<int>(byte[0]);
        };
        constexpr int count = 32;
        std::atomic<int> waiting{0};
        std::vector<weft::net::tcp_stream> clients;
        std::vector<weft::join_handle<int>> readers;
        for (int i = 0; i < count; ++i) {
            clients.push_back(co_await weft::net::tcp_stream::connect(address));
            auto accepted = co_await listener.accept();
            readers.push_back(weft::co_spawn(reader, std::move(accepted), std::ref(waiting)));
        }
        // One processor: all of them wait, and this task runs.
        while (waiting != count) co_await weft::yield();
        bool none_done = true;
        for (auto& each : readers) none_done &= !each.done();
        bool right = true;
        for (int i = count - 1; i >= 0; --i) {
            const std::array<std::byte, 1> byte{static_cast<std::byte>(i)};
            co_await clients[static_cast<std::size_t>(i)].write_all(byte);
            right &= co_await std::move(readers[static_cast<std::size_t>(i)]) == i;
        }
        co_return none_done&& right;
    };
    CHECK(weft::run(main(), {.processors = 1, .compensate = false}));
}

TEST_CASE("S42 objects end in reverse order, on return, exception and cancellation",
          "[conformance]") {
    enum class end { by_return, by_exception, by_stop, by_timeout };
    auto main = [](std::string& log, end how) -> weft::task<bool> {
        signal_cell cell;
        bool failed = false;
        try {
            if (how == end::by_timeout) {
                co_await weft::with_timeout(2ms, outer(log, cell, false));
            } else {
                auto handle = weft::co_spawn(outer(log, cell, how == end::by_exception));
                co_await weft::sleep_for(1ms);
                if (how == end::by_stop) {
                    handle.request_stop();
                } else {
                    cell.signal();
                }
                co_await std::move(handle);
            }
        } catch (const std::exception&) { failed = true; }
        log.push_back('.');
        co_return failed == (how != end::by_return);
    };
    for (const end how : {end::by_return, end::by_exception, end::by_stop, end::by_timeout}) {
        std::string log;
        CHECK(weft::run(main(log, how), {.processors = 2}));
        const bool reached_d = how == end::by_return || how == end::by_exception;
        CHECK(log == (reached_d ? "dcba." : "cba."));
    }
}
