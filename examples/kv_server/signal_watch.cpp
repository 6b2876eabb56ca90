// SPDX-License-Identifier: MIT
#include "signal_watch.hpp"

#include <csignal>
#include <cstdlib>

#include <pthread.h>
#include <unistd.h>

namespace kv {

namespace {

sigset_t watched_signals() {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGINT);
    ::sigaddset(&set, SIGTERM);
    return set;
}

}  // namespace

signal_watch::signal_watch() {
    const sigset_t set = watched_signals();
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    thread_ = std::thread([this] { watch(); });
}

signal_watch::~signal_watch() {
    // Release, for the load in watch(): whoever sees the flag sees that the object is ending. The
    // signal only ends the thread's wait.
    ending_.store(true, std::memory_order_release);
    ::pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
    const sigset_t set = watched_signals();
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void signal_watch::watch() {
    const sigset_t set = watched_signals();
    for (;;) {
        int number = 0;
        if (::sigwait(&set, &number) != 0) continue;
        // Acquire, with the store in the destructor.
        if (ending_.load(std::memory_order_acquire)) return;
        if (stop_.stop_requested()) ::_exit(128 + number);
        stop_.request_stop();
    }
}

}  // namespace kv
