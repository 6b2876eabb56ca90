// SPDX-License-Identifier: MIT
#pragma once

// A small stateless model checker for the leaf protocols of weft.
//
// A protocol is a class template over a `Layer`. In production the layer is `std_layer`; in a model
// it is `model_layer` below, and every operation on one of its atomics becomes a decision of the
// explorer: which thread goes next, and which of the values that the memory model permits a load
// returns. `explore` runs the same body again and again until every combination of decisions has
// been seen (within the bounds of `explore_options`), `explore_random` a number of times with
// random decisions.
//
// Three ideas make it up, each with an essay of its own, and a fourth one makes it faster:
//     search.hpp      decisions are written on a tape; the search walks over all tapes, depth first
//     fibers.hpp      threads are fibers on one kernel thread, so that executions are deterministic
//     memory.hpp      modification orders, views and vector clocks say what a load may return, and
//                     find data races and touches after free
//     reduction.hpp   executions that differ in the order of independent steps are explored once
//
// A switch away from a thread that could have gone on is a preemption; at most `preemptions` of
// them are taken in one execution. Switches at a blocking point are free.
//
// What a model may rely on:
//  - A seq_cst access orders accesses of the *same location* only, and one that meets a weaker one
//    on the other side orders nothing: this is what C++20 promises, less than what x86 gives, so
//    both steps of a store-load handshake must be seq_cst on the words themselves, on both sides.
//  - A thread may read the same stale value at most three times in a row, and what it reads after
//    `pause()` is the newest value of what it has read before. `pause()` blocks the thread until
//    another thread has written one of the locations that it read since its last pause.
//  - An execution in which nobody can go on, and somebody is not allowed to sleep for ever, is a
//    violation (deadlock: this is how a lost wake-up shows).
//
// Known limits. A load is never moved behind a later store of its own thread (load buffering is
// not seen), and stores enter the modification order in the order of execution (the "2+2W" result
// is not seen). So the model cannot tell that the release of a compare-and-swap which only protects
// *earlier loads* is needed (a thief that reads a slot, then moves the head): such orders are kept
// by review and a comment beside them. A failed compare-and-swap reads the newest value, as
// machines do. A bounded spin should be explored with a limit of zero as well, since `pause()`
// waits.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <source_location>
#include <type_traits>
#include <utility>

