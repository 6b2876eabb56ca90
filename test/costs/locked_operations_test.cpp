// SPDX-License-Identifier: MIT
//
// Counts the locked operations of the scheduler's basic steps: a child process performs a step some
// hundred times between two breakpoints, and is executed instruction by instruction there; what has
// a LOCK prefix, or is an XCHG with memory, or a full fence, is counted. On one processor, so with
// nobody to wake: that is what a busy runtime pays for each step.
#include "support/nothing.hpp"

#include <weft/detail/base/clock.hpp>
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/task.hpp>
#include <weft/yield.hpp>

#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

using weft::test::nothing;

namespace {

// ---------------------------------------------------------------------------------------------
// What is measured, in the child.

constexpr int rounds = 61;  // One for each tick between two looks at the global queue.

void breakpoint() {
    asm volatile("int3" ::: "memory");
}

weft::task<> spawn_and_join() {
    for (int i = 0; i < rounds; ++i) co_await weft::co_spawn(nothing());
}

weft::task<> spawn_all_then_join() {
    std::vector<weft::join_handle<void>> children;
    children.reserve(rounds);
    for (int i = 0; i < rounds; ++i) children.push_back(weft::co_spawn(nothing()));
    for (auto& each : children) co_await std::move(each);
}

weft::task<> spawn_detached() {
    for (int i = 0; i < rounds; ++i) {
        weft::co_spawn(nothing()).detach();
        co_await weft::yield();
    }
}

weft::task<> yield_alone() {
    for (int i = 0; i < rounds; ++i) co_await weft::yield();
}

weft::task<> yield_in_turn() {
    auto other = weft::co_spawn(yield_alone());
    co_await yield_alone();
    co_await std::move(other);
}

weft::task<> await_child() {
    for (int i = 0; i < rounds; ++i) co_await nothing();
}

struct measured {
    const char* name;
    weft::task<> (*run)();
    int steps;         ///< So many of what the limit is about.
    unsigned limit;    ///< Locked operations for each of them, at most.
};

constexpr std::array cases{
    measured{"spawn and join, one at a time", spawn_and_join, rounds, 6},
    // A child that was kicked out of runnext has been published once more, as part of the ring.
    measured{"spawn and join, all spawned first", spawn_all_then_join, rounds, 7},
    measured{"spawn, detach and yield", spawn_detached, rounds, 5},
    measured{"yield alone", yield_alone, rounds, 1},
    measured{"yield in turn with another task", yield_in_turn, 2 * rounds, 2},
    measured{"await a task", await_child, rounds, 0},
};

weft::task<> measure(const measured& of) {
    // Caches of frames and control blocks are full after the first time.
    for (int i = 0; i < 4; ++i) co_await of.run();
    breakpoint();
    co_await of.run();
    breakpoint();
}

[[noreturn]] void be_traced(const measured& of) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(77);
    // Step by step, some hundred instructions take as long as a time slice.
    weft::detail::hold_slice_clock(weft::detail::monotonic_now());
    weft::run(measure(of), {.processors = 1});
    ::_exit(0);
}

// ---------------------------------------------------------------------------------------------
// The tracer.

using code_bytes = std::array<unsigned char, 2 * sizeof(long)>;

code_bytes read_code(pid_t child, std::uint64_t address) {
    code_bytes bytes{};
    for (std::size_t i = 0; i < 2; ++i) {
        errno = 0;
        const long word = ::ptrace(PTRACE_PEEKTEXT, child, address + i * sizeof(long), nullptr);
        if (errno != 0) break;  // The next page need not exist.
        std::memcpy(bytes.data() + i * sizeof word, &word, sizeof word);
    }
    return bytes;
}

/// Does the instruction lock its operand in memory, or is it a full fence?
bool is_locked(const code_bytes& code) {
    std::size_t at = 0;
    const auto is_prefix = [](unsigned char byte) {
        constexpr std::array<unsigned char, 10> prefixes{0x26, 0x2e, 0x36, 0x3e, 0x64,
                                                         0x65, 0x66, 0x67, 0xf2, 0xf3};
        return std::memchr(prefixes.data(), byte, prefixes.size()) != nullptr;
    };
    for (; is_prefix(code[at]) || code[at] == 0xf0; ++at) {
        if (code[at] == 0xf0) return true;
        if (at == 8) return false;
    }
    if ((code[at] & 0xf0) == 0x40) ++at;  // REX
    const bool exchanges = code[at] == 0x86 || code[at] == 0x87;
    if (exchanges) return (code[at + 1] & 0xc0) != 0xc0;
    const bool is_mfence = code[at] == 0x0f && code[at + 1] == 0xae && code[at + 2] == 0xf0;
    return is_mfence;
}

