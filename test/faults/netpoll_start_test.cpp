// SPDX-License-Identifier: MIT
//
// io_uring that cannot start, whatever the step and the errno: the runtime uses epoll, says so in
// one line, and leaves nothing behind; a forced io_uring tells errno and step.
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/network.hpp"
#include "support/scale.hpp"
#include "support/skip.hpp"

#include <weft/net/tcp.hpp>
#include <weft/runtime.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <liburing.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

using weft::detail::kernel_system_calls;
using weft::detail::system_calls;

namespace {

// What fails next, with which errno, and after how many calls of its kind.
std::atomic<int> injected_errno;
std::atomic<int> calls_before;
std::atomic<int> eventfds_refused;
std::atomic<int> registered;
std::atomic<bool> refused_to_rings_only;
std::atomic<int> mapped;

bool fails_now() {
    if (calls_before.fetch_sub(1) > 0) return false;
    errno = injected_errno;
    return true;
}

void* map_and_count(void* address, std::size_t size, int protection, int flags, int fd,
                    off_t offset) {
    void* const memory = kernel_system_calls().mmap(address, size, protection, flags, fd, offset);
    if (memory != MAP_FAILED) ++mapped;
    return memory;
}

int unmap_and_count(void* address, std::size_t size) {
    const int result = kernel_system_calls().munmap(address, size);
    if (result == 0) --mapped;
    return result;
}

struct step {
    const char* name;  // A part of what the log line or the exception says.
    int calls_before;
    void (*install)(system_calls&);
    int told = 0;  // The only errno of this step, where it is not one that a call gives.
};

void refuse_mapping(system_calls& table) {
    table.mmap = [](void* address, std::size_t size, int protection, int flags, int fd,
                    off_t offset) {
        return fails_now() ? MAP_FAILED
                           : map_and_count(address, size, protection, flags, fd, offset);
    };
}

void refuse_exclusion_from_fork(system_calls& table) {
    table.madvise = [](void* address, std::size_t size, int advice) {
        return fails_now() ? -1 : kernel_system_calls().madvise(address, size, advice);
    };
}

template <unsigned Feature>
void take_away_feature(system_calls& table) {
    table.io_uring_setup = [](unsigned entries, io_uring_params* parameters) {
        const int fd = kernel_system_calls().io_uring_setup(entries, parameters);
        if (fd >= 0 && fails_now()) parameters->features &= ~Feature;
        return fd;
    };
}

template <unsigned Operation>
void take_away_operation(system_calls& table) {
    table.io_uring_register = [](int fd, unsigned operation, void* argument, unsigned count) {
        const int result = kernel_system_calls().io_uring_register(fd, operation, argument, count);
        if (operation == IORING_REGISTER_PROBE && result >= 0 && fails_now()) {
            static_cast<io_uring_probe*>(argument)->ops[Operation].flags = 0;
        }
        return result;
    };
}

constexpr std::array steps = {
    step{"io_uring_setup", 0,
         [](system_calls& table) {
             table.io_uring_setup = [](unsigned entries, io_uring_params* parameters) {
                 return fails_now() ? -1
                                    : kernel_system_calls().io_uring_setup(entries, parameters);
             };
         }},
    step{"io_uring_setup", 1,
         [](system_calls& table) {
             table.io_uring_setup = [](unsigned entries, io_uring_params* parameters) {
                 return fails_now() ? -1
                                    : kernel_system_calls().io_uring_setup(entries, parameters);
             };
         }},
    // Two mappings for each ring.
    step{"mapping the ring", 0, refuse_mapping},
    step{"mapping the ring", 1, refuse_mapping},
    step{"mapping the ring", 3, refuse_mapping},
    step{"excluding the ring from fork", 0, refuse_exclusion_from_fork},
    step{"excluding the ring from fork", 3, refuse_exclusion_from_fork},
    step{"checking the features", 0, take_away_feature<IORING_FEAT_SINGLE_MMAP>, EOPNOTSUPP},
    step{"checking the features", 1, take_away_feature<IORING_FEAT_NODROP>, EOPNOTSUPP},
    step{"checking the features", 1, take_away_feature<IORING_FEAT_EXT_ARG>, EOPNOTSUPP},
    step{"checking the operations", 0, take_away_operation<IORING_OP_POLL_ADD>, EOPNOTSUPP},
    step{"checking the operations", 1, take_away_operation<IORING_OP_ASYNC_CANCEL>, EOPNOTSUPP},
    step{"asking for the operations", 1,
         [](system_calls& table) {
             table.io_uring_register = [](int fd, unsigned operation, void* argument,
                                          unsigned count) {
                 if (operation == IORING_REGISTER_PROBE && fails_now()) return -1;
                 return kernel_system_calls().io_uring_register(fd, operation, argument, count);
             };
         }},
    step{"enabling the ring", 1,
         [](system_calls& table) {
             table.io_uring_register = [](int fd, unsigned operation, void* argument,
                                          unsigned count) {
                 if (operation == IORING_REGISTER_ENABLE_RINGS && fails_now()) return -1;
                 return kernel_system_calls().io_uring_register(fd, operation, argument, count);
             };
         }},
    step{"no-op", 0,
         [](system_calls& table) {
             table.io_uring_enter = [](int fd, unsigned submit, unsigned wanted, unsigned flags,
                                       const void* argument, std::size_t size) {
                 if (fails_now()) return -1;
                 return kernel_system_calls().io_uring_enter(fd, submit, wanted, flags, argument,
                                                             size);
             };
         }},
};

weft::task<std::size_t> echo_once() {
    auto listener = weft::net::tcp_listener::bind(weft::net::endpoint::parse("127.0.0.1:0"));
    auto client = co_await weft::net::tcp_stream::connect(listener.local_endpoint());
    auto server = co_await listener.accept();
    auto reader = weft::co_spawn([](weft::net::tcp_stream& from) -> weft::task<std::size_t> {
        std::array<std::byte, 8> buffer;
        co_return co_await from.read_some(buffer);
    }(server));
    co_await client.write_all(std::array{std::byte{1}, std::byte{2}});
    co_return co_await std::move(reader);
}

}  // namespace

