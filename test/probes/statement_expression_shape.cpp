// SPDX-License-Identifier: MIT
//
// Trap G10: co_await inside a statement expression, as TRY macros use it.
#ifndef WEFT_PROBE_STATEMENT_EXPRESSION
#define WEFT_PROBE_STATEMENT_EXPRESSION 1
#endif
#include "ledger.hpp"
#include "shapes.hpp"

namespace weft::probe {

routine await_in_statement_expression(bool suspends) {
    observed = __extension__({
        tracked item = co_await give<tracked>(tracked(3), suspends);
        item.value() + co_await give<int>(4, false);
    });
}

}  // namespace weft::probe
