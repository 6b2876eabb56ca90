// SPDX-License-Identifier: MIT
//
// The signal that makes a thread take a turn of its own poller.
//
// Under DEFER_TASKRUN the kernel posts completions only while the owner of a ring is inside
// io_uring_enter. An owner whose task keeps it does not go there, and nobody else may. So others
// send its thread a signal, and the handler takes the turn, wherever the task is just then; see
// handed_list.hpp for what it may do there. Where no task runs, or it is just arming a poll, the
// handler does nothing but enter the ring.
//
// The handler is one for the process and finds the ring of its thread through a thread-local that is
// constant-initialised and of the initial-exec model, so that reading it calls nothing. It may come
// between any two instructions of the owner: see ring.hpp for why the ring is whole at each of them.
// It keeps errno. System calls that it interrupts are restarted where the kernel can do so.
//
// Which signal. SIGURG, as Go has it: its default action is to be ignored, so one that is sent by
// mistake does no harm; nothing in the C library uses it; debuggers pass it on; and programs that
// want it (to be told of urgent data of a socket) are next to extinct. If one has a handler for it
// when the first runtime starts, that one stays and rescues are off, which the runtime says in its
// log. A program that takes the signal without a handler (sigwait, signalfd) cannot be told from one
// that does not care, and loses it while a runtime exists: workers do not block it.
#pragma once

#include <csignal>

#include <sys/types.h>

namespace weft::detail {

class ring_poller;

inline constexpr int rescue_signal = SIGURG;

/// Installs the handler, for the first one who asks, and takes it away after the last one has left.
class rescue_handler {
public:
    rescue_handler() noexcept;
    ~rescue_handler();
    rescue_handler(const rescue_handler&) = delete;
    rescue_handler& operator=(const rescue_handler&) = delete;

    /// False: the program has a handler of its own for the signal.
    bool installed() const noexcept { return installed_; }

    /// The lock of the handler's users; held over a fork.
    static void lock() noexcept;
    static void unlock() noexcept;

private:
    bool installed_;
};

/// The calling thread has a poller of its own, which the handler may use. From now on it does not
/// block the signal.
void admit_rescue(ring_poller& owned) noexcept;
/// It has none any more, and blocks the signal if it did so before.
void end_rescue() noexcept;
/// In the child of a fork, where the rings of the parent are not mapped.
void forget_rescue_in_fork() noexcept;

/// Sends the signal to a thread of this process that has not ended.
void send_rescue_signal(::pid_t thread) noexcept;

}  // namespace weft::detail
