// SPDX-License-Identifier: MIT
//
// How a probe reports. Its name begins with the trap, as docs/compilers.md numbers them; a failed
// check shows what it means for weft.
#pragma once

#include "coroutines.hpp"
#include "ledger.hpp"

#include "support/catch.hpp"
#include "support/child_process.hpp"

#include <string>
#include <string_view>

#include <unistd.h>

namespace weft::probe {

/// For a shape that weft's rules forbid: a compiler that handles it wrongly is reported, and the
/// probe does not fail. The same probe checks the shape that weft uses instead.
inline void report_avoided(std::string_view trap, const std::string& fault, std::string_view rule) {
    if (!fault.empty()) {
        WARN("known, avoided: " << trap << ": " << fault << "\n    weft's rule: " << rule);
    }
}

/// How a coroutine is driven from its single possible suspension to its end.
enum class drive { ready, resumed, destroyed };

inline constexpr drive all_drives[] = {drive::ready, drive::resumed, drive::destroyed};

inline const char* name_of(drive way) noexcept {
    switch (way) {
        case drive::ready:
            return "ready at once";
        case drive::resumed:
            return "suspended and resumed";
        case drive::destroyed:
            return "suspended and destroyed";
    }
    return "";
}

/// Drives `make(suspends)` in one way and returns what is wrong with it; empty if nothing. The
/// coroutine is to leave `expected` in `observed` if it runs to its end.
template <class Make>
std::string fault_of(Make make, drive way, int expected) {
    live_objects.close();
    observed = 0;
    bool ended = false;
    {
        routine made = make(way != drive::ready);
        made.resume();
        if (way == drive::resumed && !made.done()) parked.resume();
        made.rethrow();
        ended = made.done();
    }
    std::string fault = live_objects.close();
    if (way == drive::destroyed) {
        if (ended) fault += "did not suspend; ";
    } else {
        if (!ended) fault += "did not end; ";
        if (observed != expected) fault += "gave " + std::to_string(observed) + "; ";
    }
    return fault.empty() ? fault : std::string(name_of(way)) + ": " + fault;
}

/// The faults of all three ways.
template <class Make>
std::string faults_of(Make make, int expected = 7) {
    std::string faults;
    for (const drive way : all_drives) faults += fault_of(make, way, expected);
    return faults;
}

/// Calls `body` in a child process, for shapes that may crash or overflow the stack. Empty if the
/// child came back and `body` returned true.
template <class Body>
std::string fault_in_child(Body body) {
    const auto result = weft::test::run_in_child([&body] {
        if (!body()) ::_exit(1);
    });
    if (result.hung) return "hangs";
    if (result.signal != 0) return "ends with signal " + std::to_string(result.signal);
    if (result.status != 0) return "gives a wrong result, or a sanitizer's report";
    return {};
}

}  // namespace weft::probe
