// SPDX-License-Identifier: MIT
//
// A running ring that fails: each errno of io_uring_enter, completions that are dropped, and
// completions that are older than what they name. Nothing is lost and nothing is retried for ever.
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/network.hpp"
#include "support/scheduler.hpp"
#include "support/skip.hpp"

#include "lib/netpoll/descriptor_table.hpp"
#include "lib/netpoll/ring_poller.hpp"

#include <weft/as_result.hpp>
#include <weft/error.hpp>
#include <weft/sleep.hpp>
#include <weft/yield.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>

using namespace std::chrono_literals;
using weft::detail::kernel_system_calls;
using weft::detail::system_calls;
using weft::net::tcp_stream;
using weft::test::child_check;
using weft::test::stream_pair;

namespace {

bool has_io_uring() {
    return weft::test::backends().size() == 2;
}

/// The completion queue of a ring, mapped once more.
class completion_queue {
public:
    void map(int fd, const io_uring_params& parameters) {
        size_ = parameters.cq_off.cqes + parameters.cq_entries * sizeof(io_uring_cqe);
        void* const memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQ_RING);
        if (memory == MAP_FAILED) return;
        memory_ = static_cast<std::byte*>(memory);
        head_ = reinterpret_cast<unsigned*>(memory_ + parameters.cq_off.head);
        tail_ = reinterpret_cast<unsigned*>(memory_ + parameters.cq_off.tail);
        completions_ = reinterpret_cast<io_uring_cqe*>(memory_ + parameters.cq_off.cqes);
        mask_ = parameters.cq_entries - 1;
    }
    void unmap() {
        if (memory_ != nullptr) ::munmap(memory_, size_);
        memory_ = nullptr;
    }

    /// What is there is gone. By the owner of the ring. How many were there? Those of gathered
    /// sends are kept, as the kernel would (ring_poller.hpp), or dropped as well.
    unsigned drop_all(bool sends_too) {
        if (memory_ == nullptr) return 0;
        const std::atomic_ref head(*head_);
        const unsigned begin = head.load(std::memory_order_relaxed);
        const unsigned tail = std::atomic_ref(*tail_).load(std::memory_order_acquire);
        unsigned kept_from = tail;
        for (unsigned at = tail; at != begin && !sends_too;) {
            --at;
            const io_uring_cqe& each = completions_[at & mask_];
            if (each.user_data >> 60 != 4) continue;
            --kept_from;
            completions_[kept_from & mask_] = each;
        }
        head.store(kept_from, std::memory_order_release);
        return kept_from - begin;
    }

private:
    std::byte* memory_ = nullptr;
    std::size_t size_ = 0;
    unsigned* head_ = nullptr;
    unsigned* tail_ = nullptr;
    io_uring_cqe* completions_ = nullptr;
    unsigned mask_ = 0;
};

std::array<completion_queue, 4096> queues;  // By the number of the ring.

// What io_uring_enter does to those who call it.
std::atomic<bool> active{false};
std::atomic<int> injected{0};
std::atomic<unsigned> period{1};
std::atomic<unsigned> entered{0};
std::atomic<unsigned> failed{0};
std::atomic<unsigned> dropped{0};
std::atomic<bool> drops_sends{false};
std::atomic<int> refusals{0};

int faulty_enter(int fd, unsigned submit, unsigned wanted, unsigned flags, const void* argument,
                 std::size_t size) {
    const bool fails = active && ++entered % period == 0;
    if (!fails) {
        return kernel_system_calls().io_uring_enter(fd, submit, wanted, flags, argument, size);
    }
    if (injected == EBADR) {
        // A kernel without memory for completions: it has done what was asked, and cannot tell.
        kernel_system_calls().io_uring_enter(fd, submit, 0, flags & ~IORING_ENTER_EXT_ARG, nullptr,
                                             0);
        dropped += queues.at(static_cast<std::size_t>(fd)).drop_all(drops_sends);
    }
    ++failed;
    errno = injected;
    return -1;
}

