// SPDX-License-Identifier: MIT
#pragma once

#include "commands.hpp"

namespace kv {

// The handlers of the commands that work on the connection or tell about the server.

void execute_ping(argument_list arguments, command_context& context);
void execute_echo(argument_list arguments, command_context& context);
void execute_quit(argument_list arguments, command_context& context);
void execute_command(argument_list arguments, command_context& context);
void execute_config(argument_list arguments, command_context& context);
void execute_info(argument_list arguments, command_context& context);

}  // namespace kv
