// SPDX-License-Identifier: MIT
#include "server_commands.hpp"

#include "glob.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kv {

namespace {

std::size_t count_words(std::string_view text) {
    return text.empty() ? 0 : 1 + static_cast<std::size_t>(std::ranges::count(text, ' '));
}

/// Calls `use` with each word of a text in which one space separates words.
template <class Use>
void for_each_word(std::string_view text, Use use) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        use(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

/// The ten elements with which Redis 7 describes a command.
void describe_command(const command& shown, reply& out) {
    out.array(10);
    out.bulk(shown.name);
    out.integer(shown.arity);
    out.array(count_words(shown.flags));
    for_each_word(shown.flags, [&out](std::string_view flag) { out.status(flag); });
    out.integer(shown.first_key);
    out.integer(shown.last_key);
    out.integer(shown.key_step);
    // Access categories, tips, key specifications and subcommands: none are kept.
    for (int list = 0; list < 4; ++list) out.array(0);
}

void document_command(const command& shown, reply& out) {
    out.bulk(shown.name);
    out.array(6);
    out.bulk("summary");
    out.bulk(shown.summary);
    out.bulk("since");
    out.bulk(shown.since);
    out.bulk("group");
    out.bulk(shown.group);
}

void describe_commands(argument_list names, reply& out) {
    out.array(names.size());
    for (const std::string_view name : names) {
        if (const command* const found = find_command(name)) {
            describe_command(*found, out);
        } else {
            out.null();
        }
    }
}

/// Commands that are not known are left out, as in Redis.
void document_commands(argument_list names, reply& out) {
    std::vector<const command*> found;
    for (const std::string_view name : names) {
        if (const command* const one = find_command(name)) found.push_back(one);
    }
    if (names.empty()) {
        for (const command& each : all_commands()) found.push_back(&each);
    }
    out.array(found.size() * 2);
    for (const command* const one : found) document_command(*one, out);
}

void get_settings(argument_list patterns, command_context& context) {
    std::vector<const std::pair<std::string, std::string>*> found;
    for (const auto& setting : context.server.settings) {
        const auto matches = [&setting](std::string_view pattern) {
            return glob_match(pattern, setting.first);
        };
        if (std::ranges::any_of(patterns, matches)) found.push_back(&setting);
    }
    context.out.array(found.size() * 2);
    for (const auto* const setting : found) {
        context.out.bulk(setting->first);
        context.out.bulk(setting->second);
    }
}

}  // namespace

void execute_ping(argument_list arguments, command_context& context) {
    if (arguments.size() > 2) return reply_wrong_arity(context.out, "ping");
    if (arguments.size() == 2) return context.out.bulk(arguments[1]);
    context.out.status("PONG");
}

void execute_echo(argument_list arguments, command_context& context) {
    context.out.bulk(arguments[1]);
}

void execute_quit(argument_list, command_context& context) {
    context.out.status("OK");
    context.close = true;
}

void execute_command(argument_list arguments, command_context& context) {
    reply& out = context.out;
    if (arguments.size() == 1) {
        out.array(all_commands().size());
        for (const command& each : all_commands()) describe_command(each, out);
        return;
    }
    const argument_list rest = arguments.without_first(2);
    if (same_word(arguments[1], "count")) {
        if (!rest.empty()) return reply_wrong_arity(out, "command|count");
        return out.integer(static_cast<std::int64_t>(all_commands().size()));
    }
    if (same_word(arguments[1], "docs")) return document_commands(rest, out);
    if (same_word(arguments[1], "info")) return describe_commands(rest, out);
    reply_unknown_subcommand(out, "COMMAND", arguments[1]);
}

void execute_config(argument_list arguments, command_context& context) {
    if (!same_word(arguments[1], "get")) {
        return reply_unknown_subcommand(context.out, "CONFIG", arguments[1]);
    }
    if (arguments.size() == 2) return reply_wrong_arity(context.out, "config|get");
    get_settings(arguments.without_first(2), context);
}

void execute_info(argument_list arguments, command_context& context) {
    const argument_list names = arguments.without_first(1);
    const auto wants = [names](std::string_view section) {
        const auto asks = [section](std::string_view name) {
            return same_word(name, section) || same_word(name, "all") ||
                   same_word(name, "default") || same_word(name, "everything");
        };
        return names.empty() || std::ranges::any_of(names, asks);
    };
    // A value and not a view, because the text must live until it is sent.
    context.out.bulk(std::make_shared<const std::string>(
        describe_server(context.server, context.data, context.now, wants)));
}

}  // namespace kv
