// SPDX-License-Identifier: MIT

// Sends that a worker gathers, to make them with one system call (lib/sched/send_gathering.hpp):
// that it does so, when it does not, and that whoever is stopped, closed, kept waiting or ended in
// between finds what it would find without.

#include "support/catch.hpp"
#include "support/network.hpp"
#include "support/scheduler.hpp"
#include "support/skip.hpp"

#include "lib/sched/send_gathering.hpp"

#include <weft/weft.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace std::chrono_literals;
using weft::detail::kernel_system_calls;
using weft::detail::send_gathering;
using weft::detail::system_calls;
using weft::net::tcp_stream;
using weft::test::on_each_backend;
using weft::test::replaced_calls;
using weft::test::stream_pair;

namespace {

/// More than are needed for a worker to gather from the first one on.
constexpr std::size_t writers = 2 * send_gathering::least_ready;
constexpr std::byte sent_byte{42};

/// What happened: 's' for a task that is about to send, 'c' for a system call that sends, 'd' for a
/// task that has sent. One worker writes it.
std::string events;

system_calls noting_sends() {
    system_calls table = kernel_system_calls();
    table.send = [](int fd, const void* buffer, std::size_t size, int flags) {
        events += 'c';
        return kernel_system_calls().send(fd, buffer, size, flags);
    };
    return table;
}

std::atomic<unsigned> enters{0};

system_calls counting_enters() {
    system_calls table = kernel_system_calls();
    table.io_uring_enter = [](int fd, unsigned submit, unsigned wanted, unsigned flags,
                              const void* argument, std::size_t size) {
        ++enters;
        return kernel_system_calls().io_uring_enter(fd, submit, wanted, flags, argument, size);
    };
    return table;
}

weft::task<std::vector<stream_pair>> connected_pairs() {
    std::vector<stream_pair> pairs;
    while (pairs.size() < writers) pairs.push_back(co_await weft::test::connected_pair());
    co_return pairs;
}

/// While it lives, as many tasks are ready as a worker needs to gather. On one processor.
class crowd {
public:
    crowd() {
        for (std::size_t i = 0; i <= send_gathering::least_ready; ++i) {
            weft::co_spawn(yield_until(ended_)).detach();
        }
    }
    crowd(const crowd&) = delete;
    crowd& operator=(const crowd&) = delete;
    ~crowd() { *ended_ = true; }

private:
    /// Stops do not end it.
    static weft::task<> yield_until(std::shared_ptr<bool> ended) {
        while (!*ended) static_cast<void>(co_await weft::as_result(weft::yield()));
    }

    std::shared_ptr<bool> ended_ = std::make_shared<bool>(false);
};

weft::task<> send_one(tcp_stream& to) {
    const std::array byte{sent_byte};
    events += 's';
    const std::size_t size = co_await to.write_all(byte);
    events += 'd';
    CHECK(size == 1);
}

/// Does the byte of send_one() come?
weft::task<bool> arrives(tcp_stream& from) {
    std::array<std::byte, 1> byte{};
    co_await from.read_exact(byte);
    co_return byte[0] == sent_byte;
}

weft::task<> all_send(std::vector<stream_pair>& pairs, std::size_t count) {
    events.clear();
    std::vector<weft::join_handle<void>> sending;
    for (std::size_t i = 0; i < count; ++i) {
        sending.push_back(weft::co_spawn(send_one(pairs[i].client)));
    }
    for (auto& each : sending) co_await std::move(each);
    for (std::size_t i = 0; i < count; ++i) {
        const bool right = co_await arrives(pairs[i].server);
        CHECK(right);
    }
}

std::string times(std::size_t count, const std::string& text) {
    std::string all;
    for (std::size_t i = 0; i < count; ++i) all += text;
    return all;
}

}  // namespace

TEST_CASE("the sends of ready tasks leave with one system call", "[net]") {
    const replaced_calls replaced(noting_sends());
    const weft::test::held_slice_clock held;
    const auto main = [](bool gathers) -> weft::task<> {
        auto pairs = co_await connected_pairs();
        co_await all_send(pairs, writers);
        CHECK(events == (gathers ? times(writers, "s") + times(writers, "d")
                                 : times(writers, "scd")));
    };
    for (const char* backend : weft::test::backends()) {
        INFO("netpoll: " << backend);
        const weft::test::watchdog dog(60s, [] { return events; });
        weft::test::run_on(backend, main(std::string(backend) == "io_uring"), 1);
    }
}

