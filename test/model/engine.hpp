// SPDX-License-Identifier: MIT
#pragma once

// One execution of a body: the search (search.hpp), the fibers (fibers.hpp), the memory model
// (memory.hpp), the reduction (reduction.hpp) and the trace (trace.hpp), put together.
//
// Each operation of a model is the same sequence: a scheduling point, at which another thread may
// go first; a look at whether the location may be touched; the effect on the memory model; a note
// for the reduction and one for the trace. Outside an execution (in a destructor after it was left,
// or in a check of the body when it is over) operations act on the newest value.

#include "explorer.hpp"
#include "fibers.hpp"
#include "memory.hpp"
#include "reduction.hpp"
#include "search.hpp"
#include "trace.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weft::model {

enum class execution_outcome : unsigned char {
    complete,
    cut_short,  ///< An equivalent one is explored (reduction.hpp).
    violated,
};

class engine {
public:
    search decisions;
    memory locations{decisions};
    reduction shorter;
    fibers threads{decisions, locations, shorter};
    trace events;

    std::string violation;
    std::uint64_t total_steps = 0;

    execution_outcome run(body_function body);
    /// Both leave the execution for good; no destructor of the model runs.
    [[noreturn]] void fail(std::string text);
    [[noreturn]] void cut_short();

    bool passive() const { return !threads.running(); }

    unsigned create(std::uint64_t initial, const void* address);
    void destroy(unsigned id);
    std::uint64_t peek(unsigned id);
    std::uint64_t load(unsigned id, std::memory_order order, const std::source_location& where);
    void store(unsigned id, std::uint64_t value, std::memory_order order,
               const std::source_location& where);
    std::uint64_t begin_modification(unsigned id, const std::source_location& where);
    void modify(unsigned id, std::uint64_t value, std::memory_order order, const char* what,
                const std::source_location& where);
    void fail_to_modify(unsigned id, std::memory_order order, const std::source_location& where);
    void futex_wait(unsigned id, std::uint64_t expected, bool timed);
    void futex_wake(unsigned id, unsigned count);
    void block(bool (*ready)(void*), void* context, const char* why);
    void pause();
    void note(const char* what, std::uint64_t value = 0);
    void* allocate(std::size_t size, std::size_t alignment);

private:
    unsigned self() const { return threads.current(); }
    void access(unsigned id, const std::source_location& where);
    void record(const char* what, unsigned id, const char* order, std::uint64_t value, int index,
                const std::source_location& where);

    execution_outcome outcome_ = execution_outcome::complete;
    std::vector<std::pair<void*, std::size_t>> allocations_;
};

engine& the_engine();

/// The execution is a violation.
[[noreturn]] void violate(std::string text);

}  // namespace weft::model
