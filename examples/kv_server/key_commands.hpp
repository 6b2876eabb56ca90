// SPDX-License-Identifier: MIT
#pragma once

#include "commands.hpp"

namespace kv {

// The handlers of the commands that work on keys.

void execute_set(argument_list arguments, command_context& context);
void execute_get(argument_list arguments, command_context& context);
void execute_del(argument_list arguments, command_context& context);
void execute_exists(argument_list arguments, command_context& context);
void execute_incr(argument_list arguments, command_context& context);
void execute_expire(argument_list arguments, command_context& context);
void execute_ttl(argument_list arguments, command_context& context);
void execute_dbsize(argument_list arguments, command_context& context);
void execute_flushall(argument_list arguments, command_context& context);

}  // namespace kv