system_calls faulty_calls() {
    system_calls table = kernel_system_calls();
    table.io_uring_setup = [](unsigned entries, io_uring_params* parameters) {
        const int fd = kernel_system_calls().io_uring_setup(entries, parameters);
        if (fd >= 0) queues.at(static_cast<std::size_t>(fd)).map(fd, *parameters);
        return fd;
    };
    table.io_uring_register = [](int fd, unsigned operation, void* argument, unsigned count) {
        if (operation == IORING_REGISTER_RING_FDS) {  // So that enter is told the number itself.
            errno = EINVAL;
            return -1;
        }
        return kernel_system_calls().io_uring_register(fd, operation, argument, count);
    };
    table.io_uring_enter = faulty_enter;
    return table;
}

/// Makes every n-th enter fail, on whatever thread, while it lives.
class failing_enter {
public:
    failing_enter(int error, unsigned every) {
        injected = error;
        period = every;
        entered = failed = dropped = 0;
        active = true;
    }
    failing_enter(const failing_enter&) = delete;
    failing_enter& operator=(const failing_enter&) = delete;
    ~failing_enter() { active = false; }
};

weft::task<> echo(tcp_stream& on) {
    std::array<std::byte, 64> buffer;
    while (const std::size_t count = co_await on.read_some(buffer)) {
        co_await on.write_all(std::span(buffer).first(count));
    }
}

weft::task<std::size_t> talk(tcp_stream& on, std::size_t rounds) {
    std::size_t right = 0;
    for (std::size_t i = 0; i < rounds; ++i) {
        const std::array sent{static_cast<std::byte>(i), static_cast<std::byte>(i >> 8)};
        std::array<std::byte, 2> got{};
        co_await on.write_all(sent);
        co_await on.read_exact(got);
        if (got == sent) ++right;
        // Workers park, so that they are woken through their bells too.
        if (i % 16 == 0) co_await weft::sleep_for(200us);
    }
    on.shutdown_write();
    co_return right;
}

weft::task<> work_while_failing(int error, unsigned every, std::size_t rounds) {
    std::vector<stream_pair> pairs;
    for (int i = 0; i < 8; ++i) pairs.push_back(co_await weft::test::connected_pair());
    const failing_enter failing(error, every);
    std::vector<weft::join_handle<void>> servers;
    std::vector<weft::join_handle<std::size_t>> clients;
    for (auto& each : pairs) {
        servers.push_back(weft::co_spawn(echo(each.server)));
        clients.push_back(weft::co_spawn(talk(each.client, rounds)));
    }
    for (auto& each : clients) {
        const std::size_t right = co_await std::move(each);
        CHECK(right == rounds);
    }
    for (auto& each : servers) co_await std::move(each);
    CHECK(failed > 0);
}

void run_on_rings(weft::task<> main, unsigned processors = 2) {
    const weft::test::watchdog dog(60s, [] {
        return "errno " + std::to_string(injected) + ", entered " + std::to_string(entered) +
               ", failed " + std::to_string(failed);
    });
    weft::test::run_on("io_uring", std::move(main), processors);
    for (auto& each : queues) each.unmap();
}

/// From now on every enter fails; the task waits for something that needs one.
weft::task<> fail_for_ever(int error) {
    stream_pair both = co_await weft::test::connected_pair();
    const failing_enter failing(error, 1);
    std::array<std::byte, 1> one;
    co_await both.server.read_some(one);
}

/// The kernel refuses for some time; the work goes on after that.
weft::task<> fail_for_a_while(int error) {
    stream_pair both = co_await weft::test::connected_pair();
    auto server = weft::co_spawn(echo(both.server));
    auto client = weft::co_spawn(talk(both.client, 50));
    {
        const failing_enter failing(error, 1);
        // Timers go on, and the workers do not burn their processors: they ask a few times in each
        // millisecond.
        co_await weft::sleep_for(200ms);
        if (error != EINTR) child_check(failed < 20'000, "the kernel was asked all the time");
    }
    const std::size_t right = co_await std::move(client);
    child_check(right == 50, "something was lost");
    co_await std::move(server);
}

}  // namespace

