// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <weft/net/tcp.hpp>

#include <array>
#include <system_error>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

// A pipe was adopted as a stream without a word, and failed at the first read with "not a socket".
// Where adopting failed, the descriptor stayed non-blocking.

namespace {

/// A descriptor that the test owns.
class owned {
public:
    explicit owned(int fd) : fd_(fd) { REQUIRE(fd >= 0); }
    owned(const owned&) = delete;
    owned& operator=(const owned&) = delete;
    ~owned() { ::close(fd_); }
    int get() const { return fd_; }

private:
    int fd_;
};

std::error_code error_of(void (*adopt)(int), int fd) {
    try {
        adopt(fd);
    } catch (const std::system_error& error) { return error.code(); }
    return {};
}

void adopt_stream(int fd) {
    weft::net::tcp_stream::adopt(fd);
}
void adopt_listener(int fd) {
    weft::net::tcp_listener::adopt(fd);
}

/// It is still open, and as it was.
bool untouched(int fd) {
    const int flags = ::fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_NONBLOCK) == 0;
}

}  // namespace

TEST_CASE("adopt refuses what is not a socket of its kind, and leaves it as it was",
          "[regress][tcp]") {
    std::array<int, 2> ends;
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    const owned reading(ends[0]);
    const owned writing(ends[1]);
    const owned file(::open("/dev/null", O_RDWR | O_CLOEXEC));
    const owned datagram(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const owned listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const owned fresh(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::listen(listening.get(), 1) == 0);

    for (const owned* each : {&reading, &writing, &file}) {
        CHECK(error_of(adopt_stream, each->get()) == std::errc::not_a_socket);
        CHECK(error_of(adopt_listener, each->get()) == std::errc::not_a_socket);
        CHECK(untouched(each->get()));
    }
    CHECK(error_of(adopt_stream, datagram.get()) == std::errc::wrong_protocol_type);
    CHECK(error_of(adopt_listener, datagram.get()) == std::errc::wrong_protocol_type);
    CHECK(error_of(adopt_stream, listening.get()) == std::errc::invalid_argument);
    CHECK(error_of(adopt_listener, fresh.get()) == std::errc::invalid_argument);
    for (const owned* each : {&datagram, &listening, &fresh}) CHECK(untouched(each->get()));
    CHECK(error_of(adopt_stream, -1) == std::errc::bad_file_descriptor);
}

// Closing a socket that lingers stopped a worker, with all its tasks, for as long.
TEST_CASE("adopt refuses a socket whose close would wait", "[regress][tcp]") {
    std::array<int, 2> ends;
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    const owned first(ends[0]);
    const owned second(ends[1]);
    const linger waits{.l_onoff = 1, .l_linger = 3};
    REQUIRE(::setsockopt(first.get(), SOL_SOCKET, SO_LINGER, &waits, sizeof(waits)) == 0);
    CHECK(error_of(adopt_stream, first.get()) == std::errc::invalid_argument);
    CHECK(untouched(first.get()));
    const owned listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::listen(listening.get(), 1) == 0);
    REQUIRE(::setsockopt(listening.get(), SOL_SOCKET, SO_LINGER, &waits, sizeof(waits)) == 0);
    CHECK(error_of(adopt_listener, listening.get()) == std::errc::invalid_argument);
    CHECK(untouched(listening.get()));
    // A close that drops what was not sent does not wait.
    const linger drops{.l_onoff = 1, .l_linger = 0};
    REQUIRE(::setsockopt(listening.get(), SOL_SOCKET, SO_LINGER, &drops, sizeof(drops)) == 0);
    const int own = ::dup(listening.get());
    CHECK(error_of(adopt_listener, own) == std::error_code());
}