TEST_CASE("few ready tasks send by themselves", "[net]") {
    const replaced_calls replaced(noting_sends());
    const weft::test::held_slice_clock held;
    on_each_backend(
        []() -> weft::task<> {
            auto pairs = co_await connected_pairs();
            co_await all_send(pairs, send_gathering::least_ready);
            CHECK(events == times(send_gathering::least_ready, "scd"));
        },
        1);
}

TEST_CASE("a gathering ends by number and by the tick, and a slow one is followed by a pause",
          "[net]") {
    send_gathering gathering;
    REQUIRE(!gathering.admits(send_gathering::least_ready - 1));
    REQUIRE(gathering.admits(send_gathering::least_ready));
    const std::uint32_t turn = 0xffff'fff0;  // The count of turns may begin anew.
    gathering.begin(turn, 7, 1000);
    CHECK(gathering.open());
    CHECK(gathering.admits(0));
    CHECK(!gathering.due(turn, 7));
    CHECK(!gathering.due(turn + send_gathering::longest - 1, 7));
    CHECK(gathering.due(turn + send_gathering::longest, 7));
    CHECK(gathering.due(turn + 1, 8));
    gathering.end(1000 + send_gathering::slow - 1);
    CHECK(!gathering.open());
    CHECK(gathering.admits(send_gathering::least_ready));

    const auto pause_after = [&](weft::detail::monotonic_time lasted) {
        gathering.begin(0, 0, 0);
        gathering.end(lasted);
        std::uint32_t pause = 0;
        while (!gathering.admits(send_gathering::least_ready)) ++pause;
        return pause;
    };
    std::uint32_t expected = send_gathering::first_pause;
    for (int i = 0; i < 12; ++i) {
        CHECK(pause_after(send_gathering::slow) == expected);
        expected = std::min(2 * expected, send_gathering::longest_pause);
    }
    CHECK(expected == send_gathering::longest_pause);
    CHECK(pause_after(send_gathering::slow - 1) == 0);
    CHECK(pause_after(send_gathering::slow) == send_gathering::first_pause);
}

TEST_CASE("what a socket has no room for is sent when it has", "[net]") {
    constexpr std::size_t size = weft::detail::largest_gathered;
    constexpr std::size_t rounds = 8;
    // Each sends more than the buffers hold, so that sends are cut short, and find no room at all.
    const auto write = [](tcp_stream& to) -> weft::task<> {
        std::vector<std::byte> buffer(size);
        for (std::size_t round = 0; round < rounds; ++round) {
            for (std::size_t i = 0; i < size; ++i) {
                buffer[i] = static_cast<std::byte>((round * size + i) % 251);
            }
            const std::size_t count = co_await to.write_all(buffer);
            CHECK(count == buffer.size());
        }
        to.shutdown_write();
    };
    const auto read = [](tcp_stream& from) -> weft::task<std::size_t> {
        std::vector<std::byte> buffer(5000);
        std::size_t at = 0;
        while (const std::size_t count = co_await from.read_some(buffer)) {
            for (std::size_t i = 0; i < count; ++i, ++at) {
                if (buffer[i] != static_cast<std::byte>(at % 251)) co_return 0;
            }
        }
        co_return at;
    };
    const replaced_calls replaced(counting_enters());
    on_each_backend(
        [&]() -> weft::task<> {
            auto pairs = co_await connected_pairs();
            std::vector<weft::join_handle<void>> sending;
            std::vector<weft::join_handle<std::size_t>> receiving;
            for (auto& each : pairs) {
                each.client.set_send_buffer_size(8192);
                each.server.set_receive_buffer_size(8192);
                sending.push_back(weft::co_spawn(write(each.client)));
            }
            // Nobody reads yet: they wait for room, and do not try again and again, although others
            // are ready.
            {
                const crowd others;
                co_await weft::sleep_for(20ms);
                const unsigned before = enters;
                co_await weft::sleep_for(20ms);
                CHECK(enters - before < 100);
            }
            for (auto& each : pairs) receiving.push_back(weft::co_spawn(read(each.server)));
            for (auto& each : sending) co_await std::move(each);
            for (auto& each : receiving) {
                const std::size_t received = co_await std::move(each);
                CHECK(received == rounds * size);
            }
        },
        1);
}

