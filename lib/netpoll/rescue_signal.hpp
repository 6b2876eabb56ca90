// SPDX-License-Identifier: MIT
//
// The signal that makes a thread take a turn of its own poller.
//
// Under DEFER_TASKRUN the kernel posts completions only while the owner of a ring is inside
// io_uring_enter. An owner whose task keeps it does not go there, and nobody else may. So others
// send its thread a signal, and the handler takes the turn, wherever the task is just then. Where
// no task runs, or it is just arming a poll or gathering a send (handed_list.hpp), the handler does
// nothing but enter the ring; see ring.hpp for why that is whole at each instruction.
//
// Why a turn may come between any two instructions of a task. To other threads it is a turn like
// any other, since it is taken on the owner's thread: they see words that change atomically. What
// is new is the code of this same thread that it comes between, and that is of two kinds. The one
// counts on being alone in the poller; the handler keeps out of it:
//
//     it comes between instructions of              and finds
//     the loop of a worker: turns, the lists of     no branch in the run mark: it only enters
//     polls, handed work, sleep, retirement, the
//     end of a worker, of a runtime
//     arming, and gathering a send                  arming_guard held: it only enters
//     itself                                        nothing: it blocks all signals
//     the start and end of the thread               no poller: the thread-local is set last, and
//                                                   cleared first
//     fork                                          in the parent a task; in the child it never
//                                                   comes, as a pending signal is not inherited and
//                                                   nobody there knows the thread, and from the
//                                                   fork handler on there is no poller
//
// The other is all the rest of what a task may be in: weft's words, queues and locks, malloc,
// close, a sanitizer, user code. All of that would stand a turn of another thread beside it. On the
// same thread only one thing would be worse, to wait for it. So a turn in the handler waits for
// nothing:
//   * It takes no lock: neither that of a descriptor, of the table, of a scope, of a heap nor of a
//     queue. Compare-and-swap loops repeat only where another thread has got on, and what they were
//     begun with before the signal is compared again after it.
//   * It allocates nothing, and calls nothing but io_uring_enter without waiting, and nothing of
//     the C library but that, if not to end the process by write and abort. Thread-locals are of
//     the initial-exec model, so that reading them calls nothing. errno is kept; the kernel keeps
//     the registers. It takes less than a kilobyte of stack beside the kernel's frame.
//   * It has an end: 1024 completions, 1024 requests, 64 calls of at least 20 items of deferred
//     work. Beside these it makes a call that only submits whenever the queue of entries is full:
//     one for as many requests as that holds, and no more than one for each. That is a millisecond,
//     or a few where the kernel takes the entries one by one. Who waits for a lock that the
//     interrupted task holds waits for as long, as if the kernel had taken the thread off its
//     processor; spin locks yield then.
//
// The end of a task, by its worker, is of that second kind: the mark stays until it is over, since
// for a detached task it runs the user's code, on_failure and the destructors of what the frame
// held, which may keep the thread. What weft does about it before and after (the counts of tasks,
// the join word, the waiter's way into runnext, the begin of a drain, the name that a watchdog may
// be reading, the list of free control blocks) is nothing that a task does not do by itself when it
// spawns, drops handles of tasks that have ended, stops others and sets timers. A turn in the
// handler touches none of these words and lists, waits for none of these locks, and readies nobody:
// what it has to say is in the list of handed_list.hpp, which the owner takes before it sleeps,
// when the mark has ended. Nor can it meet a ring that goes: no worker leaves its loop with a mark.
//
// Everything that is not atomic is the owner's own, and only the compiler could reorder it. The
// mark is set by a release and followed by a signal fence when it is cleared, the guard has a fence
// on its inner side both times, and the handler has one after it has looked at the mark.
//
// System calls that it interrupts are restarted where the kernel can do so.
//
// Which signal. SIGURG, as Go has it: its default action is to be ignored, so one that is sent by
// mistake does no harm; nothing in the C library uses it; debuggers pass it on; and programs that
// want it (to be told of urgent data of a socket) are next to extinct. If one has a handler for it
// when the first runtime starts, that one stays and rescues are off, which the runtime says in its
// log. A program that takes the signal without a handler (sigwait, signalfd) cannot be told from
// one that does not care, and loses it while a runtime exists: workers do not block it.
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
