// SPDX-License-Identifier: MIT
#include "commands.hpp"

#include "key_commands.hpp"
#include "server_commands.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace kv {

namespace {

// Sorted by name, for find_command.
constexpr std::array command_table{
    command{"command", -1, "loading stale", 0, 0, 0, "server", "2.8.13",
            "Get array of command details", execute_command},
    command{"config", -2, "admin loading stale", 0, 0, 0, "server", "2.0.0",
            "Get the values of configuration parameters", execute_config},
    command{"dbsize", 1, "readonly fast", 0, 0, 0, "server", "1.0.0", "Return the number of keys",
            execute_dbsize},
    command{"del", -2, "write", 1, -1, 1, "generic", "1.0.0", "Delete keys", execute_del},
    command{"echo", 2, "fast", 0, 0, 0, "connection", "1.0.0", "Echo the given string",
            execute_echo},
    command{"exists", -2, "readonly fast", 1, -1, 1, "generic", "1.0.0",
            "Count the given keys that exist", execute_exists},
    command{"expire", -3, "write fast", 1, 1, 1, "generic", "1.0.0",
            "Set the time to live of a key in seconds", execute_expire},
    command{"flushall", -1, "write", 0, 0, 0, "server", "1.0.0", "Remove all keys",
            execute_flushall},
    command{"get", 2, "readonly fast", 1, 1, 1, "string", "1.0.0", "Get the value of a key",
            execute_get},
    command{"incr", 2, "write denyoom fast", 1, 1, 1, "string", "1.0.0",
            "Increment the integer value of a key by one", execute_incr},
    command{"info", -1, "loading stale", 0, 0, 0, "server", "1.0.0",
            "Get information and statistics about the server", execute_info},
    command{"ping", -1, "fast", 0, 0, 0, "connection", "1.0.0", "Ping the server", execute_ping},
    command{"quit", -1, "noscript loading stale fast", 0, 0, 0, "connection", "1.0.0",
            "Close the connection", execute_quit},
    command{"set", -3, "write denyoom", 1, 1, 1, "string", "1.0.0", "Set the string value of a key",
            execute_set},
    command{"ttl", 2, "readonly fast", 1, 1, 1, "generic", "1.0.0",
            "Get the time to live of a key in seconds", execute_ttl},
};
static_assert(std::ranges::is_sorted(command_table, {}, &command::name));

char lower(char byte) noexcept {
    return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte - 'A' + 'a') : byte;
}

/// Redis quotes at most 128 bytes of a name, and stops quoting arguments after 128 bytes of them.
constexpr std::size_t quoted_bytes = 128;

void reply_unknown_command(argument_list request, reply& out) {
    std::string quoted;
    for (const std::string_view argument : request.without_first(1)) {
        if (quoted.size() >= quoted_bytes) break;
        const std::string_view shown = argument.substr(0, quoted_bytes - quoted.size());
        quoted += '\'';
        quoted += shown;
        quoted += "' ";
    }
    out.error("ERR unknown command '" + std::string(request[0].substr(0, quoted_bytes)) +
              "', with args beginning with: " + quoted);
}

void reply_too_many_words(reply& out, std::string_view command) {
    out.error("ERR too many arguments for '" + std::string(command) + "' command");
}

}  // namespace

std::span<const command> all_commands() noexcept {
    return command_table;
}

const command* find_command(std::string_view name) noexcept {
    std::array<char, 16> small;
    if (name.size() > small.size()) return nullptr;
    std::ranges::transform(name, small.begin(), lower);
    const std::string_view wanted(small.data(), name.size());
    const auto found = std::ranges::lower_bound(command_table, wanted, {}, &command::name);
    return found != command_table.end() && found->name == wanted ? &*found : nullptr;
}

void execute(argument_list request, command_context& context) {
    const command* const found = find_command(request[0]);
    if (found == nullptr) return reply_unknown_command(request, context.out);
    if (!found->accepts(request.size())) return reply_wrong_arity(context.out, found->name);
    if (!found->takes_many_keys()) {
        if (request.size() > most_words) return reply_too_many_words(context.out, found->name);
        context.spend(request.size() - 1);
    }
    found->handler(request, context);
}

bool same_word(std::string_view left, std::string_view right) noexcept {
    return std::ranges::equal(left, right, {}, lower, lower);
}

void reply_wrong_arity(reply& out, std::string_view command) {
    out.error("ERR wrong number of arguments for '" + std::string(command) + "' command");
}

void reply_unknown_subcommand(reply& out, std::string_view command, std::string_view subcommand) {
    out.error("ERR unknown subcommand '" + std::string(subcommand.substr(0, quoted_bytes)) +
              "'. Try " + std::string(command) + " HELP.");
}

void reply_syntax_error(reply& out) {
    out.error("ERR syntax error");
}

void reply_not_an_integer(reply& out) {
    out.error("ERR value is not an integer or out of range");
}

}  // namespace kv
