// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/one_processor.hpp"
#include "support/scale.hpp"

#include <weft/weft.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

// Waits at objects, and communication instead of sharing: S36, S38 and S41 of the scheduler's
// checklist.

using namespace std::chrono_literals;
using weft::channel;
using weft::detail::branch;
using weft::detail::branch_status;
using weft::detail::wait_reason;
using weft::test::id_of;
using weft::test::run_alone;
using weft::test::this_worker;

namespace {

// ---------------------------------------------------------------------------------------------
// S36

/// A task that waits for one thing and notes when it goes on.
template <class Wait>
weft::task<> wait_once(Wait wait, bool& went_on) {
    co_await wait();
    went_on = true;
}

/// What is seen of a wait by another task of the same worker.
struct seen_wait {
    bool parked = false;  ///< The task is in no queue and is not running.
    bool for_this_reason = false;
    bool others_ran = false;  ///< Another task, on the same thread, while it waited.
    bool recorded = false;    ///< Who ended the wait found the task at the object.
};

/// Spawns a task that waits, looks at it from another one, ends the wait with `end`, which awaits
/// nothing, and joins it.
template <class Wait, class End>
weft::task<seen_wait> look_at(Wait wait, wait_reason reason, End end) {
    bool went_on = false;
    auto waiter = weft::co_spawn(wait_once<Wait>, std::move(wait), std::ref(went_on));
    const branch* const waiting = this_worker().p.queue.peek_next();
    const auto thread = std::this_thread::get_id();
    co_await weft::test::settle();
    seen_wait seen;
    seen.parked = waiting->owner->id == waiter.id() && waiting->status == branch_status::parked;
    seen.for_this_reason = waiting->reason == reason;
    bool ran = false;
    co_await weft::co_spawn([&ran]() -> weft::task<> {
        ran = true;
        co_return;
    });
    seen.others_ran = ran && !went_on && std::this_thread::get_id() == thread;
    end();
    seen.recorded = id_of(this_worker().p.queue.peek_next()) == waiter.id() && !went_on;
    co_await std::move(waiter);
    co_return seen;
}

void check(const seen_wait& seen) {
    CHECK(seen.parked);
    CHECK(seen.for_this_reason);
    CHECK(seen.others_ran);
    CHECK(seen.recorded);
}

// ---------------------------------------------------------------------------------------------
// S38

/// Can be moved only, and knows how many of its kind own something.
class token {
public:
    explicit token(int& owners) : owners_(&owners) { ++owners; }
    token(token&& other) noexcept : owners_(std::exchange(other.owners_, nullptr)) {}
    token& operator=(token&&) = delete;
    ~token() {
        if (owners_ != nullptr) --*owners_;
    }
    bool owns() const noexcept { return owners_ != nullptr; }

private:
    int* owners_;
};

// ---------------------------------------------------------------------------------------------
// S41: everything below is written as if each task were a program of its own. No lock, no atomic.

/// Sends 2, 3, 4, ... until nobody receives any more.
weft::task<> count_up(channel<int>& to) {
    for (int number = 2;; ++number) {
        if (!co_await weft::as_result(to.send(int(number)))) co_return;
    }
}

/// Passes on what `prime` does not divide.
weft::task<> filter(channel<int>& from, channel<int>& to, int prime) {
    while (const auto number = co_await from.recv()) {
        if (*number % prime == 0) continue;
        if (!co_await weft::as_result(to.send(int(*number)))) break;
    }
    from.close();  // Nobody receives any more; the one before finds that out.
}

/// The first primes, out of a chain of filters that grows by one for each of them.
weft::task<std::vector<int>> sieve(std::size_t count) {
    std::vector<std::unique_ptr<channel<int>>> between;
    std::vector<weft::join_handle<void>> tasks;
    std::vector<int> primes;
    between.push_back(std::make_unique<channel<int>>());
    tasks.push_back(weft::co_spawn(count_up, std::ref(*between.back())));
    while (primes.size() < count) {
        channel<int>& from = *between.back();
        primes.push_back((co_await from.recv()).value_or(0));
        between.push_back(std::make_unique<channel<int>>());
        tasks.push_back(
            weft::co_spawn(filter, std::ref(from), std::ref(*between.back()), primes.back()));
    }
    between.back()->close();
    for (auto& each : tasks) co_await std::move(each);
    co_return primes;
}

/// A piece of work that belongs to whoever has it: plain variables, some of them on the heap.
struct parcel {
    std::vector<int> stations;
    unsigned long long sum = 0;
};

weft::task<> station(channel<std::unique_ptr<parcel>>& from, channel<std::unique_ptr<parcel>>& to,
                     int name) {
    while (auto received = co_await from.recv()) {
        std::unique_ptr<parcel> mine = *std::move(received);
        mine->stations.push_back(name);
        mine->sum = mine->sum * 31 + static_cast<unsigned>(name);
        co_await to.send(std::move(mine));
    }
}

/// Parcels go through a row of stations, each with several tasks, and come back.
weft::task<std::size_t> deliver(std::size_t count) {
    constexpr int rows = 4;
    constexpr int tasks_of_a_row = 3;
    using road = channel<std::unique_ptr<parcel>>;
    std::vector<std::unique_ptr<road>> roads;
    for (int i = 0; i <= rows; ++i) {
        roads.push_back(std::make_unique<road>(static_cast<std::size_t>(i % 3)));
    }
    std::vector<std::vector<weft::join_handle<void>>> tasks(rows);
    for (int row = 0; row < rows; ++row) {
        const auto at = static_cast<std::size_t>(row);
        for (int i = 0; i < tasks_of_a_row; ++i) {
            tasks[at].push_back(
                weft::co_spawn(station, std::ref(*roads[at]), std::ref(*roads[at + 1]), int(row)));
        }
    }
    auto sender = weft::co_spawn(
        [](road& to, std::size_t how_many) -> weft::task<> {
            for (std::size_t i = 0; i < how_many; ++i) {
                co_await to.send(std::make_unique<parcel>());
            }
        },
        std::ref(*roads.front()), count);
    unsigned long long expected = 0;
    for (int row = 0; row < rows; ++row) expected = expected * 31 + static_cast<unsigned>(row);
    std::size_t right = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const auto arrived = co_await roads.back()->recv();
        right += (*arrived)->stations == std::vector<int>{0, 1, 2, 3} && (*arrived)->sum == expected
                     ? 1U
                     : 0U;
    }
    co_await std::move(sender);
    for (int row = 0; row < rows; ++row) {
        const auto at = static_cast<std::size_t>(row);
        roads[at]->close();
        for (auto& each : tasks[at]) co_await std::move(each);
    }
    co_return right;
}

}  // namespace

