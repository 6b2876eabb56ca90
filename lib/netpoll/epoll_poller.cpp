// SPDX-License-Identifier: MIT
#include "lib/netpoll/epoll_poller.hpp"

#include "lib/netpoll/descriptor_table.hpp"
#include "lib/netpoll/system_calls.hpp"

#include <weft/detail/base/assert.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

namespace weft::detail {

namespace {

/// The cookie of the bell. No descriptor has it: its slot would have 32 bits.
constexpr std::uint64_t doorbell_cookie = ~std::uint64_t{0};

std::uint64_t cookie_of(const poll_descriptor& descriptor) noexcept {
    return (std::uint64_t{descriptor.generation()} << 32) | descriptor.slot();
}

/// Events taken with one call.
constexpr int batch = 128;

}  // namespace

epoll_set::~epoll_set() {
    end_all_polls();
    await_visitors();
    if (doorbell_ >= 0) sys().close(doorbell_);
    if (fd_ >= 0) sys().close(fd_);
}

/// The runtime has ended. Streams that outlive it are told that nobody watches them here any more;
/// their next operation, in another runtime, arms anew.
void epoll_set::end_all_polls() noexcept {
    branch_list readied;
    // A closer or an operation of another runtime may be about to end one of them itself.
    while (unreleased_.load(std::memory_order_acquire) != 0) {
        for (std::uint32_t slot = 0; slot < descriptors.size(); ++slot) {
            const unsigned ended = descriptors.at(slot).end_polls_at(home_index(), readied);
            unreleased_.fetch_sub(ended, std::memory_order_relaxed);
        }
        ::sched_yield();
    }
    ready_each(readied);
}

start_result epoll_set::set_up() noexcept {
    fd_ = sys().epoll_create1(EPOLL_CLOEXEC);
    if (fd_ < 0) return {errno, "epoll_create1"};
    doorbell_ = sys().eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (doorbell_ < 0) return {errno, "making an eventfd"};
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = doorbell_cookie;
    if (sys().epoll_ctl(fd_, EPOLL_CTL_ADD, doorbell_, &event) < 0) {
        return {errno, "adding the eventfd to the epoll set"};
    }
    return {};
}

int epoll_set::add(poll_record& record) noexcept {
    poll_descriptor& descriptor = descriptors.at(record.slot());
    // A closer may have ended this poll already, and the count pass below zero for a moment.
    // Relaxed: it is looked at when the runtime has ended.
    unreleased_.fetch_add(1, std::memory_order_relaxed);
    used_.store(true, std::memory_order_relaxed);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.u64 = cookie_of(descriptor);
    int result = sys().epoll_ctl(fd_, EPOLL_CTL_ADD, descriptor.fd(), &event);
    // The other direction has registered it. Saying it again reports what is ready now.
    if (result < 0 && errno == EEXIST) {
        result = sys().epoll_ctl(fd_, EPOLL_CTL_MOD, descriptor.fd(), &event);
    }
    if (result < 0) return errno;
    // A closer that came before the registration found nothing to remove. Either it sees the
    // registration, or we see its mark.
    if (descriptor.closing()) sys().epoll_ctl(fd_, EPOLL_CTL_DEL, descriptor.fd(), nullptr);
    return 0;
}

bool epoll_set::cancel(const poll_name& poll, poll_record& record, cancel_reason why,
                       branch_list& readied) noexcept {
    poll_descriptor& descriptor = descriptors.at(record.slot());
    // Explicitly, since close(2) removes it only when no copy of the descriptor is left, perhaps in
    // a child process. ENOENT: the other direction did it. A poll that has moved to another runtime
    // leaves the registration, which the other direction may need; its events are harmless.
    if (why == cancel_reason::closing) {
        sys().epoll_ctl(fd_, EPOLL_CTL_DEL, descriptor.fd(), nullptr);
    }
    if (descriptor.end_poll(record.which(), poll, why, readied)) {
        // Release pairs with end_all_polls(): the set may go when the count is 0.
        unreleased_.fetch_sub(1, std::memory_order_release);
    }
    return true;
}

int epoll_set::wait_for_events(epoll_event* events, int capacity,
                               monotonic_time deadline) noexcept {
    if (deadline == 0) return sys().epoll_wait(fd_, events, capacity, 0);
    constexpr monotonic_time second = 1'000'000'000;
    const monotonic_time left = deadline == no_deadline
                                    ? no_deadline
                                    : std::max<monotonic_time>(deadline - monotonic_now(), 0);
    // Relaxed: whoever does not know yet finds out by itself.
    if (has_pwait2_.load(std::memory_order_relaxed)) {
        const timespec timeout{.tv_sec = left / second, .tv_nsec = left % second};
        const int count =
            sys().epoll_pwait2(fd_, events, capacity, left == no_deadline ? nullptr : &timeout);
        // Absent before Linux 5.11; filters of containers that do not know it answer EPERM.
        if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
        has_pwait2_.store(false, std::memory_order_relaxed);
    }
    if (left == no_deadline) return sys().epoll_wait(fd_, events, capacity, -1);
    const monotonic_time milliseconds = (left + 999'999) / 1'000'000;
    return sys().epoll_wait(fd_, events, capacity,
                            static_cast<int>(std::min<monotonic_time>(milliseconds, INT_MAX)));
}

bool epoll_set::take_events(monotonic_time deadline, branch_list& readied) noexcept {
    std::array<epoll_event, batch> events;
    const int count = wait_for_events(events.data(), batch, deadline);
    if (count < 0) {
        if (errno == EINTR) return false;
        std::array<char, 160> text;
        std::snprintf(text.data(), text.size(),
                      "waiting for the epoll set failed: %s (errno %d); close only descriptors "
                      "that you own",
                      std::strerror(errno), errno);
        fatal(text.data());
    }
    bool bell = false;
    for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        if (event.data.u64 == doorbell_cookie) {
            bell = true;
            continue;
        }
        const auto slot = static_cast<std::uint32_t>(event.data.u64);
        poll_descriptor& descriptor = descriptors.at(slot);
        // A descriptor that was closed after the kernel reported it, perhaps alive again. If it is
        // closed between this and the notification, that is one false wake-up.
        if (cookie_of(descriptor) != event.data.u64) continue;
        constexpr std::uint32_t both = EPOLLHUP | EPOLLERR;
        if ((event.events & (EPOLLIN | EPOLLRDHUP | both)) != 0) {
            const bool hung_up = (event.events & (EPOLLRDHUP | both)) != 0;
            descriptor.notify(direction::read, hung_up, readied);
        }
        if ((event.events & (EPOLLOUT | both)) != 0) {
            descriptor.notify(direction::write, false, readied);
        }
    }
    return bell;
}

void epoll_set::ring_doorbell() noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = sys().write(doorbell_, &one, sizeof(one));
    WEFT_ASSERT(written == sizeof(one));
}

