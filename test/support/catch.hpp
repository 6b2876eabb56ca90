// SPDX-License-Identifier: MIT
#pragma once

// Catch2 in version 3 (Debian 13) or in version 2.13 (Debian 12), under one name. Tests include
// this header and use only what both versions have.

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#define WEFT_TEST_CATCH_MAJOR 3
#else
#include <catch2/catch.hpp>
#define WEFT_TEST_CATCH_MAJOR 2
#endif
