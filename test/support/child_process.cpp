// SPDX-License-Identifier: MIT
#include "support/child_process.hpp"

#include "support/scale.hpp"

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <system_error>

namespace weft::test {

namespace {

std::size_t entries_of(const char* directory) {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(directory)) {
        ++count;
    }
    return count;
}

void forget_the_framework(int errors) {
    for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM, SIGINT}) {
        std::signal(number, SIG_DFL);
    }
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::dup2(errors, STDERR_FILENO);
    const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::dup2(nowhere, STDIN_FILENO);
    ::dup2(nowhere, STDOUT_FILENO);
}

[[noreturn]] void be_the_child(const std::function<void()>& body, int errors) {
    forget_the_framework(errors);
    try {
        body();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "exception: %s\n", error.what());
        ::_exit(125);
    } catch (...) {
        std::fprintf(stderr, "exception of an unknown type\n");
        ::_exit(125);
    }
    ::_exit(0);
}

// Reads until the child and all that inherited its stream have closed it. False: time is over.
bool read_until_end(int from, std::chrono::steady_clock::time_point until, std::string& text) {
    std::array<char, 4096> buffer;
    for (;;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            until - std::chrono::steady_clock::now());
        if (left.count() <= 0) return false;
        pollfd waiting{.fd = from, .events = POLLIN, .revents = 0};
        if (::poll(&waiting, 1, static_cast<int>(left.count())) <= 0) continue;
        const ssize_t count = ::read(from, buffer.data(), buffer.size());
        if (count == 0) return true;
        if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
    }
}

}  // namespace

std::string child_result::describe() const {
    std::string text = hung ? "hung and was killed" : "signal " + std::to_string(signal);
    return text + ", status " + std::to_string(status) + ", errors: " + errors;
}

child_result run_in_child(const std::function<void()>& body, std::chrono::seconds limit) {
    // ThreadSanitizer has a thread of its own, which it starts again in the child.
    if (!thread_sanitizer && thread_count() != 1) {
        throw std::logic_error("run_in_child was called while other threads run");
    }
    std::fflush(nullptr);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category());
    const pid_t child = ::fork();
    if (child < 0) throw std::system_error(errno, std::generic_category());
    if (child == 0) be_the_child(body, ends[1]);
    ::close(ends[1]);
    child_result result;
    if (sanitized) limit *= 4;
    if (!read_until_end(ends[0], std::chrono::steady_clock::now() + limit, result.errors)) {
        result.hung = true;
        ::kill(child, SIGKILL);
    }
    ::close(ends[0]);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
    if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
    return result;
}

void child_check(bool condition, const char* text) {
    if (condition) return;
    std::fprintf(stderr, "check failed: %s\n", text);
    ::_exit(1);
}

// Users below 65,536 exist in containers too; no two processes at a time have one number.
void become_another_user() {
    const auto user = static_cast<uid_t>(10'000 + ::getpid() % 50'000);
    child_check(::setresuid(user, user, user) == 0, "could not become another user");
}

std::size_t thread_count() {
    return entries_of("/proc/self/task");
}

// The iteration itself holds one.
std::size_t descriptor_count() {
    return entries_of("/proc/self/fd") - 1;
}

}  // namespace weft::test
