// SPDX-License-Identifier: MIT
//
// Shapes that crash or are refused by some compilers. Each lies in a file of its own, which the
// build leaves out where it does not compile, so that the other probes still run.
#pragma once

#include "coroutines.hpp"

namespace weft::probe {

#if WEFT_PROBE_BRACED_LIST
routine braced_list_of_awaits(bool suspends);
routine braced_list_beside_await(bool suspends);
#endif

#if WEFT_PROBE_STATEMENT_EXPRESSION
routine await_in_statement_expression(bool suspends);
#endif

}  // namespace weft::probe