TEST_CASE("a send that is gathered when its task is stopped succeeds, and the next await throws",
          "[net]") {
    const weft::test::held_slice_clock held;
    on_each_backend(
        []() -> weft::task<> {
            auto pairs = co_await connected_pairs();
            std::size_t succeeded = 0;
            std::size_t stopped = 0;
            const auto send_and_wait = [&](tcp_stream& to) -> weft::task<> {
                co_await send_one(to);
                ++succeeded;
                const auto waited = co_await weft::as_result(weft::sleep_for(1h));
                if (!waited && waited.error() == std::errc::operation_canceled) ++stopped;
            };
            std::vector<weft::join_handle<void>> sending;
            for (auto& each : pairs) {
                sending.push_back(weft::co_spawn(send_and_wait(each.client)));
            }
            // Behind them in the queue, while what they send is gathered.
            co_await weft::yield();
            for (auto& each : sending) each.request_stop();
            for (auto& each : sending) co_await std::move(each);
            CHECK(succeeded == writers);
            CHECK(stopped == writers);
            for (auto& each : pairs) {
                const bool right = co_await arrives(each.server);
                CHECK(right);
            }
        },
        1);
}

TEST_CASE("a stream that is closed while a send on it is gathered keeps its number until then",
          "[net]") {
    const weft::test::held_slice_clock held;
    on_each_backend(
        []() -> weft::task<> {
            auto pairs = co_await connected_pairs();
            std::vector<weft::join_handle<void>> sending;
            for (auto& each : pairs) sending.push_back(weft::co_spawn(send_one(each.client)));
            co_await weft::yield();
            for (auto& each : pairs) co_await each.client.close();
            for (auto& each : sending) co_await std::move(each);
            for (auto& each : pairs) {
                const bool right = co_await arrives(each.server);
                CHECK(right);
                std::array<std::byte, 1> more{};
                const std::size_t end = co_await each.server.read_some(more);
                CHECK(end == 0);
            }
        },
        1);
}

TEST_CASE("a gathered send on a connection that is gone fails as any other", "[net]") {
    const weft::test::held_slice_clock held;
    on_each_backend(
        []() -> weft::task<> {
            auto pairs = co_await connected_pairs();
            for (auto& each : pairs) each.client.shutdown_write();
            std::vector<weft::join_handle<std::error_code>> sending;
            const auto send = [](tcp_stream& to) -> weft::task<std::error_code> {
                const std::array byte{sent_byte};
                const auto sent = co_await weft::as_result(to.write_all(byte));
                co_return sent ? std::error_code() : sent.error();
            };
            for (auto& each : pairs) sending.push_back(weft::co_spawn(send(each.client)));
            for (auto& each : sending) {
                const std::error_code error = co_await std::move(each);
                CHECK(error == std::errc::broken_pipe);
            }
        },
        1);
}

namespace {

/// A plain socket and a thread that waits for bytes on it.
class plain_reader {
public:
    explicit plain_reader(const weft::net::endpoint& to)
        : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(to.port());
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        connected_ =
            ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
        thread_ = std::thread([this] {
            std::byte byte{};
            if (::recv(fd_, &byte, 1, 0) == 1 && byte == sent_byte) received = true;
        });
    }
    plain_reader(const plain_reader&) = delete;
    plain_reader& operator=(const plain_reader&) = delete;
    ~plain_reader() {
        ::shutdown(fd_, SHUT_RDWR);
        thread_.join();
        ::close(fd_);
    }

    bool connected() const { return connected_; }

    std::atomic<bool> received{false};

private:
    int fd_;
    bool connected_ = false;
    std::thread thread_;
};

struct plain_pair {
    explicit plain_pair(weft::net::tcp_listener& listener) : there(listener.local_endpoint()) {}
    plain_reader there;
    std::optional<tcp_stream> here;
};

weft::task<> plain_pairs(std::vector<std::unique_ptr<plain_pair>>& pairs) {
    auto listener = weft::net::tcp_listener::bind(weft::net::endpoint::parse("127.0.0.1:0"));
    while (pairs.size() < writers) {
        // One at a time, so that both ends belong together.
        pairs.push_back(std::make_unique<plain_pair>(listener));
        CHECK(pairs.back()->there.connected());
        pairs.back()->here = co_await listener.accept();
    }
}

/// On any worker.
struct counted_sends {
    std::atomic<std::size_t> begun{0};
    std::atomic<std::size_t> ended{0};
};

weft::task<> send_and_count(tcp_stream& to, counted_sends& count) {
    const std::array byte{sent_byte};
    ++count.begun;
    co_await to.write_all(byte);
    ++count.ended;
}

