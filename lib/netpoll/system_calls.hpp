// SPDX-License-Identifier: MIT
//
// The one table of system calls of the netpoller and of everything that stands on it.
//
// Nothing in lib/netpoll/ and lib/net/ calls the kernel but through this table, so that a test can
// give any errno and any short transfer at any call. Every entry behaves as the function of the C
// library of that name: -1 and errno for a failure. The three entries of io_uring, which the C
// library lacks, follow the same convention.
//
// The table is replaced before a runtime starts and put back after it has ended. While one runs it
// is only read, so it needs no lock and no atomics: the start of a thread orders the rest.
#pragma once

#include <cstddef>
#include <ctime>

#include <sys/socket.h>
#include <sys/types.h>

struct epoll_event;
struct io_uring_params;
struct pollfd;

namespace weft::detail {

struct system_calls {
    int (*io_uring_setup)(unsigned entries, io_uring_params* parameters);
    int (*io_uring_enter)(int fd, unsigned to_submit, unsigned min_complete, unsigned flags,
                          const void* argument, std::size_t size);
    int (*io_uring_register)(int fd, unsigned operation, void* argument, unsigned count);

    /// Maps memory of a descriptor, as a ring shares it with the kernel. MAP_FAILED and errno.
    void* (*mmap)(void* address, std::size_t size, int protection, int flags, int fd, off_t offset);
    int (*munmap)(void* address, std::size_t size);
    int (*madvise)(void* address, std::size_t size, int advice);

    int (*epoll_create1)(int flags);
    int (*epoll_ctl)(int epoll_fd, int operation, int fd, epoll_event* event);
    int (*epoll_wait)(int epoll_fd, epoll_event* events, int capacity, int milliseconds);
    /// A null timeout waits without end.
    int (*epoll_pwait2)(int epoll_fd, epoll_event* events, int capacity, const timespec* timeout);

    int (*poll)(pollfd* asked, unsigned long count, int milliseconds);

    int (*eventfd)(unsigned initial, int flags);
    ssize_t (*read)(int fd, void* buffer, std::size_t size);
    ssize_t (*write)(int fd, const void* buffer, std::size_t size);

    int (*socket)(int domain, int type, int protocol);
    int (*bind)(int fd, const sockaddr* address, socklen_t size);
    int (*listen)(int fd, int backlog);
    int (*accept4)(int fd, sockaddr* address, socklen_t* size, int flags);
    int (*connect)(int fd, const sockaddr* address, socklen_t size);
    ssize_t (*recv)(int fd, void* buffer, std::size_t size, int flags);
    ssize_t (*send)(int fd, const void* buffer, std::size_t size, int flags);
    ssize_t (*recvmsg)(int fd, msghdr* message, int flags);
    ssize_t (*sendmsg)(int fd, const msghdr* message, int flags);
    int (*shutdown)(int fd, int how);
    int (*close)(int fd);
    int (*getsockopt)(int fd, int level, int name, void* value, socklen_t* size);
    int (*setsockopt)(int fd, int level, int name, const void* value, socklen_t size);
    int (*getsockname)(int fd, sockaddr* address, socklen_t* size);
    int (*getpeername)(int fd, sockaddr* address, socklen_t* size);
    int (*get_status_flags)(int fd);             ///< fcntl(F_GETFL)
    int (*set_status_flags)(int fd, int flags);  ///< fcntl(F_SETFL)
};

/// The entries that go to the kernel.
const system_calls& kernel_system_calls() noexcept;

/// The table in use; written by replace_system_calls only.
extern system_calls active_system_calls;

/// What the netpoller calls.
inline const system_calls& sys() noexcept {
    return active_system_calls;
}

/// For tests, while no runtime exists: puts another table in the place of the one in use, which is
/// returned.
system_calls replace_system_calls(const system_calls& replacement) noexcept;

}  // namespace weft::detail
