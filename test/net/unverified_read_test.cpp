// SPDX-License-Identifier: MIT

// Reads that wait although no call has told them EAGAIN, because the read before got less than it
// asked for (include/weft/detail/netpoll/unverified_waits.hpp): whatever such a read has left
// behind is found all the same, in a quiet runtime and in a busy one.

#include "support/catch.hpp"
#include "support/network.hpp"
#include "support/scale.hpp"
#include "support/scheduler.hpp"

#include <weft/detail/netpoll/unverified_waits.hpp>
#include <weft/weft.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using weft::detail::kernel_system_calls;
using weft::detail::system_calls;
using weft::test::on_each_backend;
using weft::test::replaced_calls;

namespace {

/// A blocking client socket that is connected to a listener on the loopback interface.
class raw_client {
public:
    explicit raw_client(const weft::net::tcp_listener& listener)
        : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(listener.local_endpoint().port());
        REQUIRE(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    }
    ~raw_client() { ::close(fd_); }
    raw_client(const raw_client&) = delete;
    raw_client& operator=(const raw_client&) = delete;

    void send(std::string_view text, int flags = 0) const { CHECK(try_send(text, flags)); }
    // Without assertions, which only one thread may make at a time.
    bool try_send(std::string_view text, int flags = 0) const {
        return ::send(fd_, text.data(), text.size(), flags) == static_cast<ssize_t>(text.size());
    }
    /// Blocks until so many bytes have come; false if they do not.
    bool receive(std::size_t size) const {
        std::array<char, 64> buffer;
        return ::recv(fd_, buffer.data(), size, MSG_WAITALL) == static_cast<ssize_t>(size);
    }
    bool try_shut_down() const { return ::shutdown(fd_, SHUT_WR) == 0; }
    void shut_down() const { CHECK(try_shut_down()); }

private:
    int fd_;
};

weft::task<std::string> read_text(weft::net::tcp_stream& from) {
    std::array<std::byte, 64> buffer;
    const std::size_t size =
        co_await weft::with_timeout(weft::test::watchdog_limit, from.read_some(buffer));
    co_return std::string(reinterpret_cast<const char*>(buffer.data()), size);
}

/// Runs `act` when the caller waits for something. Until then it is what else there is to do.
template <class Act>
weft::task<> soon(Act act) {
    act();
    co_return;
}

/// Keeps one processor busy as long as it lives.
class busy_runtime {
public:
    explicit busy_runtime(bool busy) {
        if (busy) yielder_ = weft::co_spawn(keep_yielding(stopped_));
    }
    weft::task<> stop() {
        stopped_ = true;
        if (yielder_) co_await std::move(*yielder_);
    }

private:
    static weft::task<> keep_yielding(const bool& stopped) {
        while (!stopped) co_await weft::yield();
    }

