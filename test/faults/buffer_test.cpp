// SPDX-License-Identifier: MIT
//
// Row 31 of the fault catalogue: the buffer of an operation that did not come to its natural end is
// the user's again as soon as the await has ended, or its frame was destroyed. Whatever arrives or
// is taken by the peer after that, neither the kernel nor weft reads or writes it.
#include "support/catch.hpp"
#include "support/network.hpp"
#include "support/scheduler.hpp"
#include "support/watched_buffer.hpp"

#include <weft/as_result.hpp>
#include <weft/error.hpp>
#include <weft/io_error.hpp>
#include <weft/timeout.hpp>
#include <weft/yield.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <sys/socket.h>

using namespace std::chrono_literals;
using weft::detail::kernel_system_calls;
using weft::detail::system_calls;
using weft::net::tcp_stream;
using weft::test::stream_pair;
using weft::test::watched_buffer;

namespace {

/// System calls that found nothing to do, that is, whose operation is about to park.
std::atomic<unsigned> blocked;
/// The time for an operation that is to end by its deadline, and whether that was over before the
/// operation began, because the system kept the thread from its CPU. Then the round says nothing.
std::chrono::milliseconds time_to_wait{2};
std::atomic<bool> too_late;
/// The buffer that must not be given to the kernel any more.
std::atomic<const std::byte*> retired_begin{nullptr};
std::atomic<const std::byte*> retired_end{nullptr};
std::atomic<unsigned> misused;

void look_at(const void* buffer) {
    const auto* const first = static_cast<const std::byte*>(buffer);
    if (first >= retired_begin && first < retired_end) ++misused;
}

void look_at(const msghdr& message) {
    for (std::size_t i = 0; i < message.msg_iovlen; ++i) look_at(message.msg_iov[i].iov_base);
}

ssize_t count_blocked(ssize_t result) {
    if (result < 0 && errno == EAGAIN) ++blocked;
    return result;
}

system_calls watching_calls() {
    system_calls table = kernel_system_calls();
    table.recv = [](int fd, void* buffer, std::size_t size, int flags) {
        look_at(buffer);
        return count_blocked(kernel_system_calls().recv(fd, buffer, size, flags));
    };
    table.send = [](int fd, const void* buffer, std::size_t size, int flags) {
        look_at(buffer);
        return count_blocked(kernel_system_calls().send(fd, buffer, size, flags));
    };
    table.recvmsg = [](int fd, msghdr* message, int flags) {
        look_at(*message);
        return count_blocked(kernel_system_calls().recvmsg(fd, message, flags));
    };
    table.sendmsg = [](int fd, const msghdr* message, int flags) {
        look_at(*message);
        return count_blocked(kernel_system_calls().sendmsg(fd, message, flags));
    };
    return table;
}

void retire(watched_buffer& buffer) {
    buffer.retire();
    retired_begin = buffer.bytes().data();
    retired_end = buffer.bytes().data() + buffer.bytes().size();
}

void check_untouched(watched_buffer& buffer) {
    retired_begin = nullptr;
    retired_end = nullptr;
    CHECK(misused == 0);
    CHECK(buffer.untouched());
}

/// Gives the buffer back to its imaginary owner when the frame is left, however that happens.
class retire_at_end {
public:
    explicit retire_at_end(watched_buffer& buffer) noexcept : buffer_(buffer) {}
    retire_at_end(const retire_at_end&) = delete;
    retire_at_end& operator=(const retire_at_end&) = delete;
    ~retire_at_end() { retire(buffer_); }

private:
    watched_buffer& buffer_;
};

enum class form { some, all, vector };
enum class ending { stop, timeout, close };

const char* name_of(form which) {
    constexpr std::array names = {"some", "all", "vector"};
    return names[static_cast<std::size_t>(which)];
}
const char* name_of(ending which) {
    constexpr std::array names = {"stopped", "timed out", "closed"};
    return names[static_cast<std::size_t>(which)];
}

/// How the operation ended, and what it had moved.
struct outcome {
    std::error_code error;
    std::size_t moved = 0;
};

weft::task<std::size_t> read(tcp_stream& from, std::span<std::byte> into, form which) {
    switch (which) {
    case form::some: co_return co_await from.read_some(into);
    case form::all: co_return co_await from.read_exact(into);
    case form::vector: break;
    }
    const std::array halves = {weft::net::mutable_buffer(into.first(into.size() / 2)),
                               weft::net::mutable_buffer(into.subspan(into.size() / 2))};
    co_return co_await from.read_exact(halves);
}

weft::task<std::size_t> write(tcp_stream& to, std::span<const std::byte> from, form which) {
    if (which != form::vector) co_return co_await to.write_all(from);
    const std::array halves = {weft::net::const_buffer(from.first(from.size() / 2)),
                               weft::net::const_buffer(from.subspan(from.size() / 2))};
    co_return co_await to.write_all(halves);
}

weft::task<outcome> observe(weft::task<std::size_t> transfer, watched_buffer& buffer, bool timed) {
    const retire_at_end guard(buffer);
    outcome seen;
    try {
        seen.moved = timed ? co_await weft::with_timeout(time_to_wait, std::move(transfer))
                           : co_await std::move(transfer);
    } catch (const weft::io_error& error) {
        seen = {error.code(), error.transferred()};
    } catch (const std::system_error& error) { seen.error = error.code(); }
    co_return seen;
}

/// Lets the transfer run until it waits, ends it, and gives the outcome.
weft::task<outcome> end_while_waiting(weft::task<std::size_t> transfer, watched_buffer& buffer,
                                      tcp_stream& on, ending how) {
    blocked = 0;
    auto handle = weft::co_spawn(observe(std::move(transfer), buffer, how == ending::timeout));
    while (blocked == 0 && !handle.done()) co_await weft::yield();
    too_late = blocked == 0;
    if (how == ending::stop) handle.request_stop();
    if (how == ending::close) co_await on.close();
    co_return co_await std::move(handle);
}

std::error_code expected(ending how) {
    switch (how) {
    case ending::stop: return std::make_error_code(std::errc::operation_canceled);
    case ending::timeout: return std::make_error_code(std::errc::timed_out);
    case ending::close: break;
    }
    return weft::errc::closed;
}

weft::task<> end_a_read(form which, ending how) {
    stream_pair both = co_await weft::test::connected_pair();
    // What arrived before the end is in the buffer, and told.
    constexpr std::size_t early = 10;
    if (which != form::some) co_await both.client.write_all(std::array<std::byte, early>{});
    watched_buffer buffer(8192);
    const outcome ended = co_await end_while_waiting(read(both.server, buffer.bytes(), which),
                                                     buffer, both.server, how);
    if (too_late) {
        check_untouched(buffer);
        co_return;
    }
    CHECK(ended.error == expected(how));
    CHECK(ended.moved == (which == form::some ? 0 : early));
    // Now comes what it was to read.
    const std::vector<std::byte> late(4096, std::byte{7});
    static_cast<void>(co_await weft::as_result(both.client.write_all(late)));
    if (how != ending::close) {
        std::vector<std::byte> got(late.size());
        co_await both.server.read_exact(got);
        CHECK(got == late);
    }
    check_untouched(buffer);
}

weft::task<> end_a_write(form which, ending how) {
    stream_pair both = co_await weft::test::connected_pair();
    both.client.set_send_buffer_size(16 * 1024);
    both.client.set_nodelay(true);
    watched_buffer buffer(std::size_t{1} << 20);
    for (std::size_t i = 0; i < buffer.bytes().size(); ++i) {
        buffer.bytes()[i] = static_cast<std::byte>(i * 7 + i / 256);
    }
    const outcome ended = co_await end_while_waiting(write(both.client, buffer.bytes(), which),
                                                     buffer, both.client, how);
    if (too_late) {
        check_untouched(buffer);
        co_return;
    }
    CHECK(ended.error == expected(how));
    CHECK(ended.moved > 0);
    // The peer takes what was handed over, and nothing of what the buffer holds now.
    std::vector<std::byte> got(ended.moved);
    const auto taken = co_await weft::as_result(both.server.read_exact(got));
    CHECK(taken.has_value());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        if (got[i] != static_cast<std::byte>(i * 7 + i / 256)) ++wrong;
    }
    CHECK(wrong == 0);
    if (how != ending::close) {
        co_await both.client.write_all(std::array{std::byte{42}});
        std::array<std::byte, 2> next;
        const std::size_t count = co_await both.server.read_some(next);
        CHECK(count == 1);
        CHECK(next[0] == std::byte{42});
    }
    check_untouched(buffer);
}

