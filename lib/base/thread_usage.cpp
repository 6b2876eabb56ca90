// SPDX-License-Identifier: MIT
#include "lib/base/thread_usage.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

namespace weft::detail {

namespace {

std::chrono::nanoseconds read_clock(::clockid_t clock) noexcept {
    timespec now{};
    // It fails when the thread has ended; then it uses nothing.
    if (::clock_gettime(clock, &now) != 0) { return {}; }
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// The letter of /proc/self/task/ID/stat; 0 where it cannot be read.
char state_of(::pid_t thread) noexcept {
    char path[64];
    std::snprintf(path, sizeof(path), "/proc/self/task/%d/stat", static_cast<int>(thread));
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) { return 0; }
    char text[128];  // The number, the name of at most 15 letters in parentheses, the letter.
    const ssize_t length = ::read(file, text, sizeof(text) - 1);
    ::close(file);
    if (length <= 0) { return 0; }
    text[length] = 0;
    // The name may contain parentheses itself.
    const char* const end_of_name = std::strrchr(text, ')');
    return end_of_name != nullptr && end_of_name[1] == ' ' ? end_of_name[2] : '\0';
}

}  // namespace

thread_name thread_name::of_this_thread() noexcept {
    thread_name self{.id = ::gettid()};
    // It cannot fail for the calling thread.
    ::pthread_getcpuclockid(::pthread_self(), &self.clock);
    return self;
}

void thread_usage::begin(thread_name measured) noexcept {
    measured_ = measured;
    clock_ = read_clock(measured.clock);
}

thread_usage::used thread_usage::take(std::chrono::nanoseconds elapsed) noexcept {
    const auto now = read_clock(measured_.clock);
    const auto computed = now - clock_;
    clock_ = now;
    if (computed >= elapsed / 8) { return {std::min(computed, elapsed), kind::computed}; }
    switch (state_of(measured_.id)) {
    case 'S':  // Sleeps in a call.
    case 'D':  // Waits for a disk.
        return {elapsed, kind::blocked};
    default:  // Waits for a processor, is stopped, or nobody knows.
        return {std::max(computed, std::chrono::nanoseconds(0)), kind::computed};
    }
}

}  // namespace weft::detail
