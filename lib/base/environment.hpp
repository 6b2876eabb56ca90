// SPDX-License-Identifier: MIT
#pragma once

#include <weft/runtime_options.hpp>

#include <cstdint>

namespace weft::detail {

/// The largest number of workers that a runtime may have.
inline constexpr unsigned largest_processor_count = 1024;

/// How many processors to use: WEFT_MAXPROCS, else the option, else what this process may run on.
/// Throws std::invalid_argument that names the value and the allowed range.
std::uint32_t resolve_processors(const runtime_options& options);

/// Which netpoller to use: WEFT_NETPOLL, else the option. Throws std::invalid_argument.
netpoll_backend resolve_backend(netpoll_backend option);

}  // namespace weft::detail
