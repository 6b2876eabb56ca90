// SPDX-License-Identifier: MIT
//
// Rows 7, 21, 23, 24, 30, 44 and 45 of the fault catalogue, as far as descriptors go.
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/network.hpp"
#include "support/scale.hpp"

#include <weft/as_result.hpp>
#include <weft/error.hpp>
#include <weft/io_error.hpp>
#include <weft/net/tcp.hpp>
#include <weft/runtime.hpp>
#include <weft/sleep.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <liburing.h>
#include <sys/socket.h>

using namespace std::chrono_literals;
using weft::detail::system_calls;
using weft::net::endpoint;
using weft::net::tcp_listener;
using weft::net::tcp_stream;
using weft::test::connected_pair;
using weft::test::local_pair;
using weft::test::on_each_backend;
using weft::test::replaced_calls;
using weft::test::stream_pair;

namespace {

std::atomic<unsigned> calls;

weft::task<std::error_code> read_one(tcp_stream& from) {
    std::array<std::byte, 1> one;
    auto result = co_await weft::as_result(from.read_some(one));
    co_return result ? std::error_code() : result.error();
}

}  // namespace

TEST_CASE("row 7: a full submission queue and an overflowing completion queue lose nothing",
          "[faults][netpoll]") {
    system_calls table = weft::detail::kernel_system_calls();
    table.io_uring_setup = [](unsigned, io_uring_params* parameters) {
        parameters->cq_entries = 8;
        return weft::detail::kernel_system_calls().io_uring_setup(4, parameters);
    };
    const replaced_calls replaced(table);
    on_each_backend([]() -> weft::task<> {
        constexpr int count = 300;
        std::vector<stream_pair> pairs;
        std::vector<weft::join_handle<std::error_code>> readers;
        for (int i = 0; i < count; ++i) pairs.push_back(co_await connected_pair());
        for (int round = 0; round < 3; ++round) {
            readers.clear();
            for (auto& each : pairs) readers.push_back(weft::co_spawn(read_one(each.server)));
            co_await weft::sleep_for(1ms);
            for (auto& each : pairs) co_await each.client.write_all(std::array{std::byte{1}});
            for (auto& each : readers) {
                const std::error_code awaited = co_await std::move(each);
                CHECK_FALSE(awaited);
            }
        }
        // All of them are armed again and closed at once.
        readers.clear();
        for (auto& each : pairs) readers.push_back(weft::co_spawn(read_one(each.server)));
        co_await weft::sleep_for(1ms);
        for (auto& each : pairs) co_await each.server.close();
        for (auto& each : readers) {
            const auto awaited = co_await std::move(each);
            CHECK(awaited == weft::errc::closed);
        }
    });
}

namespace {

using readers = std::vector<weft::join_handle<std::error_code>>;

readers read_at_each_end(std::vector<stream_pair>& pairs) {
    readers reading;
    for (auto& each : pairs) {
        reading.push_back(weft::co_spawn(read_one(each.client)));
        reading.push_back(weft::co_spawn(read_one(each.server)));
    }
    return reading;
}

weft::task<std::size_t> count_results(readers reading, std::error_code wanted) {
    std::size_t count = 0;
    for (auto& each : reading) {
        const std::error_code ended = co_await std::move(each);
        if (ended == wanted) ++count;
    }
    co_return count;
}

weft::task<> arm_thousands(std::size_t count) {
    std::vector<stream_pair> pairs;
    for (std::size_t i = 0; i < count; ++i) pairs.push_back(local_pair());
    for (int round = 0; round < 2; ++round) {
        readers reading = read_at_each_end(pairs);
        co_await weft::sleep_for(1ms);
        for (auto& each : pairs) {
            co_await each.client.write_all(std::array{std::byte{1}});
            co_await each.server.write_all(std::array{std::byte{2}});
        }
        const std::size_t read = co_await count_results(std::move(reading), {});
        CHECK(read == 2 * count);
    }
    readers reading = read_at_each_end(pairs);
    co_await weft::sleep_for(1ms);
    for (auto& each : pairs) {
        co_await each.client.close();
        co_await each.server.close();
    }
    const std::size_t told = co_await count_results(std::move(reading), weft::errc::closed);
    // The other end of one that was closed first may have read the end of the stream instead.
    CHECK(told >= count);
    CHECK(told <= 2 * count);
}

}  // namespace

