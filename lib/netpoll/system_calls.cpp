// SPDX-License-Identifier: MIT
#include "lib/netpoll/system_calls.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weft::detail {

namespace {

int call_io_uring_setup(unsigned entries, io_uring_params* parameters) {
    return static_cast<int>(::syscall(__NR_io_uring_setup, entries, parameters));
}

[[gnu::hot]]
int call_io_uring_enter(int fd, unsigned to_submit, unsigned min_complete, unsigned flags,
                        const void* argument, std::size_t size) {
    return static_cast<int>(
        ::syscall(__NR_io_uring_enter, fd, to_submit, min_complete, flags, argument, size));
}

int call_io_uring_register(int fd, unsigned operation, void* argument, unsigned count) {
    return static_cast<int>(::syscall(__NR_io_uring_register, fd, operation, argument, count));
}

/// By number, since the C library of an older system lacks the function where the kernel has it.
int call_epoll_pwait2(int epoll_fd, epoll_event* events, int capacity, const timespec* timeout) {
#ifdef __NR_epoll_pwait2
    return static_cast<int>(
        ::syscall(__NR_epoll_pwait2, epoll_fd, events, capacity, timeout, nullptr, 0));
#else
    static_cast<void>(epoll_fd);
    static_cast<void>(events);
    static_cast<void>(capacity);
    static_cast<void>(timeout);
    errno = ENOSYS;
    return -1;
#endif
}

int call_get_status_flags(int fd) {
    return ::fcntl(fd, F_GETFL);
}
int call_set_status_flags(int fd, int flags) {
    return ::fcntl(fd, F_SETFL, flags);
}

// Some functions of the C library have a noexcept type or take a transparent union for the address;
// a pointer to a function of the plain type takes both.
constexpr system_calls kernel_table = {
    .io_uring_setup = call_io_uring_setup,
    .io_uring_enter = call_io_uring_enter,
    .io_uring_register = call_io_uring_register,
    .mmap = ::mmap,
    .munmap = ::munmap,
    .madvise = ::madvise,
    .epoll_create1 = ::epoll_create1,
    .epoll_ctl = ::epoll_ctl,
    .epoll_wait = ::epoll_wait,
    .epoll_pwait2 = call_epoll_pwait2,
    .poll = ::poll,
    .eventfd = ::eventfd,
    .read = ::read,
    .write = ::write,
    .socket = ::socket,
    .bind = ::bind,
    .listen = ::listen,
    .accept4 = ::accept4,
    .connect = ::connect,
    .recv = ::recv,
    .send = ::send,
    .recvmsg = ::recvmsg,
    .sendmsg = ::sendmsg,
    .shutdown = ::shutdown,
    .close = ::close,
    .getsockopt = ::getsockopt,
    .setsockopt = ::setsockopt,
    .getsockname = ::getsockname,
    .getpeername = ::getpeername,
    .get_status_flags = call_get_status_flags,
    .set_status_flags = call_set_status_flags,
};

}  // namespace

constinit system_calls active_system_calls = kernel_table;

const system_calls& kernel_system_calls() noexcept {
    return kernel_table;
}

system_calls replace_system_calls(const system_calls& replacement) noexcept {
    return std::exchange(active_system_calls, replacement);
}

}  // namespace weft::detail