TEST_CASE("S36 a wait at a channel or a lock blocks the task alone, which the object records",
          "[conformance]") {
    const auto main = []() -> weft::task<> {
        channel<int> values;
        check(co_await look_at([&]() -> weft::task<> { co_await values.recv(); },
                               wait_reason::receive,
                               [&] { static_cast<void>(values.try_send(1)); }));
        check(co_await look_at([&]() -> weft::task<> { co_await values.send(2); },
                               wait_reason::send, [&] { static_cast<void>(values.try_recv()); }));
        weft::mutex alone;
        co_await alone.lock();
        check(co_await look_at([&]() -> weft::task<> { (co_await alone.scoped_lock()).unlock(); },
                               wait_reason::lock, [&] { alone.unlock(); }));
        weft::shared_mutex shared;
        co_await shared.lock();
        check(co_await look_at(
            [&]() -> weft::task<> { (co_await shared.scoped_lock_shared()).unlock(); },
            wait_reason::lock_shared, [&] { shared.unlock(); }));
        weft::semaphore permits(0);
        check(co_await look_at([&]() -> weft::task<> { co_await permits.acquire(); },
                               wait_reason::semaphore, [&] { permits.release(); }));
        weft::event happened;
        check(co_await look_at([&]() -> weft::task<> { co_await happened.wait(); },
                               wait_reason::event, [&] { happened.set(); }));
    };
    run_alone(main());
}