TEST_CASE("row 7: ten thousand polls go through a submission queue of four", "[faults][netpoll]") {
    system_calls table = weft::detail::kernel_system_calls();
    table.io_uring_setup = [](unsigned, io_uring_params* parameters) {
        parameters->cq_entries = 8;
        return weft::detail::kernel_system_calls().io_uring_setup(4, parameters);
    };
    const replaced_calls replaced(table);
    const std::size_t limit = weft::test::raise_descriptor_limit();
    const std::size_t wanted = weft::test::scaled_count(5'000, 5'000);
    const std::size_t count = std::min(wanted, (limit - 200) / 2);
    if (count < wanted) {
        WARN("RLIMIT_NOFILE is " << limit << ": " << 2 * count << " polls");
    }
    const std::size_t descriptors = weft::test::descriptor_count();
    on_each_backend([=] { return arm_thousands(count); });
    CHECK(weft::test::descriptor_count() == descriptors);
}

TEST_CASE("row 21: writing to a closed peer is an error and no signal", "[faults][netpoll]") {
    on_each_backend([]() -> weft::task<> {
        stream_pair both = co_await connected_pair();
        co_await both.server.close();
        std::error_code code;
        for (int i = 0; i < 100 && !code; ++i) {
            auto result = co_await weft::as_result(both.client.write_all(std::array{std::byte{1}}));
            if (!result) code = result.error();
            co_await weft::sleep_for(1ms);
        }
        CHECK((code == std::errc::broken_pipe || code == std::errc::connection_reset));
    });
}

TEST_CASE("row 23: a reader is told when its stream is closed, and the peer sees the end",
          "[faults][netpoll]") {
    on_each_backend([]() -> weft::task<> {
        for (int i = 0; i < 50; ++i) {
            stream_pair both = co_await connected_pair();
            auto reader = weft::co_spawn(read_one(both.server));
            auto queued = weft::co_spawn(read_one(both.server));
            if (i % 2 == 0) co_await weft::sleep_for(100us);
            co_await both.server.close();
            {
                const auto awaited = co_await std::move(reader);
                CHECK(awaited == weft::errc::closed);
            }
            {
                const auto awaited = co_await std::move(queued);
                CHECK(awaited == weft::errc::closed);
            }
            std::array<std::byte, 1> one;
            {
                const auto awaited = co_await both.client.read_some(one);
                CHECK(awaited == 0);
            }
        }
    });
}

TEST_CASE("row 24: a number that is used again at once gets nothing of the old one",
          "[faults][netpoll]") {
    on_each_backend([]() -> weft::task<> {
        tcp_listener listener = tcp_listener::bind(endpoint::parse("127.0.0.1:0"));
        for (int i = 0; i < 200; ++i) {
            tcp_stream client = co_await tcp_stream::connect(listener.local_endpoint());
            tcp_stream server = co_await listener.accept();
            auto reader = weft::co_spawn(read_one(server));
            if (i % 3 != 0) co_await weft::yield();
            // The next round makes new sockets as soon as the number is free.
            co_await server.close();
            {
                const auto awaited = co_await std::move(reader);
                CHECK(awaited == weft::errc::closed);
            }
        }
    });
}