TEST_CASE("io_uring that fails at any step, with any errno, leads to epoll", "[faults][netpoll]") {
    if (!weft::test::io_uring_starts()) {
        WEFT_SKIP("io_uring cannot start here, so that no later step can fail");
    }
    const std::size_t descriptors = weft::test::descriptor_count();
    const std::size_t threads = weft::test::thread_count();
    for (const step& failing : steps) {
        for (const int error : {EPERM, ENOSYS, EINVAL, ENOMEM, EOPNOTSUPP, EMFILE}) {
            if (failing.told != 0 && failing.told != error) continue;
            INFO(failing.name << " fails with errno " << error);
            system_calls table = kernel_system_calls();
            table.mmap = map_and_count;
            table.munmap = unmap_and_count;
            failing.install(table);
            const system_calls before = weft::detail::replace_system_calls(table);
            injected_errno = error;
            std::vector<std::string> lines;
            std::mutex lines_lock;
            weft::runtime_options options{.processors = 2};
            options.log = [&](std::string_view line) {
                const std::lock_guard guard(lines_lock);
                lines.emplace_back(line);
            };
            {
                const weft::test::forced_backend automatic("auto");
                calls_before = failing.calls_before;
                CHECK(weft::run(echo_once(), options) == 2);
                REQUIRE(lines.size() == 1);
                CHECK(lines[0].find(failing.name) != std::string::npos);
                CHECK(lines[0].find(std::system_category().message(error)) != std::string::npos);
            }
            {
                const weft::test::forced_backend forced("io_uring");
                calls_before = failing.calls_before;
                std::error_code code;
                std::string what;
                try {
                    const weft::runtime never(options);
                } catch (const std::system_error& thrown) {
                    code = thrown.code();
                    what = thrown.what();
                }
                CHECK(code == std::error_code(error, std::system_category()));
                CHECK(what.find(failing.name) != std::string::npos);
            }
            CHECK(mapped == 0);
            weft::detail::replace_system_calls(before);
        }
    }
    CHECK(weft::test::descriptor_count() == descriptors);
    CHECK(weft::test::thread_count() == threads);
}

TEST_CASE("rings that were enabled before the fall-back are given back at once",
          "[faults][netpoll]") {
    if (!weft::test::io_uring_starts()) { WEFT_SKIP("io_uring cannot start here"); }
    system_calls table = kernel_system_calls();
    table.io_uring_register = [](int fd, unsigned operation, void* argument, unsigned count) {
        if (operation == IORING_REGISTER_ENABLE_RINGS && fails_now()) return -1;
        const int result = kernel_system_calls().io_uring_register(fd, operation, argument, count);
        // A ring that is registered with a thread stays until the thread ends.
        if (result == 1 && operation == IORING_REGISTER_RING_FDS) ++registered;
        if (result == 1 && operation == IORING_UNREGISTER_RING_FDS) --registered;
        return result;
    };
    const weft::test::replaced_calls replaced(table);
    injected_errno = EPERM;
    registered = 0;
    {
        const weft::test::forced_backend automatic("auto");
        calls_before = 3;
        weft::runtime_options options{.processors = 4};
        options.log = [](std::string_view) {};
        weft::runtime runtime(options);
        CHECK(runtime.statistics().netpoller == "epoll");
        CHECK(registered == 0);
        CHECK(runtime.co_spawn(echo_once()).get() == 2);
    }
    {
        // The calling thread, which is a worker here, does not end either.
        const weft::test::forced_backend forced("io_uring");
        calls_before = 3;
        CHECK_THROWS_AS(weft::run(echo_once(), {.processors = 4}), std::system_error);
        CHECK(registered == 0);
        calls_before = 1'000'000;
        CHECK(weft::run(echo_once(), {.processors = 4}) == 2);
        CHECK(registered == 0);
    }
}

