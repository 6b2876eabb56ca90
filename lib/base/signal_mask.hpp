// SPDX-License-Identifier: MIT
#pragma once

#include <csignal>

namespace weft::detail {

/// The threads of a runtime are not for the signals of the process: while this exists, the calling
/// thread blocks all but the synchronous ones and the one that a busy worker is interrupted by.
/// Threads inherit the mask of their starter.
class block_signals {
public:
    block_signals() noexcept {
        sigset_t blocked;
        ::sigfillset(&blocked);
        for (const int open : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGURG}) {
            ::sigdelset(&blocked, open);
        }
        ::pthread_sigmask(SIG_SETMASK, &blocked, &before_);
    }
    ~block_signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    /// The mask of this thread as it was, and will be.
    const sigset_t& before() const noexcept { return before_; }

    block_signals(const block_signals&) = delete;
    block_signals& operator=(const block_signals&) = delete;

private:
    sigset_t before_;
};

/// The mask of the calling thread.
inline sigset_t signal_mask() noexcept {
    sigset_t mask;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    return mask;
}

}  // namespace weft::detail
