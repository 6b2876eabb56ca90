// SPDX-License-Identifier: MIT
#pragma once

#include "argument_list.hpp"
#include "information.hpp"
#include "reply.hpp"
#include "store.hpp"

#include <span>
#include <string_view>

namespace kv {

/// What a command works on. `now` is one time for all commands of a batch.
struct command_context {
    store& data;
    const server_information& server;
    time_point now;
    reply& out;
    bool close = false;  ///< set by a command: the connection ends when its replies are sent
};

/// A handler adds exactly one reply to the context. It never suspends, and it may rely on the
/// number of arguments that its command asks for.
using command_handler = void (*)(argument_list arguments, command_context& context);

struct command {
    std::string_view name;   ///< in small letters
    int arity;               ///< as Redis counts: with the name; -n means n or more
    std::string_view flags;  ///< separated by spaces, as COMMAND shows them
    int first_key, last_key, key_step;
    std::string_view group, since, summary;
    command_handler handler;

    bool accepts(std::size_t count) const noexcept {
        return arity >= 0 ? count == static_cast<std::size_t>(arity)
                          : count >= static_cast<std::size_t>(-arity);
    }
};

/// All commands, in the order of their names.
std::span<const command> all_commands() noexcept;

/// The command of a name in any case, or nullptr.
const command* find_command(std::string_view name) noexcept;

/// Executes one request, which has at least one argument, and adds its one reply.
void execute(argument_list request, command_context& context);

/// Compares without regard to the case of ASCII letters.
bool same_word(std::string_view left, std::string_view right) noexcept;

/// The replies for wrong arguments that more than one command gives. A subcommand is named
/// "config|get".
void reply_wrong_arity(reply& out, std::string_view command);
void reply_unknown_subcommand(reply& out, std::string_view command, std::string_view subcommand);
void reply_syntax_error(reply& out);
void reply_not_an_integer(reply& out);

}  // namespace kv
