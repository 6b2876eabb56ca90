// SPDX-License-Identifier: MIT
//
// without_io_uring PROGRAM [ARGUMENT...]: runs a program, and all that it starts, in a kernel that
// answers EPERM to every system call of io_uring, as the filters of containers do.
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

int fail(const char* what) {
    std::fprintf(stderr, "without_io_uring: %s: %s\n", what, std::strerror(errno));
    return 126;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: without_io_uring PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    // The three numbers follow each other, and are the same on every architecture.
    static_assert(__NR_io_uring_setup + 2 == __NR_io_uring_register);
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, __NR_io_uring_setup, 0, 2),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, __NR_io_uring_register, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter{.len = sizeof(program) / sizeof(*program), .filter = program};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail("PR_SET_NO_NEW_PRIVS");
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return fail("PR_SET_SECCOMP");
    if (::syscall(__NR_io_uring_setup, 0, nullptr) != -1 || errno != EPERM) {
        errno = 0;
        return fail("the filter has no effect");
    }
    ::execvp(argv[1], argv + 1);
    return fail(argv[1]);
}
