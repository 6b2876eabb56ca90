// SPDX-License-Identifier: MIT
#include "key_commands.hpp"

#include "integer.hpp"

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace kv {

namespace {

/// The time that lies a number of units (milliseconds each) after `now`. Empty if 64 bits of
/// milliseconds do not hold it.
std::optional<time_point> after(time_point now, std::int64_t count, std::int64_t unit) {
    std::int64_t milliseconds = 0;
    if (__builtin_mul_overflow(count, unit, &milliseconds)) return {};
    if (__builtin_add_overflow(milliseconds, now.time_since_epoch().count(), &milliseconds)) {
        return {};
    }
    const time_point time{std::chrono::milliseconds(milliseconds)};
    if (time == never) return {};
    return time;
}

void reply_invalid_expiry(reply& out, std::string_view command) {
    out.error("ERR invalid expire time in '" + std::string(command) + "' command");
}

void bulk_or_null(reply& out, const value& bytes) {
    if (bytes == nullptr) {
        out.null();
    } else {
        out.bulk(bytes);
    }
}

/// The options behind key and value of SET. Replies and returns nothing where they are wrong.
/// As in Redis an option may be repeated; the last one counts.
class set_parser {
public:
    explicit set_parser(command_context& context) : context_(context) {}

    bool parse(argument_list words) {
        for (auto word = words.begin(); word != words.end(); ++word) {
            if (same_word(*word, "nx") && !only_if_present_) {
                only_if_absent_ = true;
            } else if (same_word(*word, "xx") && !only_if_absent_) {
                only_if_present_ = true;
            } else if (same_word(*word, "get")) {
                returns_previous_ = true;
            } else if (same_word(*word, "keepttl") && unit_ == 0) {
                keep_expiry_ = true;
            } else if (const auto unit = unit_of(*word); unit != 0 && may_expire_in(unit)) {
                unit_ = unit;
                if (++word == words.end()) return syntax_error();
                lifetime_ = *word;
            } else {
                return syntax_error();
            }
        }
        return unit_ == 0 || parse_lifetime();
    }

    bool returns_previous() const { return returns_previous_; }

    set_options options() const {
        auto condition = set_condition::always;
        if (only_if_absent_) condition = set_condition::if_absent;
        if (only_if_present_) condition = set_condition::if_present;
        return {.condition = condition, .keep_expiry = keep_expiry_, .expiry = expiry_};
    }

private:
    static std::int64_t unit_of(std::string_view word) {
        if (same_word(word, "ex")) return 1000;
        if (same_word(word, "px")) return 1;
        return 0;
    }

    bool may_expire_in(std::int64_t unit) const {
        return !keep_expiry_ && (unit_ == 0 || unit_ == unit);
    }

    bool syntax_error() {
        reply_syntax_error(context_.out);
        return false;
    }

    bool parse_lifetime() {
        const auto count = parse_integer(lifetime_);
        if (!count) {
            reply_not_an_integer(context_.out);
            return false;
        }
        const auto expiry = *count > 0 ? after(context_.now, *count, unit_) : std::nullopt;
        if (!expiry) {
            reply_invalid_expiry(context_.out, "set");
            return false;
        }
        expiry_ = *expiry;
        return true;
    }

    command_context& context_;
    bool only_if_absent_ = false;
    bool only_if_present_ = false;
    bool returns_previous_ = false;
    bool keep_expiry_ = false;
    std::int64_t unit_ = 0;  ///< milliseconds in one of `lifetime_`, 0 without a lifetime
    std::string_view lifetime_;
    time_point expiry_ = never;
};

/// Replies with how many of the keys `holds` is true for; as many in a turn as may be.
template <class Condition>
void count_keys(argument_list keys, command_context& context, Condition holds) {
    command_progress& progress = context.progress;
    while (progress.done < keys.size()) {
        if (context.words_left == 0) {
            progress.unfinished = true;
            return;
        }
        context.spend(1);
        progress.sum += holds(keys[progress.done++]) ? 1 : 0;
    }
    context.out.integer(progress.sum);
}

}  // namespace

void execute_set(argument_list arguments, command_context& context) {
    set_parser options(context);
    if (!options.parse(arguments.without_first(3))) return;
    const set_result result =
        context.data.set(arguments[1], std::make_shared<const std::string>(arguments[2]),
                         options.options(), context.now);
    if (options.returns_previous()) {
        bulk_or_null(context.out, result.previous);
    } else if (result.written) {
        context.out.status("OK");
    } else {
        context.out.null();
    }
}

void execute_get(argument_list arguments, command_context& context) {
    bulk_or_null(context.out, context.data.get(arguments[1], context.now));
}

void execute_del(argument_list arguments, command_context& context) {
    count_keys(arguments.without_first(1), context,
               [&context](std::string_view key) { return context.data.remove(key, context.now); });
}

void execute_exists(argument_list arguments, command_context& context) {
    count_keys(arguments.without_first(1), context, [&context](std::string_view key) {
        return context.data.contains(key, context.now);
    });
}

void execute_incr(argument_list arguments, command_context& context) {
    const increment_result result = context.data.increment(arguments[1], 1, context.now);
    switch (result.status) {
    case increment_status::done: context.out.integer(result.number); break;
    case increment_status::not_an_integer: reply_not_an_integer(context.out); break;
    case increment_status::overflow:
        context.out.error("ERR increment or decrement would overflow");
        break;
    }
}

void execute_expire(argument_list arguments, command_context& context) {
    const auto seconds = parse_integer(arguments[2]);
    if (!seconds) return reply_not_an_integer(context.out);
    if (arguments.size() > 3) {
        return context.out.error("ERR Unsupported option " +
                                 std::string(arguments[3].substr(0, 128)));
    }
    const auto expiry = after(context.now, *seconds, 1000);
    if (!expiry) return reply_invalid_expiry(context.out, "expire");
    context.out.integer(context.data.set_expiry(arguments[1], *expiry, context.now) ? 1 : 0);
}

void execute_ttl(argument_list arguments, command_context& context) {
    const auto expiry = context.data.expiry(arguments[1], context.now);
    if (!expiry) return context.out.integer(-2);
    if (*expiry == never) return context.out.integer(-1);
    // Rounded to the nearest second, as Redis does.
    const std::int64_t left = (*expiry - context.now).count();
    context.out.integer(left / 1000 + (left % 1000 >= 500 ? 1 : 0));
}

void execute_dbsize(argument_list, command_context& context) {
    context.out.integer(static_cast<std::int64_t>(context.data.size()));
}

void execute_flushall(argument_list arguments, command_context& context) {
    const bool plain = arguments.size() == 1;
    const bool known = arguments.size() == 2 &&
                       (same_word(arguments[1], "async") || same_word(arguments[1], "sync"));
    if (!plain && !known) return reply_syntax_error(context.out);
    command_progress& progress = context.progress;
    while (progress.done < context.data.shards()) {
        if (context.words_left == 0) {
            progress.unfinished = true;
            return;
        }
        context.spend(1 + context.data.clear(progress.done++));
    }
    context.out.status("OK");
}

}  // namespace kv