TEST_CASE("S36 a wait for the network blocks the task alone, and the descriptor records it",
          "[conformance]") {
    const auto main = []() -> weft::task<> {
        auto listener = weft::net::tcp_listener::bind(weft::net::endpoint::parse("127.0.0.1:0"));
        auto client = co_await weft::net::tcp_stream::connect(listener.local_endpoint());
        auto server = co_await listener.accept();
        int got = 0;
        auto reader = weft::co_spawn(
            [](weft::net::tcp_stream& from, int& into) -> weft::task<> {
                std::array<std::byte, 1> byte{};
                co_await from.read_exact(byte);
                into = static_cast<int>(byte[0]);
            },
            std::ref(server), std::ref(got));
        const branch* const waiting = this_worker().p.queue.peek_next();
        const auto thread = std::this_thread::get_id();
        co_await weft::test::settle();
        CHECK(waiting->owner->id == reader.id());
        CHECK(waiting->status == branch_status::parked);
        CHECK(waiting->reason == wait_reason::io_read);
        // The thread has run this task, and runs others while the worker sleeps in its poller.
        co_await weft::sleep_for(1ms);
        CHECK(std::this_thread::get_id() == thread);
        CHECK(waiting->status == branch_status::parked);
        CHECK(got == 0);
        const std::array<std::byte, 1> byte{std::byte{7}};
        co_await client.write_all(byte);
        co_await std::move(reader);
        CHECK(got == 7);
    };
    run_alone(main());
}

TEST_CASE("S38 a value that is sent has one owner at any time, and a failed send keeps it",
          "[conformance]") {
    const auto main = []() -> weft::task<> {
        int owners = 0;
        for (const std::size_t room : {std::size_t{0}, std::size_t{2}}) {
            channel<token> values(room);
            token first(owners);
            auto receiver = weft::co_spawn(
                [](channel<token>& from, int& seen) -> weft::task<> {
                    const auto value = co_await from.recv();
                    CHECK(value.has_value());
                    CHECK(seen == 1);
                },
                std::ref(values), std::ref(owners));
            co_await weft::test::settle();
            co_await values.send(std::move(first));
            CHECK_FALSE(first.owns());
            CHECK(owners == 1);
            co_await std::move(receiver);
            CHECK(owners == 0);
            token kept(owners);
            values.close();
            const auto sent = co_await weft::as_result(values.send(std::move(kept)));
            CHECK_FALSE(sent.has_value());
            CHECK(kept.owns());
            CHECK(owners == 1);
        }
        CHECK(owners == 0);
    };
    run_alone(main());
}

TEST_CASE("S38 those who wait at a channel are served in the order in which they came",
          "[conformance]") {
    const auto main = []() -> weft::task<> {
        for (const std::size_t room : {std::size_t{0}, std::size_t{1}}) {
            channel<int> values(room);
            std::vector<weft::join_handle<void>> senders;
            constexpr int count = 8;
            for (int i = 0; i < count; ++i) {
                senders.push_back(
                    weft::co_spawn([](channel<int>& to,
                                      int value) -> weft::task<> { co_await to.send(int(value)); },
                                   std::ref(values), int(i)));
                co_await weft::test::settle();
            }
            for (int i = 0; i < count; ++i) {
                const auto value = co_await values.recv();
                CHECK(value == i);
            }
            for (auto& each : senders) co_await std::move(each);
        }
    };
    run_alone(main());
}

TEST_CASE("S41 a chain of tasks in sequential style computes primes, without a lock",
          "[conformance]") {
    for (const unsigned processors : {1U, 2U, 8U}) {
        const auto primes = weft::run(sieve(20), {.processors = processors});
        CHECK(primes == std::vector<int>{2,  3,  5,  7,  11, 13, 17, 19, 23, 29,
                                         31, 37, 41, 43, 47, 53, 59, 61, 67, 71});
    }
}

TEST_CASE("S41 what is passed by channel needs no lock, whichever worker has it", "[conformance]") {
    const std::size_t count = weft::test::scaled_count(5'000, 200'000);
    for (const unsigned processors : {1U, 2U, 8U}) {
        CHECK(weft::run(deliver(count), {.processors = processors}) == count);
    }
}