TEST_CASE("a ring that refuses to be entered now and then loses nothing", "[faults][netpoll]") {
    if (!has_io_uring()) {
        WEFT_SKIP("this run is not to use io_uring, or cannot");
    }
    const weft::test::replaced_calls faulty(faulty_calls());
    for (const int error : {EINTR, EAGAIN, EBUSY, ENOMEM}) {
        for (const unsigned every : {2U, 7U}) {
            INFO("errno " << error << ", every " << every);
            run_on_rings(work_while_failing(error, every, 200));
        }
    }
}

TEST_CASE("a ring that drops its completions now and then loses nothing", "[faults][netpoll]") {
    if (!has_io_uring()) {
        WEFT_SKIP("this run is not to use io_uring, or cannot");
    }
    const weft::test::replaced_calls faulty(faulty_calls());
    for (const unsigned every : {5U, 23U}) {
        INFO("every " << every);
        run_on_rings(work_while_failing(EBADR, every, 200));
        CHECK(dropped > 0);
    }
}

namespace {

/// Each of several tasks sends a byte, and is told that it is not known whether it was sent.
weft::task<> send_while_dropping() {
    std::vector<stream_pair> pairs;
    for (int i = 0; i < 8; ++i) pairs.push_back(co_await weft::test::connected_pair());
    std::vector<weft::join_handle<std::error_code>> sending;
    const auto send = [](tcp_stream& to) -> weft::task<std::error_code> {
        const auto sent = co_await weft::as_result(to.write_all(std::array{std::byte{1}}));
        co_return sent ? std::error_code() : sent.error();
    };
    for (auto& each : pairs) sending.push_back(weft::co_spawn(send(each.client)));
    {
        const failing_enter failing(EBADR, 2);
        entered = 1;  // The next one fails, which hands over what the tasks send.
        drops_sends = true;
        for (auto& each : sending) {
            const std::error_code error = co_await std::move(each);
            CHECK((!error || error == std::error_code(EBADR, std::system_category())));
            if (error) ++refusals;
        }
        drops_sends = false;
    }
    // They were sent all the same, once.
    for (auto& each : pairs) {
        each.client.shutdown_write();
        std::array<std::byte, 2> got{};
        const std::size_t count = co_await each.server.read_some(got);
        CHECK(count == 1);
    }
}

}  // namespace

TEST_CASE("a gathered send whose completion is dropped fails, and is not repeated",
          "[faults][netpoll]") {
    if (!has_io_uring()) {
        WEFT_SKIP("this run is not to use io_uring, or cannot");
    }
    const weft::test::replaced_calls faulty(faulty_calls());
    refusals = 0;
    for (int i = 0; i < 100 && refusals == 0; ++i) run_on_rings(send_while_dropping(), 1);
    CHECK(refusals > 0);
}

namespace {

/// The handler of the rescue signal enters the ring, learns that completions were dropped, and the
/// kernel says that once only.
weft::task<> lose_to_the_handler() {
    stream_pair both = co_await weft::test::connected_pair();
    for (int round = 0; round < 20; ++round) {
        auto reader = weft::co_spawn([](tcp_stream& from) -> weft::task<std::size_t> {
            std::array<std::byte, 8> buffer;
            co_return co_await from.read_some(buffer);
        }(both.server));
        co_await weft::sleep_for(200us);  // Its poll is in the kernel.
        co_await both.client.write_all(std::array{std::byte{1}});
        {
            const failing_enter failing(EBADR, 1);
            ::pthread_kill(::pthread_self(), SIGURG);
            CHECK(failed == 1);
        }
        const std::size_t count = co_await std::move(reader);
        CHECK(count == 1);
    }
}

}  // namespace

