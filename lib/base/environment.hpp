// SPDX-License-Identifier: MIT
#pragma once

#include <weft/runtime_options.hpp>

#include <cstdint>

namespace weft::detail {

/// The largest number of workers that a runtime may have.
inline constexpr unsigned largest_processor_count = 1024;

/// How many processors to use, and whether somebody chose so.
struct processor_choice {
    std::uint32_t count = 1;
    bool by_hand = false;
};

/// WEFT_MAXPROCS, else the option, else what the machine gives this process. Throws
/// std::invalid_argument that names the value and the allowed range.
processor_choice resolve_processors(const runtime_options& options);

/// What to do about a deadlock: WEFT_DEADLOCK, else the option. Throws std::invalid_argument.
deadlock_action resolve_deadlock(deadlock_action option);

/// Whether each worker gets a core of its own: WEFT_PIN, else the option. Throws
/// std::invalid_argument.
bool resolve_pin(bool option);

/// Which netpoller to use: WEFT_NETPOLL, else the option. Throws std::invalid_argument.
netpoll_backend resolve_backend(netpoll_backend option);

}  // namespace weft::detail
