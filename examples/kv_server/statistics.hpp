// SPDX-License-Identifier: MIT
#pragma once

#include "information.hpp"

#include <string>

namespace kv {

/// Writes the counters of the runtime that the calling task belongs to, for INFO.
void write_runtime_information(information_writer& out);

/// The table that the server prints when it ends: clients, commands, tasks, and what each processor
/// has done. To be called inside a task.
std::string final_report(const server_information& server);

}  // namespace kv
