// SPDX-License-Identifier: MIT
//
// Trap G4: a braced list of elements in a co_await expression. GCC 12 refuses it, GCC 13 crashes.
#ifndef WEFT_PROBE_BRACED_LIST
#define WEFT_PROBE_BRACED_LIST 1
#endif
#include "ledger.hpp"
#include "shapes.hpp"

#include <vector>

namespace weft::probe {

namespace {

int sum(const std::vector<tracked>& of) {
    int total = 0;
    for (const tracked& each : of) total += each.value();
    return total;
}

give<int> sum_later(const std::vector<tracked>& of, bool suspends) {
    return give<int>(sum(of), suspends);
}

}  // namespace

routine braced_list_of_awaits(bool suspends) {
    observed = sum(
        {co_await give<tracked>(tracked(3), suspends), co_await give<tracked>(tracked(4), false)});
}

routine braced_list_beside_await(bool suspends) {
    observed = co_await sum_later({tracked(1), tracked(2), tracked(4)}, suspends);
}

}  // namespace weft::probe