template <class EndOne>
void end_one_way(EndOne end_one, form which, ending how, unsigned processors) {
    weft::test::on_each_backend(
        [&]() -> weft::task<> {
            for (time_to_wait = 2ms; time_to_wait < 2s; time_to_wait *= 2) {
                co_await end_one(which, how);
                if (!too_late) co_return;
            }
            FAIL("no operation came to wait before its deadline");
        },
        processors);
}

template <class EndOne>
void end_each_way(EndOne end_one) {
    const weft::test::replaced_calls watched(watching_calls());
    misused = 0;
    for (const form which : {form::some, form::all, form::vector}) {
        for (const ending how : {ending::stop, ending::timeout, ending::close}) {
            INFO(name_of(which) << ", " << name_of(how));
            for (const unsigned processors : {1U, 2U}) end_one_way(end_one, which, how, processors);
        }
    }
}

/// Parks a read and a write in a runtime that ends at once, so that their frames are destroyed.
weft::task<> leave_parked(stream_pair& both, watched_buffer& incoming, watched_buffer& outgoing) {
    both = co_await weft::test::connected_pair();
    both.server.set_send_buffer_size(16 * 1024);
    blocked = 0;
    weft::co_spawn(observe(read(both.server, incoming.bytes(), form::all), incoming, false))
        .detach();
    while (blocked < 1) co_await weft::yield();
    weft::co_spawn(observe(write(both.server, outgoing.bytes(), form::all), outgoing, false))
        .detach();
    while (blocked < 2) co_await weft::yield();
}