TEST_CASE("completions that are dropped while a signal handler enters the ring are noticed",
          "[faults][netpoll]") {
    if (!has_io_uring()) {
        WEFT_SKIP("this run is not to use io_uring, or cannot");
    }
    const weft::test::replaced_calls faulty(faulty_calls());
    run_on_rings(lose_to_the_handler(), 1);
}

TEST_CASE("a ring that refuses for a while goes on, one that refuses for ever ends the process",
          "[faults][netpoll]") {
    if (!has_io_uring()) {
        WEFT_SKIP("this run is not to use io_uring, or cannot");
    }
    const weft::test::replaced_calls faulty(faulty_calls());
    for (const int error : {EINTR, EAGAIN, EBUSY, ENOMEM}) {
        const auto result = weft::test::run_in_child([=] {
            weft::detail::ring_poller::set_patience(20s);
            run_on_rings(fail_for_a_while(error));
        });
        INFO("errno " << error << ", for a while: " << result.describe());
        CHECK(result.signal == 0);
        CHECK(result.status == 0);
    }
    for (const int error : {EAGAIN, EBUSY, ENOMEM, EBADR}) {
        const auto result = weft::test::run_in_child([=] {
            weft::detail::ring_poller::set_patience(200ms);
            run_on_rings(fail_for_ever(error), 1);
        });
        INFO("errno " << error << ", for ever: " << result.describe());
        CHECK(result.aborted_with("io_uring_enter has failed for"));
        CHECK(result.aborted_with("(errno " + std::to_string(error) + ")"));
    }
    // What cannot become better is not tried again.
    for (const int error : {EPERM, EACCES, EBADF, EBADFD, EINVAL, EEXIST, EFAULT, EOPNOTSUPP}) {
        const auto result =
            weft::test::run_in_child([=] { run_on_rings(fail_for_ever(error), 1); });
        INFO("errno " << error << ": " << result.describe());
        CHECK(result.aborted_with("io_uring_enter failed"));
        CHECK(result.aborted_with("(errno " + std::to_string(error) + ")"));
    }
}

namespace {

/// Puts a completion into another ring, as if it came from one of its polls.
class forger {
public:
    forger() { REQUIRE(::io_uring_queue_init(4, &ring_, 0) == 0); }
    forger(const forger&) = delete;
    forger& operator=(const forger&) = delete;
    ~forger() { ::io_uring_queue_exit(&ring_); }

