// SPDX-License-Identifier: MIT
//
// Row 22 of the fault catalogue, as far as descriptors go. A forked child has copies of the
// numbers of its parent's rings, epoll set, bells and sockets. A stream that was destroyed there,
// by exit() or by hand, used to shut the parent's connection down, and to take it out of the
// parent's epoll set.
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/network.hpp"
#include "support/scale.hpp"
#include "support/skip.hpp"

#include <weft/as_result.hpp>
#include <weft/sleep.hpp>
#include <weft/yield.hpp>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace std::chrono_literals;
using weft::detail::kernel_system_calls;
using weft::detail::system_calls;
using weft::net::tcp_listener;
using weft::net::tcp_stream;
using weft::test::child_check;

namespace {

/// What is shared with the child; destroyed by exit(), as a static stream of a program is.
struct shared_sockets {
    weft::test::stream_pair streams;
    tcp_listener listener;
};
std::optional<shared_sockets> shared;

/// The process that the runtime belongs to, and the calls that a forked one must not make while it
/// has no runtime of its own.
pid_t owner = 0;
bool has_own_runtime = false;

void check_caller(const char* call) {
    child_check(::getpid() == owner || has_own_runtime, call);
}

system_calls guarded_calls() {
    system_calls table = kernel_system_calls();
    table.io_uring_enter = [](int fd, unsigned submit, unsigned wanted, unsigned flags,
                              const void* argument, std::size_t size) {
        check_caller("the child entered a ring");
        return kernel_system_calls().io_uring_enter(fd, submit, wanted, flags, argument, size);
    };
    table.epoll_ctl = [](int set, int operation, int fd, epoll_event* event) {
        check_caller("the child changed an epoll set");
        return kernel_system_calls().epoll_ctl(set, operation, fd, event);
    };
    table.write = [](int fd, const void* buffer, std::size_t size) {
        check_caller("the child rang a bell");
        return kernel_system_calls().write(fd, buffer, size);
    };
    table.shutdown = [](int fd, int how) {
        check_caller("the child shut a connection down");
        return kernel_system_calls().shutdown(fd, how);
    };
    return table;
}

weft::task<std::size_t> read_one(tcp_stream& from) {
    std::array<std::byte, 1> one;
    co_return co_await from.read_some(one);
}

weft::task<> accept_one(tcp_listener& from) {
    const tcp_stream accepted = co_await from.accept();
    child_check(accepted.is_open(), "accept");
}

/// Forks while reads and an accept are parked on what is shared; nothing that the child does to its
/// copies may be seen here.
weft::task<> fork_while_parked(std::function<void()> in_child) {
    shared.emplace();
    shared->streams = co_await weft::test::connected_pair();
    shared->listener = tcp_listener::bind(weft::net::endpoint::parse("127.0.0.1:0"));
    for (int round = 0; round < 3; ++round) {
        auto at_server = weft::co_spawn(read_one(shared->streams.server));
        auto at_client = weft::co_spawn(read_one(shared->streams.client));
        auto accepting = weft::co_spawn(accept_one(shared->listener));
        co_await weft::sleep_for(5ms);  // The polls are in the kernel.
        const pid_t child = ::fork();
        if (child == 0) {
            ::alarm(30);
            in_child();
            ::_exit(0);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        child_check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child failed");
        co_await shared->streams.client.write_all(std::array{std::byte{1}});
        co_await shared->streams.server.write_all(std::array{std::byte{2}});
        const tcp_stream other = co_await tcp_stream::connect(shared->listener.local_endpoint());
        child_check(co_await std::move(at_server) == 1, "the server's end was disturbed");
        child_check(co_await std::move(at_client) == 1, "the client's end was disturbed");
        co_await std::move(accepting);
    }
    shared.reset();
}

void check_on_each(const std::function<void()>& in_child, const char* message = nullptr) {
    for (const char* backend : weft::test::backends()) {
        const auto result = weft::test::run_in_child([&] {
            owner = ::getpid();
            const weft::test::replaced_calls guarded(guarded_calls());
            weft::test::run_on(backend, fork_while_parked(in_child));
        });
        INFO("netpoll: " << backend << ", " << result.describe());
        CHECK(result.signal == 0);
        CHECK(result.status == 0);
        if (message != nullptr) CHECK(result.errors.find(message) != std::string::npos);
    }
}

weft::task<> use_own_runtime() {
    weft::test::stream_pair own = co_await weft::test::connected_pair();
    for (int round = 0; round < 3; ++round) {
        auto reader = weft::co_spawn(read_one(own.server));
        co_await weft::sleep_for(1ms);
        co_await own.client.write_all(std::array{std::byte{1}});
        child_check(co_await std::move(reader) == 1, "the child's own runtime does not work");
    }
    // What it has inherited, closed by a task of its own.
    co_await shared->streams.server.close();
    co_await shared->listener.close();
    child_check(!shared->streams.server.is_open(), "the copy was not closed");
    shared.reset();
}

/// Ends a process of its own by abort, which the caller sees.
void expect_abort(const std::function<void()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(30);
        body();
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    child_check(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "no abort");
}

/// What /proc tells about the descriptors of this process: those of the netpoller.
template <class Look>
int for_each_own_descriptor(Look look) {
    int count = 0;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code error;
        const std::string target = std::filesystem::read_symlink(each.path(), error).string();
        if (error || target.rfind("anon_inode:", 0) != 0) continue;
        look(std::stoi(each.path().filename().string()), target);
        ++count;
    }
    return count;
}

bool maps_a_ring() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find("[io_uring]") != std::string::npos) return true;
    }
    return false;
}

}  // namespace