    bool stopped_ = false;
    std::optional<weft::join_handle<void>> yielder_;
};

/// Lets the stream wait for data a few times, so that its poll stays armed.
weft::task<> warm_up(const raw_client& client, weft::net::tcp_stream& stream) {
    for (int i = 0; i < 4; ++i) {
        auto sender = weft::co_spawn(soon([&client] { client.send("x"); }));
        const std::string got = co_await read_text(stream);
        CHECK(got == "x");
        co_await std::move(sender);
    }
}

weft::task<> read_around_an_urgent_byte(bool busy) {
    auto listener = weft::net::tcp_listener::bind(weft::net::endpoint::parse("127.0.0.1:0"));
    const raw_client client(listener);
    weft::net::tcp_stream stream = co_await listener.accept();
    busy_runtime noise(busy);
    co_await warm_up(client, stream);
    for (int i = 0; i < 3; ++i) {
        auto sender = weft::co_spawn(soon([&client] {
            client.send("before");
            client.send("!", MSG_OOB);
            client.send("after");
        }));
        // The system stops a read at the urgent byte, which belongs to no read.
        const std::string before = co_await read_text(stream);
        CHECK(before == "before");
        auto other = weft::co_spawn(soon([] {}));
        const std::string after = co_await read_text(stream);
        CHECK(after == "after");
        co_await std::move(sender);
        co_await std::move(other);
    }
    co_await noise.stop();
}

weft::task<> read_to_the_end(bool busy) {
    auto listener = weft::net::tcp_listener::bind(weft::net::endpoint::parse("127.0.0.1:0"));
    const raw_client client(listener);
    weft::net::tcp_stream stream = co_await listener.accept();
    busy_runtime noise(busy);
    co_await warm_up(client, stream);
    auto sender = weft::co_spawn(soon([&client] {
        client.send("last");
        client.shut_down();
    }));
    const std::string last = co_await read_text(stream);
    CHECK(last == "last");
    auto other = weft::co_spawn(soon([] {}));
    const std::string nothing = co_await read_text(stream);
    CHECK(nothing.empty());
    co_await std::move(sender);
    co_await std::move(other);
    co_await noise.stop();
}

constexpr int chunks = 300;

/// Chunks that are sometimes larger than the reader's buffer; byte i of the stream is i.
weft::task<> write_chunks(weft::net::tcp_stream stream, unsigned seed) {
    std::mt19937 random(seed);
    std::array<std::byte, 200> chunk;
    unsigned char next = 0;
    for (int i = 0; i < chunks; ++i) {
        const std::size_t size = 1 + random() % chunk.size();
        for (std::size_t k = 0; k < size; ++k) chunk[k] = std::byte{next++};
        co_await stream.write_all(std::span(chunk).first(size));
        if (random() % 4 != 0) co_await weft::yield();
        if (random() % 64 == 0) co_await weft::sleep_for(std::chrono::microseconds(200));
    }
}

/// Returns whether all bytes came in order, up to the end of the stream.
weft::task<bool> read_chunks(weft::net::tcp_stream stream) {
    unsigned char next = 0;
    for (;;) {
        const std::string text = co_await read_text(stream);
        if (text.empty()) co_return true;
        for (const char each : text) {
            if (static_cast<unsigned char>(each) != next++) co_return false;
        }
    }
}

weft::task<> stream_between_tasks() {
    auto listener = weft::net::tcp_listener::bind(weft::net::endpoint::parse("127.0.0.1:0"));
    std::vector<weft::join_handle<bool>> readers;
    std::vector<weft::join_handle<void>> writers;
    for (unsigned i = 0; i < 16; ++i) {
        auto out = co_await weft::net::tcp_stream::connect(listener.local_endpoint());
        writers.push_back(weft::co_spawn(write_chunks(std::move(out), i)));
        readers.push_back(weft::co_spawn(read_chunks(co_await listener.accept())));
    }
    for (auto& writer : writers) co_await std::move(writer);
    for (auto& reader : readers) {
        const bool complete = co_await std::move(reader);
        CHECK(complete);
    }
}

std::atomic<unsigned> receives{0};
std::atomic<unsigned> questions{0};

weft::task<> read_messages(int count) {
    auto listener = weft::net::tcp_listener::bind(weft::net::endpoint::parse("127.0.0.1:0"));
    const raw_client client(listener);
    weft::net::tcp_stream stream = co_await listener.accept();
    co_await warm_up(client, stream);
    receives = 0;
    for (int i = 0; i < count; ++i) {
        auto sender = weft::co_spawn(soon([&client] { client.send("message"); }));
        const std::string got = co_await read_text(stream);
        CHECK(got == "message");
        co_await std::move(sender);
    }
}

weft::task<> echo_all(weft::net::tcp_stream stream) {
    for (;;) {
        const std::string text = co_await read_text(stream);
        if (text.empty()) co_return;
        co_await stream.write_all(std::as_bytes(std::span(text)));
    }
}

/// The worker sleeps after each message, since the peer is a thread that waits for the answer.
weft::task<> answer_messages(int count) {
    auto listener = weft::net::tcp_listener::bind(weft::net::endpoint::parse("127.0.0.1:0"));
    const raw_client client(listener);
    auto echo = weft::co_spawn(echo_all(co_await listener.accept()));
    std::atomic<bool> answered{true};
    std::jthread peer([&] {
        for (int i = 0; i < count; ++i) {
            if (!client.try_send("message") || !client.receive(7)) answered = false;
        }
        if (!client.try_shut_down()) answered = false;
    });
    co_await std::move(echo);
    peer.join();  // It has sent its last, and waits for nothing.
    CHECK(answered);
}

system_calls counted_receives() {
    system_calls table = kernel_system_calls();
    table.recv = [](int fd, void* buffer, std::size_t size, int flags) {
        ++receives;
        return kernel_system_calls().recv(fd, buffer, size, flags);
    };
    return table;
}

/// Every receive gets one byte, whatever is there.
system_calls short_receives() {
    system_calls table = kernel_system_calls();
    table.recv = [](int fd, void* buffer, std::size_t size, int flags) {
        ++receives;
        return kernel_system_calls().recv(fd, buffer, std::min<std::size_t>(size, 1), flags);
    };
    table.poll = [](pollfd* asked, unsigned long count, int milliseconds) {
        if (weft::test::asks_about_sockets(asked)) ++questions;
        return kernel_system_calls().poll(asked, count, milliseconds);
    };
    return table;
}

std::atomic<bool> refuses{false};

/// What the system does at an urgent mark while a signal is pending: it has just said that there is
/// something to read, and the call says EAGAIN all the same.
system_calls calls_that_refuse_once() {
    system_calls table = kernel_system_calls();
    table.recv = [](int fd, void* buffer, std::size_t size, int flags) -> ssize_t {
        if (refuses.exchange(false)) {
            errno = EAGAIN;
            return -1;
        }
        return kernel_system_calls().recv(fd, buffer, size, flags);
    };
    table.poll = [](pollfd* asked, unsigned long count, int milliseconds) {
        const int readable = kernel_system_calls().poll(asked, count, milliseconds);
        if (readable > 0 && weft::test::asks_about_sockets(asked)) {
            refuses = true;
            ++questions;
        }
        return readable;
    };
    return table;
}

enum class beside { nothing, ready_tasks, a_task_that_yields };

/// Sends all at once. Beside the reader is nothing, so that only the watchdog is there to find what
/// each read leaves behind; or something else to do whenever the read is about to wait.
weft::task<> read_byte_by_byte(std::size_t size, beside what) {
    auto listener = weft::net::tcp_listener::bind(weft::net::endpoint::parse("127.0.0.1:0"));
    const raw_client client(listener);
    weft::net::tcp_stream stream = co_await listener.accept();
    busy_runtime noise(what == beside::a_task_that_yields);
    co_await warm_up(client, stream);
    client.send(std::string(size, 'x'));
    std::size_t got = 0;
    while (got < size) {
        std::optional<weft::join_handle<void>> other;
        if (what != beside::nothing) other = weft::co_spawn(soon([] {}));
        got += (co_await read_text(stream)).size();
        if (other) co_await std::move(*other);
    }
    co_await noise.stop();
}

/// A side without a descriptor: which wait lasts, and whether somebody was nudged.
struct stand_in {
    std::uint32_t number = 0;
    bool waiting = false;
    int nudged = 0;