bool all_received(const std::vector<std::unique_ptr<plain_pair>>& pairs) {
    return std::ranges::all_of(pairs,
                               [](const auto& each) { return each->there.received.load(); });
}

}  // namespace

TEST_CASE("a task that keeps its worker does not keep what was gathered before", "[net]") {
    if (weft::test::thread_sanitizer) WEFT_SKIP("a signal is not handled while a thread computes");
    // The clock is not held here: it is the watchdog's as well.
    for (const unsigned processors : {1U, 2U}) {
        on_each_backend(
            []() -> weft::task<> {
                std::vector<std::unique_ptr<plain_pair>> pairs;
                co_await plain_pairs(pairs);
                std::vector<weft::join_handle<void>> sending;
                counted_sends count;
                for (auto& each : pairs) {
                    sending.push_back(weft::co_spawn(send_and_count(*each->here, count)));
                }
                while (count.begun < writers)
                    co_await weft::yield();  // What they send is gathered.
                const bool all = weft::test::spin_until([&] { return all_received(pairs); });
                for (auto& each : sending) co_await std::move(each);
                CHECK(all);
                CHECK(count.ended == writers);
            },
            processors);
    }
}

namespace {

/// Keeps the other worker for as long as it is asked to.
struct other_worker {
    std::atomic<bool> kept{false};
    std::atomic<bool> release{false};

    weft::task<> keep() {
        kept = true;
        co_return static_cast<void>(weft::test::spin_until([&] { return release.load(); }));
    }
};

/// While no processor is idle several tasks send; then this worker is kept and the other one is
/// free. How many of the tasks go on?
weft::task<std::size_t> sent_beside_a_kept_worker() {
    auto pairs = co_await connected_pairs();
    other_worker other;
    counted_sends count;
    auto keeping = weft::co_spawn(other.keep());
    while (!other.kept) co_await weft::yield();
    std::vector<weft::join_handle<void>> sending;
    for (auto& each : pairs) sending.push_back(weft::co_spawn(send_and_count(each.client, count)));
    while (count.begun < writers) co_await weft::yield();  // What they send is gathered.
    other.release = true;
    weft::test::spin_until([&] { return count.ended == writers; });
    const std::size_t went_on = count.ended;
    for (auto& each : sending) co_await std::move(each);
    co_await std::move(keeping);
    co_return went_on;
}

}  // namespace

TEST_CASE("tasks whose sends a kept worker has gathered go on elsewhere", "[net]") {
    if (weft::test::thread_sanitizer) WEFT_SKIP("a signal is not handled while a thread computes");
    on_each_backend([]() -> weft::task<> {
        const std::size_t went_on = co_await sent_beside_a_kept_worker();
        CHECK(went_on == writers);
    });
}

namespace {

/// What is sent after its end is another byte.
class wiped_byte {
public:
    wiped_byte() = default;
    wiped_byte(const wiped_byte&) = delete;
    wiped_byte& operator=(const wiped_byte&) = delete;
    ~wiped_byte() { *static_cast<volatile std::byte*>(byte_.data()) = std::byte{0}; }
    std::span<const std::byte> get() const { return byte_; }

private:
    std::array<std::byte, 1> byte_{sent_byte};
};

weft::task<> send_and_wipe(tcp_stream to) {
    const wiped_byte byte;
    co_await to.write_all(byte.get());
}

}  // namespace

TEST_CASE("what is gathered when the runtime ends is sent", "[net]") {
    const weft::test::held_slice_clock held;
    for (const char* backend : weft::test::backends()) {
        INFO("netpoll: " << backend);
        const weft::test::watchdog dog(60s, [backend] { return std::string(backend); });
        const weft::test::forced_backend forced(backend);
        // The timer that ends the runtime is looked at in every 8th turn.
        for (int turns = 0; turns < 8; ++turns) {
            INFO("turns: " << turns);
            std::vector<std::unique_ptr<plain_pair>> pairs;
            std::optional<crowd> others;
            const auto main = [&]() -> weft::task<> {
                co_await plain_pairs(pairs);
                for (int i = 0; i < turns; ++i) co_await weft::yield();
                for (auto& each : pairs) {
                    weft::co_spawn(send_and_wipe(std::move(*each->here))).detach();
                }
                others.emplace();  // To the end, so that nobody polls for want of work.
                co_await weft::yield();  // They have begun to send.
            };
            weft::run(main(), {.processors = 1, .shutdown_grace = 0s});
            CHECK(weft::test::spin_until([&] { return all_received(pairs); }, 5s));
        }
    }
}
