// SPDX-License-Identifier: MIT
#include "lib/netpoll/rescue_signal.hpp"

#include "lib/netpoll/ring_poller.hpp"

#include <weft/detail/sched/worker.hpp>

#include <atomic>
#include <cerrno>
#include <mutex>

#include <sys/syscall.h>
#include <unistd.h>

namespace weft::detail {

namespace {

constinit std::mutex handler_lock;
constinit unsigned users = 0;
/// Default or ignored; what the last user puts back.
struct sigaction action_before;

/// Atomic, since the handler may come while its own thread writes it. Relaxed throughout: all
/// is on one thread, and the signal fences beside it give the order.
constinit thread_local std::atomic<ring_poller*> rescued [[gnu::tls_model("initial-exec")]]{
    nullptr};
static_assert(std::atomic<ring_poller*>::is_always_lock_free);

/// The thread blocked the signal before it had a ring.
constinit thread_local bool was_blocked = false;

sigset_t only_rescue() noexcept {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, rescue_signal);
    return signals;
}

/// Does this thread run a task of the runtime that the poller belongs to? Otherwise it is in its
/// loop, where it may be in the poller itself, or about to sleep.
bool runs_task(ring_poller& owned) noexcept {
    worker* const here = current_worker();
    return here != nullptr && &here->io() == &owned && here->running() != nullptr;
}

void handle(int) noexcept {
    const int kept = errno;
    ring_poller* const owned = rescued.load(std::memory_order_relaxed);
    // Pairs with admit_rescue(), on this same thread: the compiler must not look into the poller
    // before it has the pointer, nor move what the owner did behind the pointer.
    std::atomic_signal_fence(std::memory_order_acquire);
    if (owned != nullptr) {
        const bool in_task = runs_task(*owned);
        // Pairs with worker_thread::execute(): where no task runs, or does not run yet, the poller
        // is left alone; where one does, what the loop did before is seen.
        std::atomic_signal_fence(std::memory_order_seq_cst);
        owned->serve_interrupted(in_task);
    }
    errno = kept;
}

bool is_ours(const struct sigaction& action) noexcept {
    return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == handle;
}

bool is_free(const struct sigaction& action) noexcept {
    return (action.sa_flags & SA_SIGINFO) == 0 &&
           (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN);
}

}  // namespace

rescue_handler::rescue_handler() noexcept : installed_(false) {
    const std::lock_guard held(handler_lock);
    struct sigaction current{};
    ::sigaction(rescue_signal, nullptr, &current);
    if (!is_ours(current)) {
        if (!is_free(current)) return;
        struct sigaction ours{};
        ours.sa_handler = handle;
        // A task may run on a small stack of somebody else's making; if that one has set up a stack
        // for signals, the handler belongs there.
        ours.sa_flags = SA_RESTART | SA_ONSTACK;
        ::sigfillset(&ours.sa_mask);
        if (::sigaction(rescue_signal, &ours, nullptr) != 0) return;
        action_before = current;
    }
    ++users;
    installed_ = true;
}

void rescue_handler::lock() noexcept {
    handler_lock.lock();
}
void rescue_handler::unlock() noexcept {
    handler_lock.unlock();
}

rescue_handler::~rescue_handler() {
    if (!installed_) return;
    const std::lock_guard held(handler_lock);
    if (--users != 0) return;
    struct sigaction current{};
    ::sigaction(rescue_signal, nullptr, &current);
    if (!is_ours(current)) return;  // Somebody has put another one in its place; it stays.
    ::sigaction(rescue_signal, &action_before, nullptr);
}

void admit_rescue(ring_poller& owned) noexcept {
    // The ring is ready before the handler can find it.
    std::atomic_signal_fence(std::memory_order_release);
    rescued.store(&owned, std::memory_order_relaxed);
    const sigset_t signal = only_rescue();
    sigset_t before;
    ::pthread_sigmask(SIG_UNBLOCK, &signal, &before);
    was_blocked = ::sigismember(&before, rescue_signal) == 1;
}

void end_rescue() noexcept {
    if (rescued.load(std::memory_order_relaxed) == nullptr) return;
    rescued.store(nullptr, std::memory_order_relaxed);
    // What ends the ring must not come before it.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // Only this one: a task may have changed the mask for others on purpose.
    const sigset_t signal = only_rescue();
    if (was_blocked) ::pthread_sigmask(SIG_BLOCK, &signal, nullptr);
}

// The only thread that there is, and nobody sends it the signal.
void forget_rescue_in_fork() noexcept {
    rescued.store(nullptr, std::memory_order_relaxed);
}

void send_rescue_signal(::pid_t thread) noexcept {
    // EAGAIN (too many signals are queued) and ESRCH: the next look tries again, or finds none.
    ::syscall(SYS_tgkill, ::getpid(), thread, rescue_signal);
}

}  // namespace weft::detail