    bool waits(std::uint32_t of) const { return waiting && number == of; }
    stand_in* nudge() {
        waiting = false;
        ++nudged;
        return this;
    }
};

using list = weft::detail::unverified_waits<weft::detail::std_layer, stand_in, 4>;

void note(list& in, stand_in& side) {
    side.waiting = true;
    in.note(side, ++side.number, 0);
}

/// Asks; the answer is the same for all. Returns for how many.
std::size_t ask(list& of, bool all, bool readable = false) {
    std::size_t asked = 0;
    of.verify(
        all,
        [&](auto due) {
            asked = due.size();
            for (auto& each : due) each.readable = readable;
        },
        [](stand_in&) {});
    return asked;
}

}  // namespace

TEST_CASE("data behind an urgent byte is read although no event tells of it", "[net]") {
    for (const bool busy : {false, true}) {
        on_each_backend([busy] { return read_around_an_urgent_byte(busy); }, 1);
    }
}

// Linux looks for signals that are pending, and for work of its own for the thread, when a read
// begins at an urgent mark, and says EAGAIN then, whatever is there (tcp_recvmsg).
TEST_CASE("regress: a read that is refused although there is something to read is made again",
          "[net]") {
    const replaced_calls replaced(calls_that_refuse_once());
    for (const bool busy : {false, true}) {
        questions = 0;
        on_each_backend([busy] { return read_around_an_urgent_byte(busy); }, 1);
        CHECK(questions != 0);
    }
}

TEST_CASE("the end of a stream right behind the data is read", "[net]") {
    for (const bool busy : {false, true}) {
        on_each_backend([busy] { return read_to_the_end(busy); }, 1);
    }
}

TEST_CASE("streams with reads of all sizes flow to their ends", "[net]") {
    on_each_backend([] { return stream_between_tasks(); }, 1);
    on_each_backend([] { return stream_between_tasks(); }, 4);
}