TEST_CASE("row 22: streams that a forked child destroys stay open in the parent",
          "[regress][faults][netpoll]") {
    check_on_each([] { shared.reset(); });
}

TEST_CASE("row 22: static streams that exit() destroys in a forked child stay open in the parent",
          "[regress][faults][netpoll]") {
    // The sanitizers would look for leaks at exit(), in a copy whose threads are gone.
    if (weft::test::sanitized) WEFT_SKIP("a sanitizer changes what this looks at");
    check_on_each([] { std::exit(0); });
}

TEST_CASE("row 22: a forked child with a runtime of its own leaves the parent's sockets alone",
          "[regress][faults][netpoll]") {
    check_on_each([] {
        has_own_runtime = true;
        std::thread([] { weft::run(use_own_runtime(), {.processors = 2}); }).join();
    });
}

TEST_CASE("row 22: a forked child that reads from a socket of the parent's runtime is told",
          "[regress][faults][netpoll]") {
    const auto read_inherited = []() -> weft::task<> {
        static_cast<void>(co_await read_one(shared->streams.server));
    };
    const auto release_inherited = []() -> weft::task<> {
        static_cast<void>(co_await shared->streams.client.release());
    };
    check_on_each(
        [&] {
            has_own_runtime = true;
            std::thread([&] {
                expect_abort([&] { weft::run(read_inherited(), {.processors = 1}); });
                expect_abort([&] { weft::run(release_inherited(), {.processors = 1}); });
            }).join();
        },
        "opened before the process was forked");
}

TEST_CASE("row 22: rings, sets and bells are closed by exec, and rings are not mapped in a child",
          "[faults][netpoll]") {
    for (const char* backend : weft::test::backends()) {
        const auto result = weft::test::run_in_child([&] {
            owner = ::getpid();
            weft::test::run_on(backend, fork_while_parked([] {
                                   const int count =
                                       for_each_own_descriptor([](int fd, const std::string&) {
                                           child_check((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0,
                                                       "a descriptor would survive exec");
                                       });
                                   child_check(count >= 2, "there are no rings and no sets");
                                   child_check(!maps_a_ring(), "a ring is mapped in the child");
                               }));
            if (std::string(backend) == "io_uring") {
                weft::test::run_on(backend, []() -> weft::task<> {
                    child_check(maps_a_ring(), "/proc does not tell about rings");
                    co_return;
                }());
            }
        });
        INFO("netpoll: " << backend << ", " << result.describe());
        CHECK(result.signal == 0);
        CHECK(result.status == 0);
    }
}