weft::task<> use_after_end(stream_pair& both, std::size_t& drained) {
    const std::vector<std::byte> late(4096, std::byte{7});
    co_await both.client.write_all(late);
    std::vector<std::byte> got(late.size());
    co_await both.server.read_exact(got);
    CHECK(got == late);
    // What the destroyed write had handed over, up to the end.
    both.server.shutdown_write();
    std::size_t total = 0;
    std::array<std::byte, 4096> part;
    while (const std::size_t count = co_await both.client.read_some(part)) {
        drained += static_cast<std::size_t>(std::count(
            part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count), std::byte{3}));
        total += count;
    }
    CHECK(drained == total);
}

}  // namespace

TEST_CASE("row 31: the buffer of a read that was ended early is not touched any more",
          "[faults][netpoll]") {
    end_each_way(end_a_read);
}

TEST_CASE("row 31: the buffer of a write that was ended early is not touched any more",
          "[faults][netpoll]") {
    end_each_way(end_a_write);
}

TEST_CASE("row 31: the buffers of operations whose frames were destroyed are not touched any more",
          "[faults][netpoll]") {
    const weft::test::replaced_calls watched(watching_calls());
    misused = 0;
    for (const char* backend : weft::test::backends()) {
        for (const unsigned processors : {1U, 2U}) {
            INFO("netpoll: " << backend << ", processors: " << processors);
            const weft::test::watchdog dog(90s, [backend] { return std::string(backend); });
            const weft::test::forced_backend forced(backend);
            stream_pair both;
            watched_buffer incoming(8192);
            watched_buffer outgoing(std::size_t{1} << 20);
            std::memset(outgoing.bytes().data(), 3, outgoing.bytes().size());
            weft::run(leave_parked(both, incoming, outgoing),
                      {.processors = processors, .shutdown_grace = 0s});
            REQUIRE(incoming.retired());
            REQUIRE(outgoing.retired());
            std::size_t drained = 0;
            weft::run(use_after_end(both, drained), {.processors = processors});
            CHECK(drained > 0);
            check_untouched(incoming);
            check_untouched(outgoing);
        }
    }
}