void epoll_set::silence_doorbell() noexcept {
    std::uint64_t count = 0;
    // EAGAIN: another waiter was faster.
    [[maybe_unused]] const auto taken = sys().read(doorbell_, &count, sizeof(count));
}

// The set itself is readable while its list of events is not empty, which this does not change.
bool epoll_set::has_events() const noexcept {
    pollfd asked{.fd = fd_, .events = POLLIN, .revents = 0};
    return sys().poll(&asked, 1, 0) == 1;  // 0: no. -1: interrupted, or out of memory; ask later.
}

void epoll_set::add_poller(bell_word<layer>& word) {
    // Nobody else changes the list; memory is allocated and freed without the lock.
    std::vector<bell_word<layer>*> grown;
    grown.reserve(words_.size() + 1);
    grown.assign(words_.begin(), words_.end());
    grown.push_back(&word);
    const std::lock_guard held(words_lock_);
    words_.swap(grown);
}

void epoll_set::remove_poller(bell_word<layer>& word) noexcept {
    const std::lock_guard held(words_lock_);
    std::erase(words_, &word);
}

void epoll_set::pass_doorbell_on() noexcept {
    const auto expects = [](bell_word<layer>* each) { return each->expects_bell(); };
    {
        const std::lock_guard held(words_lock_);
        if (std::none_of(words_.begin(), words_.end(), expects)) return;
    }
    ring_doorbell();
    layer::yield_thread();  // Whoever is meant may need this processor.
}

bool epoll_poller::begin_sleep() noexcept {
    seated_ = set_.seats.sit_down();
    return seated_;
}

void epoll_poller::end_sleep() noexcept {
    if (std::exchange(seated_, false)) set_.seats.leave();
}

void epoll_poller::wake() noexcept {
    if (word_.wake()) set_.ring_doorbell();
}

[[gnu::hot]]
void epoll_poller::poll(branch_list& readied, poll_extent) noexcept {
    if (set_.used()) set_.take_events(0, readied);
}

[[gnu::hot]]
void epoll_poller::wait(monotonic_time deadline, branch_list& readied) noexcept {
    if (!word_.enter()) {
        poll(readied, poll_extent::many);
        return;
    }
    const bool bell = set_.take_events(std::max<monotonic_time>(deadline, 1), readied);
    if (bell) set_.silence_doorbell();
    word_.leave();
    if (bell) set_.pass_doorbell_on();
}

}  // namespace weft::detail