TEST_CASE("row 30: of a timeout and a completion exactly one wins, and no byte is lost",
          "[faults][netpoll]") {
    on_each_backend([]() -> weft::task<> {
        stream_pair both = co_await connected_pair();
        int received = 0;
        constexpr int rounds = 300;
        for (int i = 0; i < rounds; ++i) {
            auto writer = weft::co_spawn([](tcp_stream& to, int delay) -> weft::task<> {
                co_await weft::sleep_for(std::chrono::microseconds(delay));
                co_await to.write_all(std::array{std::byte{1}});
            }(both.client, 200 + i % 7));
            std::array<std::byte, 8> buffer;
            auto result =
                co_await weft::as_result(weft::with_timeout(200us, both.server.read_some(buffer)));
            if (result) received += static_cast<int>(*result);
            co_await std::move(writer);
        }
        std::vector<std::byte> rest(static_cast<std::size_t>(rounds - received));
        {
            const auto awaited = co_await both.server.read_exact(rest);
            CHECK(awaited == rest.size());
        }
    });
}

TEST_CASE("row 44: zero-length transfers make no system call", "[faults][netpoll]") {
    system_calls table = weft::detail::kernel_system_calls();
    table.recv = [](int fd, void* buffer, std::size_t size, int flags) {
        ++calls;
        return weft::detail::kernel_system_calls().recv(fd, buffer, size, flags);
    };
    table.send = [](int fd, const void* buffer, std::size_t size, int flags) {
        ++calls;
        return weft::detail::kernel_system_calls().send(fd, buffer, size, flags);
    };
    table.sendmsg = [](int fd, const msghdr* message, int flags) {
        ++calls;
        return weft::detail::kernel_system_calls().sendmsg(fd, message, flags);
    };
    const replaced_calls replaced(table);
    on_each_backend([]() -> weft::task<> {
        stream_pair both = co_await connected_pair();
        calls = 0;
        {
            const auto awaited = co_await both.server.read_some(weft::net::mutable_buffer());
            CHECK(awaited == 0);
        }
        {
            const auto awaited = co_await both.server.read_exact(weft::net::mutable_buffer());
            CHECK(awaited == 0);
        }
        {
            const auto awaited = co_await both.server.write_all(weft::net::const_buffer());
            CHECK(awaited == 0);
        }
        const std::vector<weft::net::const_buffer> empty(3);
        {
            const auto awaited = co_await both.server.write_all(empty);
            CHECK(awaited == 0);
        }
        CHECK(calls == 0);
    });
}

namespace {

/// One transfer of nothing, of each form.
constexpr int forms_of_nothing = 6;
weft::task<std::size_t> transfer_nothing(tcp_stream& on, int form) {
    using weft::net::const_buffer;
    using weft::net::mutable_buffer;
    const std::array<const_buffer, 3> to_write{};
    const std::array<mutable_buffer, 3> to_read{};
    switch (form) {
    case 0: co_return co_await on.read_some(mutable_buffer());
    case 1: co_return co_await on.read_exact(mutable_buffer());
    case 2: co_return co_await on.read_exact(std::span<const mutable_buffer>(to_read));
    case 3: co_return co_await on.write_some(const_buffer());
    case 4: co_return co_await on.write_all(const_buffer());
    default: co_return co_await on.write_all(std::span<const const_buffer>(to_write));
    }
}

/// Ends by itself only long after the stop that the test is about.
weft::task<> transfer_nothing_for_long(tcp_stream& on, int form) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (std::chrono::steady_clock::now() < end) co_await transfer_nothing(on, form);
}

}  // namespace

TEST_CASE("row 44: a transfer of nothing is stopped as any other", "[faults][netpoll]") {
    on_each_backend([]() -> weft::task<> {
        stream_pair both = co_await connected_pair();
        for (int form = 0; form < forms_of_nothing; ++form) {
            INFO("form " << form);
            const auto result = co_await weft::as_result(
                weft::with_timeout(1ms, transfer_nothing_for_long(both.server, form)));
            CHECK_FALSE(result);
            if (!result) CHECK(result.error() == std::errc::timed_out);
        }
    });
}

