// SPDX-License-Identifier: MIT
//
// What weft asks of the compiler of whoever includes it, checked where no build system does it, and
// what has to be said to particular compilers. Every public header includes this one.
#pragma once

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "weft needs C++20: compile with -std=c++20 or later (in Meson: cpp_std=c++20)."
#endif

#if defined(__clang__)
#if __clang_major__ < 17
#error "weft needs clang 17 or later. Use a newer one (CXX=clang++-19), or GCC 13."
#endif
#elif defined(__GNUC__)
#if __GNUC__ < 13
#error "weft needs GCC 13 or later: GCC 12 destroys the captures of lambda temporaries in co_await \
expressions twice and overflows the stack in long await loops. Use CXX=clang++-19, or GCC 13."
#endif
#endif

#if !defined(__cpp_exceptions)
#error "weft needs exceptions: tasks report errors and are stopped by them. Compile without \
-fno-exceptions."
#endif

/// For an await_suspend that hands its frame to other threads before it returns: the frame may be
/// gone then. clang before 19 could spill to the frame after that where the function was inlined
/// (LLVM #56301).
#if defined(__clang__) && __clang_major__ < 19
#define WEFT_PUBLISHES_FRAME [[gnu::noinline]]
#else
#define WEFT_PUBLISHES_FRAME
#endif
