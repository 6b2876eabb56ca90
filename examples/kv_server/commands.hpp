// SPDX-License-Identifier: MIT
#pragma once

#include "argument_list.hpp"
#include "information.hpp"
#include "reply.hpp"
#include "store.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace kv {

/// How far a command over many keys has come. It belongs to the client, and is zero when a command
/// begins.
struct command_progress {
    bool unfinished = false;  ///< set by a handler that is to be called again in the next turn
    std::size_t done = 0;     ///< keys or shards
    std::int64_t sum = 0;     ///< what the reply will be
};

/// What a command works on. `now` is one time for all commands of a batch.
struct command_context {
    store& data;
    const server_information& server;
    time_point now;
    reply& out;
    std::size_t& words_left;  ///< arguments, or removed keys, before other clients get their turn
    command_progress& progress;
    bool close = false;  ///< set by a command: the connection ends when its replies are sent

    void spend(std::size_t words) noexcept { words_left -= std::min(words, words_left); }
};

/// Commands have at most so many arguments, their names included, unless all but the name are keys:
/// replies and the time that they take stay within bounds. Redis has no such limit.
inline constexpr std::size_t most_words = 1024;

/// A handler adds exactly one reply to the context. It never suspends, and it may rely on the
/// number of arguments that its command asks for. One that works on many keys does as many as
/// context.words_left allows; if some are left it adds no reply, and is called again with the same
/// arguments and the same progress.
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

    /// Are all arguments keys?
    bool takes_many_keys() const noexcept { return last_key < 0; }
};

/// All commands, in the order of their names.
std::span<const command> all_commands() noexcept;

/// The command of a name in any case, or nullptr.
const command* find_command(std::string_view name) noexcept;

/// Executes one request, which has at least one argument, and adds its one reply; or a part of it,
/// and sets context.progress.unfinished.
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
