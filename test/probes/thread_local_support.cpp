// SPDX-License-Identifier: MIT
#include "thread_local_probe.hpp"

namespace weft::probe {

constinit thread_local mark* inline_mark = nullptr;

[[gnu::noinline]] mark* mark_of_this_thread() noexcept {
    // The empty statement has an effect, as far as the compiler knows, so that no caller may take
    // the result of one call for that of another.
    asm volatile("" ::: "memory");
    return inline_mark;
}

}  // namespace weft::probe