TEST_CASE("an eventfd that cannot be made leads to epoll, or to an error that says so",
          "[faults][netpoll]") {
    const std::size_t descriptors = weft::test::descriptor_count();
    const std::size_t threads = weft::test::thread_count();
    system_calls table = kernel_system_calls();
    table.eventfd = [](unsigned initial, int flags) {
        if (eventfds_refused.fetch_sub(1) <= 0)
            return kernel_system_calls().eventfd(initial, flags);
        errno = injected_errno;
        return -1;
    };
    table.epoll_create1 = [](int flags) {
        if (refused_to_rings_only) eventfds_refused = 0;
        return kernel_system_calls().epoll_create1(flags);
    };
    const weft::test::replaced_calls replaced(table);
    const auto error_of_start = [](const char* backend) {
        const weft::test::forced_backend forced(backend);
        std::pair<std::error_code, std::string> told;
        try {
            const weft::runtime never({.processors = 2, .log = [](std::string_view) {}});
        } catch (const std::system_error& thrown) { told = {thrown.code(), thrown.what()}; }
        return told;
    };
    for (const int error : {EMFILE, ENFILE, ENOMEM, ENODEV, EINVAL, EPERM, ENOSYS}) {
        injected_errno = error;
        const std::error_code code(error, std::system_category());
        for (const char* backend : {"io_uring", "epoll", "auto"}) {
            // Where io_uring cannot start at all, a forced one fails before.
            if (std::string(backend) == "io_uring" && !weft::test::io_uring_starts()) continue;
            INFO("errno " << error << " for ever, " << backend);
            eventfds_refused = 1'000'000;
            const auto [told, what] = error_of_start(backend);
            CHECK(told == code);
            CHECK(what.find("making an eventfd") != std::string::npos);
        }
        if (weft::test::io_uring_starts()) {
            INFO("errno " << error << " for rings only");
            refused_to_rings_only = true;
            eventfds_refused = 1'000'000;
            std::vector<std::string> lines;
            weft::runtime_options options{.processors = 2};
            options.log = [&](std::string_view line) { lines.emplace_back(line); };
            const weft::test::forced_backend automatic("auto");
            CHECK(weft::run(echo_once(), options) == 2);
            REQUIRE(lines.size() == 1);
            CHECK(lines[0].find("making an eventfd") != std::string::npos);
            CHECK(lines[0].find("using epoll") != std::string::npos);
        }
        eventfds_refused = 0;
        refused_to_rings_only = false;
    }
    CHECK(weft::test::descriptor_count() == descriptors);
    CHECK(weft::test::thread_count() == threads);
}

TEST_CASE("a filter that forbids io_uring_enter alone leads to epoll", "[faults][netpoll]") {
    const auto result = weft::test::run_in_child([] {
        sock_filter program[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_enter, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const sock_fprog filter{.len = 4, .filter = program};
        weft::test::child_check(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
        weft::test::child_check(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0,
                                "the filter is refused");
        const weft::test::forced_backend automatic("auto");
        weft::test::child_check(weft::run(echo_once(), {.processors = 2}) == 2, "no echo");
    });
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
    CHECK(result.errors.find("using epoll") != std::string::npos);
}

TEST_CASE("an unprivileged user with little locked memory starts, on whichever netpoller",
          "[faults][netpoll]") {
    if (::getuid() != 0) { WEFT_SKIP("only root can become somebody else"); }
    const auto result = weft::test::run_in_child([] {
        const rlimit limit{.rlim_cur = 64 * 1024, .rlim_max = 64 * 1024};
        weft::test::child_check(::setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "setrlimit");
        weft::test::become_another_user();
        const weft::test::forced_backend automatic("auto");
        for (int i = 0; i < 10; ++i) {
            weft::test::child_check(weft::run(echo_once(), {.processors = 4}) == 2, "no echo");
        }
    });
    INFO(result.describe());
    CHECK(result.signal == 0);
    CHECK(result.status == 0);
}

TEST_CASE("runtimes that come and go leak no descriptor and no thread", "[faults][netpoll]") {
    const std::size_t rounds = weft::test::scaled_count(100, 1000);
    for (const char* backend : weft::test::backends()) {
        INFO("netpoll: " << backend);
        CHECK(weft::test::run_on(backend, echo_once()) ==
              2);  // What is kept for good is made here.
        const std::size_t descriptors = weft::test::descriptor_count();
        const std::size_t threads = weft::test::thread_count();
        for (std::size_t i = 0; i < rounds; ++i) {
            REQUIRE(weft::test::run_on(backend, echo_once()) == 2);
        }
        CHECK(weft::test::descriptor_count() == descriptors);
        CHECK(weft::test::thread_count() == threads);
    }
}