namespace weft::model {

/// The body counts as thread 0, so a model may start seven threads.
inline constexpr unsigned max_threads = 8;
inline constexpr unsigned max_locations = 192;

struct explore_options {
    /// Preemptions allowed in one execution of the exhaustive search.
    unsigned preemptions = 2;
    /// Loads that may return a value older than the newest one, in one execution of that search.
    unsigned stale_reads = 1000;
    /// Weak compare-and-swaps that may fail for no reason in one execution.
    unsigned spurious_failures = 0;
    /// The exhaustive search gives up after so many executions (and says so).
    std::uint64_t execution_limit = 20'000'000;
    /// Operations in one execution, after which it is reported as never ending.
    unsigned step_limit = 20'000;
    /// Leaves out executions that are equivalent to others: see reduction.hpp for what the model
    /// has to do for it.
    bool reduce = false;
    /// The last so many threads are alike: their numbers could be exchanged everywhere without any
    /// difference. The exhaustive search then starts them in order.
    unsigned alike = 0;
    /// Prints what is found.
    bool verbose = true;
};

struct explore_result {
    std::uint64_t executions = 0;
    /// Executions that were left because an equivalent one is explored; not among the others.
    std::uint64_t cut_short = 0;
    std::uint64_t steps = 0;
    /// Every execution within the bounds was seen.
    bool exhausted = false;
    bool violated = false;
    /// The text of the violation; its lifetime is the program's.
    const char* violation = "";
};

using body_function = void (*)();

/// Runs `body` in every permitted way, or until the first violation, which is printed with its
/// schedule and the tape that replays it.
explore_result explore(body_function body, const explore_options& options = {});

/// Runs `body` `executions` times with random decisions that follow from `seed`.
explore_result explore_random(body_function body, std::uint64_t executions, std::uint64_t seed,
                              const explore_options& options = {});

struct scenario {
    const char* name;
    body_function body;
    explore_options options = {};
    std::uint64_t random_executions = 20'000;
};

/// The `main` of a model: explores each scenario exhaustively and then at random, prints the
/// executions and ends with `N passed, N failed`. Returns 0, 1 after a violation, 2 where a search
/// was not finished or the arguments are wrong. Arguments: `--only NAME`, `--seed N`, `--random N`
/// (executions), `--replay-seed N`, `--replay-tape TAPE` (both with `--only`).
int run_scenarios(int argc, char** argv, const char* subject, const scenario* scenarios,
                  std::size_t count);

template <std::size_t Count>
int run_scenarios(int argc, char** argv, const char* subject, const scenario (&scenarios)[Count]) {
    return run_scenarios(argc, argv, subject, scenarios, Count);
}

/// Ends the execution with a violation.
[[noreturn]] void fail(const char* text);

inline void check(bool condition, const char* text) {
    if (!condition) fail(text);
}

/// Writes a line into the trace of the execution.
void note(const char* text, std::uint64_t value = 0);

/// A decision that belongs to the model: returns 0 .. count - 1, each of them in some execution.
unsigned choose(unsigned count);

/// The calling thread may stay blocked for ever: that is no deadlock. Whether everything was done
/// by then is for the body to check.
void may_sleep_for_ever(bool allowed = true);

namespace detail {

/// The history of one plain variable, for the detection of data races.
struct access_history {
    std::array<std::uint32_t, max_threads> reads{};
    std::uint32_t write_stamp = 0;
    std::uint8_t writer = 0;
    bool alive = true;
};

unsigned create_location(std::uint64_t initial, void* address);
void name_region(const void* begin, std::size_t size, const char* name);
void destroy_location(unsigned location);
std::uint64_t newest(unsigned location);
std::uint64_t load(unsigned location, std::memory_order order, const std::source_location& where);
void store(unsigned location, std::uint64_t value, std::memory_order order,
           const std::source_location& where);
// A read-modify-write is `rmw_begin`, which is the scheduling point and returns the newest value,
// followed by exactly one of `rmw_commit` and `rmw_fail`.
std::uint64_t rmw_begin(unsigned location, const std::source_location& where);
void rmw_commit(unsigned location, std::uint64_t value, std::memory_order order, const char* what,
                const std::source_location& where);
void rmw_fail(unsigned location, std::memory_order order, const std::source_location& where);
bool fails_spuriously();
void plain_read(access_history& history, const char* what);
void plain_write(access_history& history, const char* what);
unsigned create_shared();
void shared_read(unsigned id);
void shared_write(unsigned id);
void pause();
void block(bool (*ready)(void*), void* context, const char* why);
void futex_wait(unsigned location, std::uint64_t expected, bool timed);
void futex_wake(unsigned location, unsigned count);

struct thread_function {
    void (*run)(void*);
    void* context;
    const char* name;
};
void run_threads(const thread_function* functions, unsigned count);
void* allocate(std::size_t size, std::size_t alignment);

}  // namespace detail

/// Blocks until `ready()` is true. `ready` is called at scheduling points; it may look at plain
/// variables of the model and at `peek()` of atomics, and must not change anything.
template <class Ready>
void block_until(Ready&& ready, const char* why = "block_until") {
    using function = std::remove_reference_t<Ready>;
    detail::block([](void* context) -> bool { return (*static_cast<function*>(context))(); },
                  &ready, why);
}

/// A thread of a model with a name for the trace.
template <class Function>
struct named_thread {
    const char* name;
    Function function;
};
template <class Function>
named_thread(const char*, Function) -> named_thread<Function>;

namespace detail {

template <class Function>
thread_function erase(Function& function) {
    return {[](void* context) { (*static_cast<Function*>(context))(); },
            const_cast<std::remove_const_t<Function>*>(&function), nullptr};
}
template <class Function>
thread_function erase(named_thread<Function>& thread) {
    thread_function erased = erase(thread.function);
    erased.name = thread.name;
    return erased;
}

}  // namespace detail

/// Runs the functions as concurrent threads and returns when all have ended. What the body did
/// before happens before them; what they did happens before what the body does next.
template <class... Functions>
void run_threads(Functions&&... functions) {
    const detail::thread_function erased[] = {detail::erase(functions)...};
    detail::run_threads(erased, sizeof...(Functions));
}

/// Makes an object whose memory stays mapped, and is used for nothing else, until the execution has
/// ended. After `destroy` a use of its atomics, `var`s or markers is a violation.
template <class T, class... Arguments>
T* make(Arguments&&... arguments) {
    return new (detail::allocate(sizeof(T), alignof(T))) T(std::forward<Arguments>(arguments)...);
}

template <class T>
void destroy(T* object) {
    object->~T();
}

/// Names the atomics inside `object`, which lives until the execution ends, for the trace.
template <class T>
void name(const T& object, const char* text) {
    detail::name_region(&object, sizeof(T), text);
}

/// Marks the life of something that is no model object: `touch()` wherever it is used,
/// `destroy()` where it is freed. A touch after, or not ordered before, the end is a violation.
class lifetime {
public:
    void touch(const char* what = "object") const { detail::plain_read(history_, what); }
    void destroy(const char* what = "object") {
        detail::plain_write(history_, what);
        history_.alive = false;
    }
    bool alive() const { return history_.alive; }

private:
    mutable detail::access_history history_;
};

template <class T>
class atomic {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
    using where_type = std::source_location;

public:
    using value_type = T;
    static constexpr bool is_always_lock_free = true;

