// SPDX-License-Identifier: MIT
#pragma once

// The threads of a model: fibers on one kernel thread, and who of them can go on.
//
//     state      can go on
//     ready      always
//     spinning   in pause(): when one of the words that it has read has been written since
//     waiting    in block_until(): when the predicate is true; in a futex: when it was woken
//     finished   never
//
// Thread 0 is the body; it starts the others and goes on when they have ended, or when whoever is
// left may sleep for ever. A switch happens at a *point*, which each operation on an atomic passes
// before it takes effect, or where a thread cannot go on. Only the first kind is a preemption.
//
// If nobody can go on but threads that spin, or that sleep with a time limit, these go on as if
// their wait had ended by itself, a bounded number of times. If nobody can go on at all and
// somebody must not sleep for ever, the execution is a violation.
//
// An execution may be left in the middle: the fibers then stay as they stand and are made anew for
// the next one, and no destructor of the model runs.
//
// A fiber is started with makecontext() and from then on switched with _setjmp and _longjmp, since
// swapcontext() pays two system calls each time for a signal mask that nobody changes.
//
// Rejected: kernel threads that hand a token around (a switch costs 10 us, not 20 ns, and the
// search takes millions); coroutines (the protocols under test are ordinary functions).

#include "explorer.hpp"
#include "memory.hpp"
#include "reduction.hpp"
#include "search.hpp"

#include <setjmp.h>
#include <ucontext.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace weft::model {

class fibers {
public:
    fibers(search& decisions, memory& model, reduction& shorter)
        : decisions_(decisions), memory_(model), reduction_(shorter) {}

    /// Runs `body` as thread 0; returns when it has ended or the execution was left.
    void run(body_function body);
    [[noreturn]] void leave_execution();

    unsigned current() const { return current_; }
    bool running() const { return running_; }
    unsigned steps() const { return steps_; }
    const char* name(unsigned index) const { return threads_[index].name; }

    /// Body only: runs threads 1 .. count until they have ended.
    void run_threads(const detail::thread_function* functions, unsigned count);

    // The current thread, which is not the body.

    /// A scheduling point.
    void point();
    /// The thread has nothing to do until somebody has written what it has read.
    void pause();
    /// Nobody has to end the wait of this thread.
    void may_sleep(bool allowed) { threads_[current_].may_sleep = allowed; }
    void block(bool (*ready)(void*), void* context, const char* why);
    void sleep_in_futex(unsigned location, bool timed);
    void wake_from_futex(unsigned location, unsigned count);
    /// Something was written: threads that spin have a reason to go on.
    void progress() { stutters_ = 0; }
    /// A predicate of a thread that waits is being asked; what it looks at is no step of anybody.
    bool observing() const { return observing_; }

private:
    static constexpr std::size_t stack_size = 256 * 1024;
    // How often in a row spinning threads go on although nobody has written anything.
    static constexpr unsigned stutter_limit = 128;

    enum class thread_state : std::uint8_t { unused, ready, spinning, waiting, finished };

    struct thread {
        thread_state state = thread_state::unused;
        bool begun = false;
        bool may_sleep = false;
        bool released = false;
        bool timed = false;
        bool in_futex = false;
        bool woken = false;
        unsigned futex_location = 0;
        std::uint64_t futex_order = 0;
        bool (*ready)(void*) = nullptr;
        void* ready_context = nullptr;
        const char* why = "";
        const char* name = nullptr;
        detail::thread_function function{};
    };
    struct fiber {
        ucontext_t start{};
        jmp_buf jump{};
        std::unique_ptr<std::byte[]> stack;
        // The fiber waits at the top of its loop for the next function.
        bool at_rest = false;
        bool started = false;
    };

    bool can_run(unsigned index);
    bool out_of_turn(unsigned index) const;
    bool asks(const thread& waiting);
    unsigned pick(bool current_can_run);
    unsigned nobody_can_run();
    void switch_to(unsigned index);
    void jump_to(unsigned index);
    void count_step();
    void give_up_processor();
    void finish_thread();
    void prepare(unsigned index);
    static void run_body(void* function);
    static void entry();

    search& decisions_;
    memory& memory_;
    reduction& reduction_;
    std::array<thread, max_threads> threads_;
    std::array<fiber, max_threads> fibers_;
    jmp_buf outside_{};
    unsigned current_ = 0;
    unsigned thread_count_ = 0;
    bool running_ = false;
    bool observing_ = false;
    unsigned steps_ = 0;
    unsigned stutters_ = 0;
    std::uint64_t futex_sequence_ = 0;
};

}  // namespace weft::model
