// SPDX-License-Identifier: MIT
#pragma once

// The thin layer under every lock-free protocol of weft. A protocol is a class template over a
// layer and uses nothing else for communication between threads, so that the same source runs on
// the standard library in production and on the explorer of test/model/ under a model checker.
//
// A layer offers
//   Layer::template atomic<T>   the interface of std::atomic, always with an explicit order:
//                               load, store, exchange, compare_exchange_weak and _strong,
//                               fetch_add, fetch_sub, fetch_or, fetch_and
//   Layer::pause()              to be called in each iteration of a spin loop; in a model it means
//                               "nothing to do here until another thread has written something"
//   Layer::yield_thread()       for a spin loop that has lasted: lets another thread run, since
//                               the one that is waited for may not be running
//   Layer::template var<T>      a plain variable that the protocol itself keeps from being used by
//                               two threads at once: T, and in a model a stand-in that is read,
//                               assigned and dereferenced like T and checks that it is so kept

#include <weft/detail/base/compiler.hpp>

#include <sched.h>

#include <atomic>

namespace weft::detail {

/// The layer of production builds.
struct std_layer {
    template <class T>
    using atomic = std::atomic<T>;
    template <class T>
    using var = T;

    /// Tells the processor that this thread spins.
    static void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
        asm volatile("yield");
#endif
    }

    /// Gives the processor to another thread of the system that can run. sched_yield cannot fail.
    static void yield_thread() noexcept {
        ::sched_yield();
    }
};

/// The layer of this build.
using layer = std_layer;

}  // namespace weft::detail