    atomic() : atomic(T{}) {}
    atomic(T value) : location_(detail::create_location(encode(value), this)) {}
    ~atomic() { detail::destroy_location(location_); }
    atomic(const atomic&) = delete;
    atomic& operator=(const atomic&) = delete;

    T load(std::memory_order order, where_type where = where_type::current()) const {
        return decode(detail::load(location_, order, where));
    }
    void store(T value, std::memory_order order, where_type where = where_type::current()) {
        detail::store(location_, encode(value), order, where);
    }
    T exchange(T value, std::memory_order order, where_type where = where_type::current()) {
        return modify("exchange", order, where, [&](T) { return value; });
    }
    bool compare_exchange_strong(T& expected, T desired, std::memory_order success,
                                 std::memory_order failure,
                                 where_type where = where_type::current()) {
        return compare_exchange(expected, desired, success, failure, false, where);
    }
    bool compare_exchange_strong(T& expected, T desired, std::memory_order order,
                                 where_type where = where_type::current()) {
        return compare_exchange(expected, desired, order, failure_of(order), false, where);
    }
    bool compare_exchange_weak(T& expected, T desired, std::memory_order success,
                               std::memory_order failure,
                               where_type where = where_type::current()) {
        return compare_exchange(expected, desired, success, failure, true, where);
    }
    bool compare_exchange_weak(T& expected, T desired, std::memory_order order,
                               where_type where = where_type::current()) {
        return compare_exchange(expected, desired, order, failure_of(order), true, where);
    }
    T fetch_add(T operand, std::memory_order order,
                where_type where = where_type::current()) requires std::is_integral_v<T> {
        return modify("add", order, where, [&](T old) { return static_cast<T>(old + operand); });
    }
    T fetch_sub(T operand, std::memory_order order,
                where_type where = where_type::current()) requires std::is_integral_v<T> {
        return modify("sub", order, where, [&](T old) { return static_cast<T>(old - operand); });
    }
    T fetch_or(T operand, std::memory_order order,
               where_type where = where_type::current()) requires std::is_integral_v<T> {
        return modify("or", order, where, [&](T old) { return static_cast<T>(old | operand); });
    }
    T fetch_and(T operand, std::memory_order order,
                where_type where = where_type::current()) requires std::is_integral_v<T> {
        return modify("and", order, where, [&](T old) { return static_cast<T>(old & operand); });
    }
    T fetch_xor(T operand, std::memory_order order,
                where_type where = where_type::current()) requires std::is_integral_v<T> {
        return modify("xor", order, where, [&](T old) { return static_cast<T>(old ^ operand); });
    }