TEST_CASE("a small message costs one receive where there is more to do", "[net]") {
    const replaced_calls replaced(counted_receives());
    on_each_backend([] { return read_messages(1000); }, 1);
    CHECK(receives < 1100);
}

TEST_CASE("a small message costs one receive where a worker sleeps after each", "[net]") {
    const replaced_calls replaced(counted_receives());
    on_each_backend(
        [] {
            receives = 0;
            return answer_messages(1000);
        },
        1);
    CHECK(receives < 1100);
}

TEST_CASE("row 45: what short reads leave behind wakes a worker that sleeps", "[faults][net]") {
    const replaced_calls replaced(short_receives());
    questions = 0;
    on_each_backend([] { return read_byte_by_byte(500, beside::nothing); }, 1);
    CHECK(questions > 0);
}

TEST_CASE("row 45: short reads delay nothing for long", "[faults][net]") {
    const replaced_calls replaced(short_receives());
    for (const auto what : {beside::ready_tasks, beside::a_task_that_yields}) {
        questions = 0;
        const auto begin = std::chrono::steady_clock::now();
        on_each_backend([what] { return read_byte_by_byte(2000, what); }, 1);
        // Each delay is at most two looks of the watchdog; after one comes a pause of 64 reads,
        // then of 128, and so on.
        CHECK(std::chrono::steady_clock::now() - begin < weft::test::watchdog_limit);
        CHECK(questions > 0);
    }
}

TEST_CASE("what the kernel cannot be asked about is tried", "[faults][net]") {
    system_calls table = short_receives();
    table.poll = [](pollfd* asked, unsigned long, int) {
        if (weft::test::asks_about_sockets(asked)) ++questions;
        errno = ENOMEM;
        return -1;
    };
    const replaced_calls replaced(table);
    questions = 0;
    on_each_backend([] { return read_byte_by_byte(2000, beside::a_task_that_yields); }, 1);
    CHECK(questions > 0);
}

TEST_CASE("unverified waits are asked for once, the old ones first", "[net]") {
    list waits;
    std::array<stand_in, 3> sides;
    CHECK(waits.empty());
    note(waits, sides[0]);
    note(waits, sides[1]);
    CHECK(ask(waits, false) == 0);  // None is old.
    note(waits, sides[2]);
    CHECK(ask(waits, false, true) == 2);
    CHECK(sides[0].nudged == 1);
    CHECK(sides[1].nudged == 1);
    CHECK(sides[2].nudged == 0);
    CHECK(ask(waits, false) == 1);
    CHECK(waits.empty());
    CHECK(sides[2].nudged == 0);
    note(waits, sides[0]);
    CHECK(ask(waits, true, true) == 1);
    CHECK(sides[0].nudged == 2);
    CHECK(waits.empty());
}

TEST_CASE("one busy side takes one place among the unverified waits", "[net]") {
    list waits;
    std::array<stand_in, 2> sides;
    note(waits, sides[0]);
    note(waits, sides[1]);
    CHECK(ask(waits, false) == 0);  // Both are old from now on.
    for (int i = 0; i < 8; ++i) {
        REQUIRE(waits.admits());
        sides[1].waiting = false;  // An event took it.
        note(waits, sides[1]);
    }
    CHECK(ask(waits, false, true) == 1);  // The new wait of the second one is not old.
    CHECK(sides[0].nudged == 1);
    CHECK(ask(waits, false, true) == 1);
    CHECK(sides[1].nudged == 1);
    CHECK(waits.empty());
}

TEST_CASE("what has ended makes room among the unverified waits", "[net]") {
    list waits;
    std::array<stand_in, 4> sides;
    for (auto& side : sides) {
        REQUIRE(waits.admits());
        note(waits, side);
    }
    CHECK_FALSE(waits.admits());
    sides[1].waiting = false;     // An event took it.
    ++sides[2].number;            // An event took it, and it waits again.
    CHECK_FALSE(waits.admits());  // A full list is not looked at each time.
    CHECK(waits.admits());
    CHECK(ask(waits, true, true) == 2);
    CHECK(sides[0].nudged == 1);
    CHECK(sides[1].nudged == 0);
    CHECK(sides[2].nudged == 0);
    CHECK(sides[3].nudged == 1);
}
