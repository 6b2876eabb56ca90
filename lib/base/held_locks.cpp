// SPDX-License-Identifier: MIT
//
// Counts the locks that each thread holds, in builds with the option held_locks alone: a part of
// those checks that find a std::mutex which is still held when its task suspends.
//
// std::mutex and its kind are inline functions that call pthreads. So the functions of pthreads
// that take and release locks are defined here once more: each calls the one of the C library and
// counts if that has succeeded. Where weft is linked statically these definitions are part of the
// program, and where it is a shared library they come before those of the C library in the order
// of search, so in both cases the whole process calls them. A program that loads weft with dlopen()
// goes on calling the C library, and nothing is counted, nor reported.
//
// A wait for a condition (pthread_cond_wait) releases its mutex and takes it again inside the C
// library, by functions that are not replaced: the count is the same before and after it, as it
// should be. So is that of mtx_lock() and others of <threads.h>, which are not seen at all.
//
// What follows them is found with dlsym(RTLD_NEXT), on the first call: these functions are called
// before any constructor has run. dlsym() itself takes locks of the loader inside the C library.
// A program that is linked with -static has no dlsym(); there the C library's inner names serve,
// which are weak here, since a shared C library does not offer them to a linker. Those of locks
// with a time limit are in no such program, which ends with a message when it calls one.
//
// Not with a sanitizer: it has replaced these functions itself, to learn of the order that locks
// make, and would lose that.
//
// Rejected: the linker's --wrap, which each program would have to be linked with, and which does
// not see shared libraries; a header with another std::mutex; the addresses of the locks held,
// which would need memory for as many as a thread may hold, to say where a count says that.
#include "lib/base/held_locks.hpp"

#include <weft/detail/base/assert.hpp>

#include <atomic>
#include <cerrno>

#include <dlfcn.h>
#include <pthread.h>

extern "C" {
[[gnu::weak]] int __pthread_mutex_lock(pthread_mutex_t* mutex) noexcept;
[[gnu::weak]] int __pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept;
[[gnu::weak]] int __pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) noexcept;
[[gnu::weak]] int __pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock,
                                            const timespec* until) noexcept;
[[gnu::weak]] int __pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept;
[[gnu::weak]] int __pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept;
[[gnu::weak]] int __pthread_rwlock_tryrdlock(pthread_rwlock_t* lock) noexcept;
[[gnu::weak]] int __pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept;
[[gnu::weak]] int __pthread_rwlock_trywrlock(pthread_rwlock_t* lock) noexcept;
[[gnu::weak]] int __pthread_rwlock_unlock(pthread_rwlock_t* lock) noexcept;
}

namespace weft::detail {

namespace {

constinit thread_local int taken [[gnu::tls_model("initial-exec")]] = 0;

/// A function of the C library that another one here stands in front of.
template <class... Arguments>
class next_function {
public:
    using function = int (*)(Arguments...) noexcept;

    constexpr explicit next_function(const char* name, function inner = nullptr) noexcept
        : name_(name), inner_(inner) {}

    int operator()(Arguments... arguments) noexcept { return find()(arguments...); }

private:
    function find() noexcept {
        // Relaxed: each thread that does not find it here looks for itself, and all find the same
        // code, which was there before the first of them.
        if (function known = found_.load(std::memory_order_relaxed)) { return known; }
        auto found = reinterpret_cast<function>(::dlsym(RTLD_NEXT, name_));
        if (found == nullptr) { found = inner_; }
        if (found == nullptr) {
            fatal(
                "the lock functions of the C library were not found, which weft counts the calls "
                "of; build it with -Dheld_locks=disabled");
        }
        found_.store(found, std::memory_order_relaxed);
        return found;
    }

