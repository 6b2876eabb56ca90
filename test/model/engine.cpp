// SPDX-License-Identifier: MIT

#include "engine.hpp"

#include <weft/detail/base/assert.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

namespace weft::model {

using std::memory_order;

engine& the_engine() {
    static engine instance;
    return instance;
}

void violate(std::string text) {
    the_engine().fail(std::move(text));
}

execution_outcome engine::run(body_function body) {
    violation.clear();
    outcome_ = execution_outcome::complete;
    decisions.begin_execution();
    locations.begin_execution();
    shorter.begin_execution(decisions.options.reduce && !decisions.random && !events.enabled,
                            decisions.options.stale_reads != 0);
    events.begin_execution();
    threads.run(body);
    total_steps += threads.steps();
    for (auto& [memory, alignment] : allocations_) {
        ::operator delete(memory, std::align_val_t(alignment));
    }
    allocations_.clear();
    return outcome_;
}

void engine::fail(std::string text) {
    if (passive()) {
        std::fprintf(stderr, "model: %s, outside of an execution\n", text.c_str());
        std::exit(2);
    }
    outcome_ = execution_outcome::violated;
    note("VIOLATION");
    violation = std::move(text);
    threads.leave_execution();
}

void engine::cut_short() {
    outcome_ = execution_outcome::cut_short;
    threads.leave_execution();
}

// ---- atomics

unsigned engine::create(std::uint64_t initial, const void* address) {
    return locations.create(self(), initial, address);
}

void engine::access(unsigned id, const std::source_location& where) {
    if (const char* wrong = locations.begin_access(self(), id)) {
        record("touch", id, "", 0, -1, where);
        fail(wrong);
    }
}

void engine::destroy(unsigned id) {
    if (passive()) return;
    access(id, std::source_location());
    record("destroy", id, "", locations.newest(id), -1, std::source_location());
    shorter.write(id);
    locations.destroy(self(), id);
}

std::uint64_t engine::peek(unsigned id) {
    if (!passive() && !threads.observing()) shorter.read(id);
    return locations.newest(id);
}

std::uint64_t engine::load(unsigned id, memory_order order, const std::source_location& where) {
    if (passive()) return locations.newest(id);
    threads.point();
    access(id, where);
    shorter.read(id, order == memory_order::seq_cst);
    const unsigned index = locations.load(self(), id, order);
    const std::uint64_t value = locations.value(id, index);
    record("load", id, order_name(order), value, static_cast<int>(index), where);
    return value;
}

void engine::store(unsigned id, std::uint64_t value, memory_order order,
                   const std::source_location& where) {
    if (passive()) return locations.set_newest(id, value);
    threads.point();
    access(id, where);
    shorter.write(id);
    const unsigned index = locations.store(self(), id, value, order);
    threads.progress();
    record("store", id, order_name(order), value, static_cast<int>(index), where);
}

std::uint64_t engine::begin_modification(unsigned id, const std::source_location& where) {
    if (passive()) return locations.newest(id);
    threads.point();
    access(id, where);
    return locations.newest(id);
}

void engine::modify(unsigned id, std::uint64_t value, memory_order order, const char* what,
                    const std::source_location& where) {
    if (passive()) return locations.set_newest(id, value);
    shorter.write(id);
    const unsigned index = locations.modify(self(), id, value, order);
    threads.progress();
    record(what, id, order_name(order), value, static_cast<int>(index), where);
}

void engine::fail_to_modify(unsigned id, memory_order order, const std::source_location& where) {
    if (passive()) return;
    shorter.read(id, order == memory_order::seq_cst);
    const unsigned index = locations.fail_to_modify(self(), id, order);
    record("cas failed", id, order_name(order), locations.value(id, index),
           static_cast<int>(index), where);
}

// ---- waiting

void engine::pause() {
    if (passive() || self() == 0) return;
    note("pause");
    threads.pause();
}

void engine::block(bool (*ready)(void*), void* context, const char* why) {
    if (passive()) return;
    note(why);
    threads.block(ready, context, why);
}

void engine::futex_wait(unsigned id, std::uint64_t expected, bool timed) {
    if (passive() || self() == 0) return;
    threads.point();
    access(id, std::source_location());
    shorter.write(id);
    record("futex_wait", id, timed ? "timed" : "", expected, -1, std::source_location());
    if (locations.newest(id) != expected) return;
    if (timed && decisions.decide(2) == 1) return;
    threads.sleep_in_futex(id, timed);
}

void engine::futex_wake(unsigned id, unsigned count) {
    if (passive()) return;
    threads.point();
    access(id, std::source_location());
    shorter.write(id);
    record("futex_wake", id, "", count, -1, std::source_location());
    threads.wake_from_futex(id, count);
}

// ---- the rest

void engine::record(const char* what, unsigned id, const char* order, std::uint64_t value,
                    int index, const std::source_location& where) {
    if (!events.enabled) return;
    events.add({.thread = self(),
                .thread_name = threads.name(self()),
                .what = what,
                .location = static_cast<int>(id),
                .order = order,
                .value = value,
                .index = index,
                .newest = static_cast<int>(locations.last(id)),
                .where = where});
}

void engine::note(const char* what, std::uint64_t value) {
    if (passive() || !events.enabled) return;
    events.add({.thread = self(),
                .thread_name = threads.name(self()),
                .what = what,
                .value = value});
}

void* engine::allocate(std::size_t size, std::size_t alignment) {
    void* memory = ::operator new(size, std::align_val_t(alignment));
    std::memset(memory, 0, size);
    allocations_.emplace_back(memory, alignment);
    return memory;
}

// ---- what explorer.hpp declares

void fail(const char* text) {
    violate(text);
}
void note(const char* text, std::uint64_t value) {
    the_engine().note(text, value);
}
unsigned choose(unsigned count) {
    return the_engine().passive() ? 0 : the_engine().decisions.decide(count);
}
void may_sleep_for_ever(bool allowed) {
    the_engine().threads.may_sleep(allowed);
}

namespace detail {

unsigned create_location(std::uint64_t initial, void* address) {
    return the_engine().create(initial, address);
}
void destroy_location(unsigned location) {
    the_engine().destroy(location);
}
void name_region(const void* begin, std::size_t size, const char* name) {
    the_engine().events.name_region(begin, size, name);
}
std::uint64_t newest(unsigned location) {
    return the_engine().peek(location);
}
std::uint64_t load(unsigned location, memory_order order, const std::source_location& where) {
    return the_engine().load(location, order, where);
}
void store(unsigned location, std::uint64_t value, memory_order order,
           const std::source_location& where) {
    the_engine().store(location, value, order, where);
}
std::uint64_t rmw_begin(unsigned location, const std::source_location& where) {
    return the_engine().begin_modification(location, where);
}
void rmw_commit(unsigned location, std::uint64_t value, memory_order order, const char* what,
                const std::source_location& where) {
    the_engine().modify(location, value, order, what, where);
}
void rmw_fail(unsigned location, memory_order order, const std::source_location& where) {
    the_engine().fail_to_modify(location, order, where);
}
bool fails_spuriously() {
    engine& machine = the_engine();
    return !machine.passive() && machine.threads.current() != 0 &&
           machine.decisions.fails_spuriously();
}
void plain_read(access_history& history, const char* what) {
    engine& machine = the_engine();
    if (machine.passive()) return;
    machine.locations.plain_read(machine.threads.current(), history, what);
}
void plain_write(access_history& history, const char* what) {
    engine& machine = the_engine();
    if (machine.passive()) return;
    machine.locations.plain_write(machine.threads.current(), history, what);
}
unsigned create_shared() {
    return the_engine().shorter.create_shared();
}
void shared_read(unsigned id) {
    engine& machine = the_engine();
    if (!machine.passive() && !machine.threads.observing()) machine.shorter.read_shared(id);
}
void shared_write(unsigned id) {
    if (!the_engine().passive()) the_engine().shorter.write_shared(id);
}
void pause() {
    the_engine().pause();
}
void block(bool (*ready)(void*), void* context, const char* why) {
    the_engine().block(ready, context, why);
}
void futex_wait(unsigned location, std::uint64_t expected, bool timed) {
    the_engine().futex_wait(location, expected, timed);
}
void futex_wake(unsigned location, unsigned count) {
    the_engine().futex_wake(location, count);
}
void run_threads(const thread_function* functions, unsigned count) {
    if (!the_engine().passive()) the_engine().threads.run_threads(functions, count);
}
void* allocate(std::size_t size, std::size_t alignment) {
    return the_engine().allocate(size, alignment);
}

}  // namespace detail

}  // namespace weft::model

// What weft's own checks call: in a model they are violations.
namespace weft::detail {

void fatal(std::string_view message) noexcept {
    model::violate(std::string(message));
}

void assertion_failed(const char* condition, std::source_location where) noexcept {
    model::violate(std::string("assertion failed: ") + condition + ", line " +
                   std::to_string(where.line()));
}

}  // namespace weft::detail