    /// The newest value, for checks and `block_until`: no operation of the program.
    T peek() const { return decode(detail::newest(location_)); }
    unsigned location() const { return location_; }

private:
    static std::uint64_t encode(T value) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, &value, sizeof(T));
        return bits;
    }
    static T decode(std::uint64_t bits) {
        T value;
        std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
        return value;
    }
    static constexpr std::memory_order failure_of(std::memory_order order) {
        if (order == std::memory_order::acq_rel) return std::memory_order::acquire;
        if (order == std::memory_order::release) return std::memory_order::relaxed;
        return order;
    }
    template <class Operation>
    T modify(const char* what, std::memory_order order, const where_type& where,
             Operation operation) {
        const T old = decode(detail::rmw_begin(location_, where));
        detail::rmw_commit(location_, encode(operation(old)), order, what, where);
        return old;
    }
    bool compare_exchange(T& expected, T desired, std::memory_order success,
                          std::memory_order failure, bool weak, const where_type& where) {
        const std::uint64_t old = detail::rmw_begin(location_, where);
        if (old == encode(expected) && !(weak && detail::fails_spuriously())) {
            detail::rmw_commit(location_, encode(desired), success, "cas", where);
            return true;
        }
        detail::rmw_fail(location_, failure, where);
        expected = decode(old);
        return false;
    }

    unsigned location_;
};

/// Stands for a plain variable: every read and every assignment is checked for data races. Not a
/// scheduling point.
template <class T>
class var {
public:
    var() = default;
    var(T value) : value_(std::move(value)) {}
    var(const var& other) : value_(other.get()) {}
    ~var() {
        detail::plain_write(history_, "variable");
        history_.alive = false;
    }
    var& operator=(T value) {
        set(std::move(value));
        return *this;
    }
    var& operator=(const var& other) {
        set(other.get());
        return *this;
    }
    operator T() const { return get(); }
    T operator->() const requires std::is_pointer_v<T> { return get(); }

    T get() const {
        detail::plain_read(history_, "variable");
        return value_;
    }
    void set(T value) {
        detail::plain_write(history_, "variable");
        value_ = std::move(value);
    }
    /// For checks: no operation of the program.
    const T& peek() const { return value_; }

private:
    T value_{};
    mutable detail::access_history history_;
};

/// A plain variable of the model's own bookkeeping, shared by its threads: no operation of the
/// program, always up to date, and seen by the reduction (reduction.hpp).
template <class T>
class shared {
public:
    shared(T value = {}) : value_(std::move(value)), id_(detail::create_shared()) {}
    shared(const shared&) = delete;
    shared& operator=(const shared& other) { return *this = other.get(); }
    shared& operator=(T value) {
        detail::shared_write(id_);
        value_ = std::move(value);
        return *this;
    }
    operator T() const { return get(); }
    T get() const {
        detail::shared_read(id_);
        return value_;
    }
    shared& operator++() { return *this = get() + 1; }
    shared& operator--() { return *this = get() - 1; }

private:
    T value_;
    unsigned id_;
};

/// The layer of the models: satisfies what `weft::detail::std_layer` offers.
struct model_layer {
    template <class T>
    using atomic = model::atomic<T>;
    template <class T>
    using var = model::var<T>;

    static void pause() { detail::pause(); }
    static void yield_thread() { detail::pause(); }

    /// Blocks while the newest value of `word` is `expected`, until `futex_wake`. As in the kernel
    /// the comparison is atomic with going to sleep, and nothing else is ordered by it.
    static void futex_wait(atomic<std::uint32_t>& word, std::uint32_t expected) {
        detail::futex_wait(word.location(), expected, false);
    }
    /// The same with a time limit, which may be reached at any moment.
    static void futex_wait_timed(atomic<std::uint32_t>& word, std::uint32_t expected) {
        detail::futex_wait(word.location(), expected, true);
    }
    static void futex_wake(atomic<std::uint32_t>& word, unsigned count) {
        detail::futex_wake(word.location(), count);
    }
};

}  // namespace weft::model