    const char* name_;
    function inner_;
    std::atomic<function> found_{nullptr};
};

/// The result of a function that takes a lock. One whose owner has died is taken as well.
int count_taken(int result) noexcept {
    if (result == 0 || result == EOWNERDEAD) { ++taken; }
    return result;
}

/// At zero it is one that does not count; see forget_held_locks().
int count_released(int result) noexcept {
    if (result == 0 && taken > 0) { --taken; }
    return result;
}

using mutex_function = next_function<pthread_mutex_t*>;
using timed_mutex_function = next_function<pthread_mutex_t*, const timespec*>;
using clock_mutex_function = next_function<pthread_mutex_t*, clockid_t, const timespec*>;
using rwlock_function = next_function<pthread_rwlock_t*>;
using timed_rwlock_function = next_function<pthread_rwlock_t*, const timespec*>;
using clock_rwlock_function = next_function<pthread_rwlock_t*, clockid_t, const timespec*>;
using spin_function = next_function<pthread_spinlock_t*>;

constinit mutex_function mutex_lock("pthread_mutex_lock", __pthread_mutex_lock);
constinit mutex_function mutex_trylock("pthread_mutex_trylock", __pthread_mutex_trylock);
constinit timed_mutex_function mutex_timedlock("pthread_mutex_timedlock",
                                               __pthread_mutex_timedlock);
constinit clock_mutex_function mutex_clocklock("pthread_mutex_clocklock",
                                               __pthread_mutex_clocklock);
constinit mutex_function mutex_unlock("pthread_mutex_unlock", __pthread_mutex_unlock);
constinit rwlock_function rwlock_rdlock("pthread_rwlock_rdlock", __pthread_rwlock_rdlock);
constinit rwlock_function rwlock_tryrdlock("pthread_rwlock_tryrdlock", __pthread_rwlock_tryrdlock);
constinit timed_rwlock_function rwlock_timedrdlock("pthread_rwlock_timedrdlock");
constinit clock_rwlock_function rwlock_clockrdlock("pthread_rwlock_clockrdlock");
constinit rwlock_function rwlock_wrlock("pthread_rwlock_wrlock", __pthread_rwlock_wrlock);
constinit rwlock_function rwlock_trywrlock("pthread_rwlock_trywrlock", __pthread_rwlock_trywrlock);
constinit timed_rwlock_function rwlock_timedwrlock("pthread_rwlock_timedwrlock");
constinit clock_rwlock_function rwlock_clockwrlock("pthread_rwlock_clockwrlock");
constinit rwlock_function rwlock_unlock("pthread_rwlock_unlock", __pthread_rwlock_unlock);
constinit spin_function spin_lock_function("pthread_spin_lock");
constinit spin_function spin_trylock_function("pthread_spin_trylock");
constinit spin_function spin_unlock_function("pthread_spin_unlock");

}  // namespace

int held_locks() noexcept {
    return taken;
}

void forget_held_locks() noexcept {
    taken = 0;
}

}  // namespace weft::detail

using namespace weft::detail;

extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
    return count_taken(mutex_lock(mutex));
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
    return count_taken(mutex_trylock(mutex));
}
int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) noexcept {
    return count_taken(mutex_timedlock(mutex, until));
}
int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock,
                            const timespec* until) noexcept {
    return count_taken(mutex_clocklock(mutex, clock, until));
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
    return count_released(mutex_unlock(mutex));
}

int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
    return count_taken(rwlock_rdlock(lock));
}
int pthread_rwlock_tryrdlock(pthread_rwlock_t* lock) noexcept {
    return count_taken(rwlock_tryrdlock(lock));
}
int pthread_rwlock_timedrdlock(pthread_rwlock_t* lock, const timespec* until) noexcept {
    return count_taken(rwlock_timedrdlock(lock, until));
}
int pthread_rwlock_clockrdlock(pthread_rwlock_t* lock, clockid_t clock,
                               const timespec* until) noexcept {
    return count_taken(rwlock_clockrdlock(lock, clock, until));
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
    return count_taken(rwlock_wrlock(lock));
}
int pthread_rwlock_trywrlock(pthread_rwlock_t* lock) noexcept {
    return count_taken(rwlock_trywrlock(lock));
}
int pthread_rwlock_timedwrlock(pthread_rwlock_t* lock, const timespec* until) noexcept {
    return count_taken(rwlock_timedwrlock(lock, until));
}
int pthread_rwlock_clockwrlock(pthread_rwlock_t* lock, clockid_t clock,
                               const timespec* until) noexcept {
    return count_taken(rwlock_clockwrlock(lock, clock, until));
}
int pthread_rwlock_unlock(pthread_rwlock_t* lock) noexcept {
    return count_released(rwlock_unlock(lock));
}

int pthread_spin_lock(pthread_spinlock_t* lock) noexcept {
    return count_taken(spin_lock_function(lock));
}
int pthread_spin_trylock(pthread_spinlock_t* lock) noexcept {
    return count_taken(spin_trylock_function(lock));
}
int pthread_spin_unlock(pthread_spinlock_t* lock) noexcept {
    return count_released(spin_unlock_function(lock));
}
}