    /// 0 or an errno.
    int post(int to, std::uint64_t user_data, unsigned result) {
        io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
        ::io_uring_prep_msg_ring(entry, to, result, user_data, 0);
        if (const int count = ::io_uring_submit_and_wait(&ring_, 1); count < 0) return -count;
        io_uring_cqe* done = nullptr;
        if (const int failure = ::io_uring_wait_cqe(&ring_, &done); failure < 0) return -failure;
        const int posted = done->res;
        ::io_uring_cqe_seen(&ring_, done);
        return posted < 0 ? -posted : 0;
    }

private:
    io_uring ring_{};
};

/// The name of a poll as the ring knows it (ring_poller.cpp).
std::uint64_t user_data_of(const weft::detail::poll_record& record, std::uint32_t sequence) {
    return (std::uint64_t{record.self - 1} << 32) | sequence;
}

/// The polls that the only worker has in its ring.
std::vector<const weft::detail::poll_record*> polls_in_kernel() {
    std::vector<const weft::detail::poll_record*> found;
    for (std::uint32_t ref = 1; ref <= weft::detail::descriptors.size() * 4; ++ref) {
        const weft::detail::poll_record& record = weft::detail::descriptors.record(ref);
        if (record.in_kernel) found.push_back(&record);
    }
    return found;
}

weft::task<> forge_old_completions() {
    auto& poller = static_cast<weft::detail::ring_poller&>(weft::test::this_worker().io());
    const int ring = poller.ring().fd();
    forger forges;
    stream_pair both = co_await weft::test::connected_pair();
    for (int round = 0; round < 5; ++round) {
        auto reader = weft::co_spawn([](tcp_stream& from) -> weft::task<std::size_t> {
            std::array<std::byte, 8> buffer;
            co_return co_await from.read_some(buffer);
        }(both.server));
        co_await weft::sleep_for(1ms);
        const auto polls = polls_in_kernel();
        REQUIRE(polls.size() == 1);
        const std::size_t unreleased = poller.unreleased();
        const std::uint32_t sequence = polls[0]->sequence;
        // Of an earlier poll of the same record: readable, an error, the end of it.
        for (const std::uint32_t old : {sequence - 1, sequence - 2, sequence + 1, 0U}) {
            for (const unsigned result : {unsigned{POLLIN}, static_cast<unsigned>(-ECANCELED),
                                          static_cast<unsigned>(-EBADF)}) {
                const int error = forges.post(ring, user_data_of(*polls[0], old), result);
                REQUIRE(error == 0);
            }
        }
        // Of a record that has no poll at all, and of nothing that weft ever asks for.
        const weft::detail::poll_record& unused = weft::detail::descriptors.record(
            polls[0]->self % 4 == 1 ? polls[0]->self + 2 : polls[0]->self + 1);
        REQUIRE(forges.post(ring, user_data_of(unused, unused.sequence), POLLIN) == 0);
        REQUIRE(forges.post(ring, ~std::uint64_t{0} - 7, 1) == 0);
        co_await weft::sleep_for(2ms);
        CHECK_FALSE(reader.done());
        CHECK(poller.unreleased() == unreleased);
        CHECK(polls[0]->in_kernel);
        CHECK(polls[0]->sequence == sequence);
        co_await both.client.write_all(std::array{std::byte{1}});
        const std::size_t count = co_await std::move(reader);
        CHECK(count == 1);
    }
}

}  // namespace

TEST_CASE("row 24: a completion of an earlier poll is ignored", "[faults][netpoll]") {
    if (!has_io_uring()) {
        WEFT_SKIP("this run is not to use io_uring, or cannot");
    }
    run_on_rings(forge_old_completions(), 1);
}

TEST_CASE("a descriptor that a running epoll set refuses fails its operation with that errno",
          "[faults][netpoll]") {
    system_calls table = kernel_system_calls();
    table.epoll_ctl = [](int set, int operation, int fd, epoll_event* event) {
        if (active && operation == EPOLL_CTL_ADD && refusals.fetch_sub(1) > 0) {
            errno = injected;
            return -1;
        }
        return kernel_system_calls().epoll_ctl(set, operation, fd, event);
    };
    table.epoll_wait = [](int set, epoll_event* events, int capacity, int timeout) {
        if (active && ++entered % 3 == 0) {
            errno = EINTR;
            return -1;
        }
        return kernel_system_calls().epoll_wait(set, events, capacity, timeout);
    };
    table.epoll_pwait2 = [](int set, epoll_event* events, int capacity, const timespec* timeout) {
        if (active && ++entered % 3 == 0) {
            errno = EINTR;
            return -1;
        }
        return kernel_system_calls().epoll_pwait2(set, events, capacity, timeout);
    };
    const weft::test::replaced_calls replaced(table);
    const auto main = [](int error) -> weft::task<> {
        stream_pair both = co_await weft::test::connected_pair();
        const failing_enter failing(error, 1);
        refusals = 1;
        std::array<std::byte, 1> one;
        const auto refused = co_await weft::as_result(both.server.read_some(one));
        CHECK((!refused && refused.error() == std::error_code(error, std::system_category())));
        // The next one registers it.
        auto reader = weft::co_spawn(talk(both.client, 20));
        co_await echo(both.server);
        const std::size_t right = co_await std::move(reader);
        CHECK(right == 20);
    };
    for (const int error : {ENOMEM, ENOSPC, EPERM, EBADF, EINVAL}) {
        INFO("errno " << error);
        const weft::test::watchdog dog(60s, [] { return std::string("epoll"); });
        weft::test::run_on("epoll", main(error));
    }
}