/// Waits until the child stops by SIGTRAP. False: it has ended, or stopped for another reason.
bool stops_at_trap(pid_t child, int& status) {
    if (::waitpid(child, &status, 0) != child) std::abort();
    return WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
}

struct counted {
    std::uint64_t locked = 0;
    std::uint64_t instructions = 0;
};

/// From the first breakpoint to the second one.
std::optional<counted> count_between_breakpoints(pid_t child, int& status) {
    counted result;
    for (;;) {
        user_regs_struct registers{};
        if (::ptrace(PTRACE_GETREGS, child, nullptr, &registers) != 0) return std::nullopt;
        const code_bytes code = read_code(child, registers.rip);
        if (code[0] == 0xcc) return result;  // int3
        result.locked += is_locked(code);
        ++result.instructions;
        if (::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) return std::nullopt;
        if (!stops_at_trap(child, status)) return std::nullopt;
    }
}

enum class outcome { passed, failed, skipped };

outcome check(const measured& of) {
    const pid_t child = ::fork();
    if (child < 0) return outcome::failed;
    if (child == 0) be_traced(of);
    int status = 0;
    // The first stop may be any that the system makes for a traced process; only traps matter.
    std::optional<counted> result;
    if (stops_at_trap(child, status)) result = count_between_breakpoints(child, status);
    if (!WIFEXITED(status) && !WIFSIGNALED(status)) {
        ::kill(child, SIGKILL);
        int killed = 0;
        ::waitpid(child, &killed, 0);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        std::printf("%s: skipped, ptrace is not allowed here\n", of.name);
        return outcome::skipped;
    }
    if (!result) {
        std::printf("%s: FAILED: the child ended early (status %x)\n", of.name,
                    static_cast<unsigned>(status));
        return outcome::failed;
    }
    const double each = static_cast<double>(result->locked) / of.steps;
    // In each 8th turn, and when a slice ends, the end of a task goes through runnext instead of
    // handing over directly: two more, in at most one step out of four.
    const bool good = each <= of.limit + 0.6;
    std::printf("%s: %s: %.2f locked operations, %.0f instructions (limit %u locked)\n", of.name,
                good ? "ok" : "FAILED", each,
                static_cast<double>(result->instructions) / of.steps, of.limit);
    return good ? outcome::passed : outcome::failed;
}

/// The decoder itself, on instructions of each kind.
bool decodes_instructions() {
    using bytes = code_bytes;
    return is_locked(bytes{0xf0, 0x48, 0x0f, 0xb1, 0x0f}) &&    // lock cmpxchg %rcx,(%rdi)
           is_locked(bytes{0x66, 0xf0, 0x0f, 0xc1, 0x07}) &&    // lock xadd %ax,(%rdi)
           is_locked(bytes{0x48, 0x87, 0x07}) &&                // xchg %rax,(%rdi)
           is_locked(bytes{0x86, 0x47, 0x08}) &&                // xchg %al,8(%rdi)
           is_locked(bytes{0x0f, 0xae, 0xf0}) &&                // mfence
           !is_locked(bytes{0x48, 0x87, 0xc8}) &&               // xchg %rcx,%rax
           !is_locked(bytes{0x48, 0x89, 0x07}) &&               // mov %rax,(%rdi)
           !is_locked(bytes{0x66, 0x0f, 0xae, 0xf8});           // clflushopt and the like
}

}  // namespace

int main() {
    int passed = 0, failed = 0, skipped = 0;
    const auto count = [&](outcome each) {
        ++(each == outcome::passed ? passed : each == outcome::failed ? failed : skipped);
    };
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    count(decodes_instructions() ? outcome::passed : outcome::failed);
    for (const measured& each : cases) count(check(each));
    std::printf("%d passed, %d failed", passed, failed);
    if (skipped != 0) std::printf(", %d skipped", skipped);
    std::printf("\n");
    return failed == 0 ? 0 : 1;
}
