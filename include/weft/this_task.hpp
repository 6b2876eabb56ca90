// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/compiler.hpp>

#include <cstdint>
#include <source_location>
#include <string_view>

/// What a task may ask about itself. Each function throws std::logic_error where no task runs.
namespace weft::this_task {

/// A number that no other task of the process has had, of whichever runtime, from 1.
std::uint64_t id();

/// The name given to co_spawn, or an empty text. Valid until the task has ended.
std::string_view name();

/// Where the task was spawned.
std::source_location spawn_site();

/// Has the innermost scope been stopped, so that the next suspension will throw?
bool stop_requested();

}  // namespace weft::this_task