TEST_CASE("row 44: a transfer of nothing is refused by a closed stream", "[faults][netpoll]") {
    on_each_backend([]() -> weft::task<> {
        stream_pair both = co_await connected_pair();
        tcp_stream never;
        co_await both.server.close();
        for (int form = 0; form < forms_of_nothing; ++form) {
            for (tcp_stream* const closed : {&both.server, &never}) {
                INFO("form " << form);
                const auto result = co_await weft::as_result(transfer_nothing(*closed, form));
                CHECK_FALSE(result);
                if (!result) CHECK(result.error() == weft::errc::closed);
            }
        }
    });
}

TEST_CASE("row 44: a call moves at most 2^30 bytes", "[faults][netpoll]") {
    static std::atomic<std::size_t> largest;
    system_calls table = weft::detail::kernel_system_calls();
    table.send = [](int, const void*, std::size_t size, int) {
        largest = std::max(largest.load(), size);
        return static_cast<ssize_t>(size);  // The kernel takes all, and nothing is touched.
    };
    const replaced_calls replaced(table);
    on_each_backend([]() -> weft::task<> {
        stream_pair both = co_await connected_pair();
        largest = 0;
        static constexpr std::byte nothing{};
        constexpr std::size_t size = (std::size_t{5} << 30) + 17;
        {
            const auto awaited =
                co_await both.client.write_all(weft::net::const_buffer(&nothing, size));
            CHECK(awaited == size);
        }
        CHECK(largest == std::size_t{1} << 30);
    });
}

TEST_CASE("row 45: short transfers and EINTR everywhere", "[faults][netpoll]") {
    system_calls table = weft::detail::kernel_system_calls();
    table.recv = [](int fd, void* buffer, std::size_t size, int flags) {
        const unsigned call = ++calls;
        if (call % 5 == 0) {
            errno = EINTR;
            return ssize_t{-1};
        }
        return weft::detail::kernel_system_calls().recv(
            fd, buffer, std::min<std::size_t>(size, 1 + call % 7), flags);
    };
    table.send = [](int fd, const void* buffer, std::size_t size, int flags) {
        const unsigned call = ++calls;
        if (call % 4 == 0) {
            errno = EINTR;
            return ssize_t{-1};
        }
        return weft::detail::kernel_system_calls().send(
            fd, buffer, std::min<std::size_t>(size, 1 + call % 11), flags);
    };
    const replaced_calls replaced(table);
    on_each_backend([]() -> weft::task<> {
        stream_pair both = co_await connected_pair();
        std::vector<std::byte> sent(20'000);
        for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 13);
        auto writer = weft::co_spawn([](tcp_stream& to, auto& data) -> weft::task<> {
            co_await to.write_all(data);
        }(both.client, sent));
        std::vector<std::byte> got(sent.size());
        co_await both.server.read_exact(got);
        CHECK(got == sent);
        co_await std::move(writer);
    });
}

TEST_CASE("accept: failed connections are skipped, a lack of descriptors is told",
          "[faults][netpoll]") {
    system_calls table = weft::detail::kernel_system_calls();
    table.accept4 = [](int fd, sockaddr* address, socklen_t* size, int flags) {
        constexpr int errors[] = {ECONNABORTED, EPROTO, EINTR,   ENETDOWN,
                                  EMFILE,       ENFILE, ENOBUFS, ENOMEM};
        const unsigned call = calls++;
        if (call < std::size(errors)) {
            errno = errors[call];
            return -1;
        }
        return weft::detail::kernel_system_calls().accept4(fd, address, size, flags);
    };
    const replaced_calls replaced(table);
    on_each_backend([]() -> weft::task<> {
        calls = 0;
        tcp_listener listener = tcp_listener::bind(endpoint::parse("127.0.0.1:0"));
        auto client = co_await tcp_stream::connect(listener.local_endpoint());
        for (const int expected : {EMFILE, ENFILE, ENOBUFS, ENOMEM}) {
            auto result = co_await weft::as_result(listener.accept());
            REQUIRE(!result);
            CHECK(result.error() == std::error_code(expected, std::system_category()));
        }
        auto server = co_await listener.accept();
        CHECK(server.is_open());
    });
}
