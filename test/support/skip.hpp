// SPDX-License-Identifier: MIT
#pragma once

#include "support/catch.hpp"

namespace weft::test {

/// The test case that runs has tested nothing; support/main.cpp counts it as skipped. Catch2 2.13
/// has no SKIP, so this is what both versions share.
inline bool skipped_case = false;

}  // namespace weft::test

/// Ends a test case that cannot be made here, and says why. In the body of the case only.
#define WEFT_SKIP(reason)                \
    do {                                 \
        weft::test::skipped_case = true; \
        WARN(reason);                    \
        return;                          \
    } while (false)
